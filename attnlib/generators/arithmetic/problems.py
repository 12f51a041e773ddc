"""Problems as arrays of numbers, with their results and their numbers of carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from attnlib.generators.algorithmic.texts import carried

OPERATORS = "+-*"
"""The possible operators: sum, difference, product."""


@dataclass(frozen=True)
class Problems:
    """Many problems at once; one operator stands between all numbers of a problem.

    Attributes:
        operators: index of each problem's operator in `OPERATORS`.
        operands: each problem's numbers, from left to right, at least 0.
    """

    operators: Int64[np.ndarray, " problem"]
    operands: Int64[np.ndarray, "problem operand"]

    def __len__(self) -> int:
        """How many problems there are."""
        return len(self.operators)

    def __getitem__(self, rows: slice | Sequence[int] | np.ndarray | int) -> Problems:
        """The problems that a slice, list of indices, mask or single index selects."""
        return Problems(np.atleast_1d(self.operators[rows]), np.atleast_2d(self.operands[rows]))

    @property
    def results(self) -> Int64[np.ndarray, " problem"]:
        """The result of each problem; differences are taken from left to right."""
        first, rest = self.operands[:, 0], self.operands[:, 1:].sum(1)
        return np.select(
            [self.operators == 0, self.operators == 1], [first + rest, first - rest], self.operands.prod(1)
        )

    @property
    def ordered(self) -> Problems:
        """The same problems, with sorted operands in sums and products: 34+12 becomes 12+34."""
        free = (self.operators != OPERATORS.index("-"))[:, None]
        return Problems(self.operators, np.where(free, np.sort(self.operands, axis=1), self.operands))

    @property
    def carries(self) -> Int64[np.ndarray, " problem"]:
        r"""The number of columns with a carry (or borrow) when the problem is solved on paper.

        Let $s_c$ be the sum of the digits of column $c$ (in a product, the sum of all $a_i b_j$ with
        $i + j = c$). Column $c$ carries $t_c = \lfloor (s_c + t_{c-1}) / 10 \rfloor$ to the next, and counts
        if $t_c \neq 0$. In a difference, $s_c$ is a digit of the larger side (first number or sum of the
        others) minus one of the smaller, and $t_c = -1$ is a borrow.
        """
        return (carried(self._columns())[1] != 0).sum(1)

    def _columns(self) -> Int64[np.ndarray, "problem column"]:
        """The value of every column before carrying, units first, with columns to spare for carries."""
        first, rest = self.operands[:, :1], self.operands[:, 1:].sum(1, keepdims=True)
        sides = np.concatenate([np.maximum(first, rest), np.minimum(first, rest)], axis=1)
        width = len(str(max(int(np.abs(self.results).max(initial=0)), int(sides.max(initial=0))))) + 1
        sums = digits(self.operands, width).sum(1)
        differences = digits(sides, width) * np.array([[[1], [-1]]])
        products = digits(self.operands[:, 0], width)
        for operand in self.operands.T[1:]:
            factor = digits(operand, width)
            shifted = [
                np.pad(products, ((0, 0), (place, 0)))[:, :width] * factor[:, [place]]
                for place in range(width)
            ]
            products = np.sum(shifted, axis=0)
        chosen = self.operators[:, None]
        return np.select([chosen == 0, chosen == 1], [sums, differences.sum(1)], products)


def digits(numbers: Int64[np.ndarray, "*n"], width: int) -> Int64[np.ndarray, "*n {width}"]:
    """The lowest `width` decimal digits of numbers that are at least 0, units first."""
    held = numbers[..., None] // 10 ** np.arange(min(width, 19)) % 10  # no number of 64 bits has more
    return np.pad(held, [(0, 0)] * numbers.ndim + [(0, width - held.shape[-1])])


def results_reach(operators: str, low: int, high: int, n_operands: int, negative: bool = True) -> int:
    """The largest absolute value of a result; `negative` says whether results below 0 are allowed."""
    reach = {
        "+": high * n_operands,
        "-": max(high - low * (n_operands - 1), (high * (n_operands - 1) - low) * negative),
        "*": high**n_operands,
    }
    return max(reach[operator] for operator in operators)
