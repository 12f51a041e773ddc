"""The chapter that computes the measures by hand."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, model_validator

from book.chapters.chapter import Chapter
from book.chapters.parameters import Amount, Count, Seed, Several, Text

LAYERS = 2
"""The number of layers, small enough to follow paths on paper."""


class Methods(Chapter):
    """Parameters of the chapter `methods`; it trains nothing, and records nothing."""

    tokens: Several[Text] = Field(min_length=2, max_length=6)
    attention: Several[Several[Several[Several[Amount]]]]
    right: Count
    asked: Count = Field(ge=1, le=10_000)
    seed: Seed

    @model_validator(mode="after")
    def _possible(self) -> Methods:
        n = len(self.tokens)
        if len(self.attention) != LAYERS or len({len(layer) for layer in self.attention} - {0}) != 1:
            raise ValueError(f"attention should have {LAYERS} layers of equally many heads")
        for rows in (head for layer in self.attention for head in layer):
            if len(rows) != n or any(len(row) != n for row in rows):
                raise ValueError(f"each head's attention should be {n} x {n}, as there are {n} tokens")
            if any(min(row) < 0 or abs(sum(row) - 1) > 1e-6 for row in rows):
                raise ValueError(f"every row of attention should sum to 1, with nothing below 0; got {rows}")
            if any(row[query + 1 :] != [0] * (n - query - 1) for query, row in enumerate(rows)):
                raise ValueError(f"a token should look at itself and those before it only; got {rows}")
        if self.right > self.asked:
            raise ValueError(f"right should be at most asked={self.asked}; got {self.right}")
        return self

    @property
    def label(self) -> str:
        """The tokens."""
        return "-".join(self.tokens)


def flow_clause(tokens: Sequence[str], flow: Sequence[float]) -> str:
    """The rest of a sentence on flow: from which tokens it is largest, or that it is the same from all."""
    numbers = [round(float(number), 6) for number in flow]
    largest = [token for token, number in zip(tokens, numbers, strict=True) if number == max(numbers)]
    if len(largest) == len(numbers):
        return "cannot tell the tokens apart"
    return f"is largest from {' and '.join(largest)}"
