"""Sentences on the models of one run, which learn nothing where a profile trains them for a few steps."""

from __future__ import annotations

LEARNED = 0.1
"""So far above chance a model has to be for what it does to be worth a sentence."""

MEMORIZED = 0.02
"""So much more of training texts a model has to have right for it to have memorized a part of them."""


def if_learned(right: float, chance: float, clause: str) -> str:
    """What a run shows, as the end of a sentence; or that its models have learned too little to show it."""
    if right > chance + LEARNED:
        return clause
    return f"the models have hardly learned anything ({100 * right:.0f} % right), so that this cannot be seen"


def memorized_clause(seen: float, unseen: float) -> str:
    """Whether a model has memorized a part of its training texts, as the end of a sentence on it."""
    both = (
        f"gets {100 * seen:.2f} % of their tokens right and {100 * unseen:.2f} % of those of test sequences"
    )
    return f"{both}, so {'it has memorized a part' if seen - unseen > MEMORIZED else 'nothing is memorized'}"
