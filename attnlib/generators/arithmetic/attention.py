"""Where a model that does a sum on paper would look, and what else there is to look at.

For the answer's digit of column $c$ (units 0), written by query $q$:

- **operand column**: the digits of the operands that make column $c$. Of a sum or difference, digit $c$ of
  each; of a product, every digit $i$ for which the other operands have digits whose places add up to $c - i$;
- **carry column**: the same for column $c - 1$, whose carry is added (the units have none).

A carry may come from further down still (99 + 1); the column before settles whether it does in all but those
cases, and no further column is counted. In numbers written backwards, the digit of the answer that was just
written tells the same as its column; it counts as *local*, not as reference.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from attnlib.generators.arithmetic.writing import ANSWER, EQUALS, NOTHING, OPERATOR, SIGN, Writing

KINDS = ("operand column", "carry column", "operator", "local")
"""What a query may look at: `operator` is the operator or =; `local`, the query itself and the one before."""


def looks(
    writing: Writing, is_product: Bool[np.ndarray, " problem"]
) -> dict[str, Bool[np.ndarray, "problem query key"]]:
    """Each of `KINDS`: what every query (the token before the one it predicts) may look at of that kind.

    Queries and keys are BOS and the characters, without the end; kinds overlap.
    """
    length = writing.characters.shape[1]
    causal = np.tril(np.ones((length, length), dtype=bool))
    part, place = writing.parts, writing.places
    column = np.where((part == ANSWER) & (place != SIGN), place, -(10**6))[:, :, None]  # of what it predicts
    keys_part, keys_place = (
        np.pad(x[:, :-1], ((0, 0), (1, 0)), constant_values=NOTHING) for x in (part, place)
    )
    reach = _reach(writing, is_product)
    low, high = keys_place[:, None, :], (keys_place + np.pad(reach[:, :-1], ((0, 0), (1, 0))))[:, None, :]
    is_operand = (keys_part >= 0)[:, None, :]
    masks = {
        "operand column": is_operand & (low <= column) & (column <= high),
        "carry column": is_operand & (low <= column - 1) & (column - 1 <= high),
        "operator": np.isin(keys_part, (OPERATOR, EQUALS))[:, None, :],
        "local": np.triu(causal, -1),
    }
    pairs = causal & writing.real[:, :, None]
    return {kind: mask & pairs for kind, mask in masks.items()}


def answer_digits(writing: Writing) -> Bool[np.ndarray, "problem query"]:
    """Queries that predict a digit of the answer."""
    return (writing.parts == ANSWER) & (writing.places != SIGN)


def _reach(writing: Writing, is_product: Bool[np.ndarray, " problem"]) -> np.ndarray:
    """How many columns above its own place a digit takes part in: the highest places of the other factors."""
    part, place = writing.parts, writing.places
    highest = np.stack(
        [np.where(part == operand, place, 0).max(1) for operand in range(int(part.max()) + 1)], axis=1
    )
    own = np.take_along_axis(highest, np.where(part >= 0, part, 0), axis=1)
    others = highest.sum(1, keepdims=True) - own
    return np.where(is_product[:, None] & (part >= 0), others, 0)
