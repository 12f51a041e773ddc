"""Where a model that calculates column by column, as on paper, should look, and other kinds of keys.

For the answer's digit of column $c$ (units 0), written by query $q$:

- **operand column**: the digits of the operands that make column $c$: in a sum or difference, digit $c$ of
  each; in a product, every digit $i$ for which the other operands have digits whose places add up to $c - i$;
- **carry column**: the same for column $c - 1$, whose carry is added (the units have none).

A carry may originate in a still lower column (99 + 1). In most cases column $c - 1$ alone determines it, so
lower columns are not counted. In numbers written backwards, the answer digit that was just written gives
the same information as its column; it counts as *local*, not as reference.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from attnlib.generators.arithmetic.writing import ANSWER, EQUALS, NOTHING, OPERATOR, SIGN, Writing

KINDS = ("operand column", "carry column", "operator", "local")
"""Kinds of keys: `operator` is an operator or =; `local` is the query's own position and the one before."""


def looks(
    writing: Writing, is_product: Bool[np.ndarray, " problem"]
) -> dict[str, Bool[np.ndarray, "problem query key"]]:
    """For each of `KINDS`, a mask that is True where the key is of that kind for the query.

    A query is the token before the one it predicts. Queries and keys are BOS and the characters, without the
    end. Kinds overlap.
    """
    length = writing.characters.shape[1]
    causal = np.tril(np.ones((length, length), dtype=bool))
    part, place = writing.parts, writing.places
    column = np.where((part == ANSWER) & (place != SIGN), place, -(10**6))[:, :, None]  # of predicted digits
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
    """True for queries that predict a digit of the answer."""
    return (writing.parts == ANSWER) & (writing.places != SIGN)


def _reach(writing: Writing, is_product: Bool[np.ndarray, " problem"]) -> np.ndarray:
    """How many columns above its own a digit contributes to: in a product, the other factors' top places."""
    part, place = writing.parts, writing.places
    highest = np.stack(
        [np.where(part == operand, place, 0).max(1) for operand in range(int(part.max()) + 1)], axis=1
    )
    own = np.take_along_axis(highest, np.where(part >= 0, part, 0), axis=1)
    others = highest.sum(1, keepdims=True) - own
    return np.where(is_product[:, None] & (part >= 0), others, 0)
