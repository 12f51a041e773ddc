r"""Changes of a layer's attention, all of one form: a share of what it was, and a share of something else.

    A'_h = a_h A_h + b_h S_h

with `A_h` the attention of head `h`, `a_h` and `b_h` a number for each query, and `S_h` any matrix `[query
key]`. So a head's output is `A'_h V = a_h (A_h V) + b_h (S_h V)`, whatever kernel computes `A_h V`, and a
second change acts on what the first one left.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor


class Affine(NamedTuple):
    """`A' = keep A + push onto`: what is done to a layer's attention.

    Attributes:
        keep: `a`.
        push: how much is added of `onto`, `B = push onto`.
        onto: see `push`; None for nothing.
        sums_to_1: whether rows that sum to 1 still do.
    """

    keep: Float[Tensor, "#batch #head #query 1"] | float
    push: Float[Tensor, "#batch #head #query 1"] | float = 0.0
    onto: Float[Tensor, "#batch #head query key"] | None = None
    sums_to_1: bool = True

    def of(
        self, mixed: Float[Tensor, "batch head query column"], values: Float[Tensor, "batch _ key column"]
    ) -> Float[Tensor, "batch head query column"]:
        """`A'X` from `AX` and `X`, whose heads may be fewer (grouped-query attention)."""
        if self is AS_IT_IS:
            return mixed
        if self.onto is None:
            return (self.keep * mixed).to(mixed.dtype)
        if values.shape[1] > 1:
            values = values.repeat_interleave(mixed.shape[1] // values.shape[1], 1)
        return (self.keep * mixed + self.push * (self.onto @ values.to(self.onto.dtype))).to(mixed.dtype)

    def of_rows(
        self, rows: Float[Tensor, "batch head query key"], start: int, stop: int, low: int, high: int
    ) -> Float[Tensor, "batch head query key"]:
        """`A'` from `A`, both of queries `start .. stop - 1` and keys `low .. high - 1`."""
        if self is AS_IT_IS:
            return rows

        def part(x: Tensor | float) -> Tensor | float:
            return x[..., start:stop, :] if isinstance(x, Tensor) and x.shape[-2] > 1 else x

        changed = part(self.keep) * rows
        if self.onto is not None:
            changed = changed + part(self.push) * self.onto[..., start:stop, low:high]
        return changed.to(rows.dtype)


AS_IT_IS = Affine(1.0)
"""No change, and no multiplication by 1."""
