"""Sentences about the models of one run, which may have learned nothing if a profile trains them briefly."""

from __future__ import annotations

LEARNED = 0.1
"""How far a model's accuracy has to be above chance for sentences about its behaviour."""

MEMORIZED = 0.02
"""How much higher the accuracy on training texts has to be for a model to have memorized a part of them."""


def if_learned(right: float, chance: float, clause: str) -> str:
    """`clause`, the end of a sentence; or a clause that says that the models have hardly learned anything."""
    if right > chance + LEARNED:
        return clause
    return f"the models have hardly learned anything ({100 * right:.0f} % right), so that this cannot be seen"


def memorized_clause(seen: float, unseen: float) -> str:
    """The end of a sentence on whether a model has memorized a part of its training texts."""
    both = (
        f"gets {100 * seen:.2f} % of their tokens right and {100 * unseen:.2f} % of those of test sequences"
    )
    return f"{both}, so {'it has memorized a part' if seen - unseen > MEMORIZED else 'nothing is memorized'}"
