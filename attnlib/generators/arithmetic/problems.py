"""Problems as numbers: which there are, what they come to, and how often one carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from attnlib.generators.algorithmic.texts import carried

OPERATORS = "+-*"
"""What problems are made with: sum, difference, product."""


@dataclass(frozen=True)
class Problems:
    """Many problems at once; one operator stands between all numbers of a problem.

    Attributes:
        operators: index of each problem's operator in `OPERATORS`.
        operands: its numbers, left to right, at least 0.
    """

    operators: Int64[np.ndarray, " problem"]
    operands: Int64[np.ndarray, "problem operand"]

    def __len__(self) -> int:
        """How many problems there are."""
        return len(self.operators)

    def __getitem__(self, rows: slice | Sequence[int] | np.ndarray | int) -> Problems:
        """Some of them, as slices, lists of places or masks say, or a single one."""
        return Problems(np.atleast_1d(self.operators[rows]), np.atleast_2d(self.operands[rows]))

    @property
    def results(self) -> Int64[np.ndarray, " problem"]:
        """What each problem comes to; differences are taken from left to right."""
        first, rest = self.operands[:, 0], self.operands[:, 1:].sum(1)
        return np.select(
            [self.operators == 0, self.operators == 1], [first + rest, first - rest], self.operands.prod(1)
        )

    @property
    def ordered(self) -> Problems:
        """The same problems, operands in ascending order where that changes nothing: 34+12 is 12+34."""
        free = (self.operators != OPERATORS.index("-"))[:, None]
        return Problems(self.operators, np.where(free, np.sort(self.operands, axis=1), self.operands))

    @property
    def carries(self) -> Int64[np.ndarray, " problem"]:
        r"""How many columns pass something on to the next when the problem is done on paper.

        With $s_c$ what the digits of column $c$ come to (their sum; for a product, the sum of the products
        $a_i b_j$ with $i + j = c$), column $c$ passes on $t_c = \lfloor (s_c + t_{c-1}) / 10 \rfloor$, and
        counts if $t_c \neq 0$. A difference is that of the larger and the smaller side, and what it passes on
        is a borrow ($t_c = -1$).
        """
        return (carried(self._columns())[1] != 0).sum(1)

    def _columns(self) -> Int64[np.ndarray, "problem column"]:
        """What the digits of every column come to by themselves, units first, with room for the carries."""
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
    """The largest size, sign aside, that a result can have; `negative` says whether results below 0 count."""
    reach = {
        "+": high * n_operands,
        "-": max(high - low * (n_operands - 1), (high * (n_operands - 1) - low) * negative),
        "*": high**n_operands,
    }
    return max(reach[operator] for operator in operators)
