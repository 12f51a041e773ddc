"""Sentences on the models of one run, which learn nothing where a profile trains them for a few steps."""

from __future__ import annotations

LEARNED = 0.1
"""So far above chance a model has to be for what it does to be worth a sentence."""


def if_learned(right: float, chance: float, clause: str) -> str:
    """What a run shows, as the end of a sentence; or that its models have learned too little to show it.

    Args:
        right: the share of answers that its models have right.
        chance: the same by chance.
        clause: what is said of models that have learned.
    """
    if right > chance + LEARNED:
        return clause
    return f"the models have hardly learned anything ({100 * right:.0f} % right), so that this cannot be seen"
