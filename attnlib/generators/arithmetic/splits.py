"""Train, validation and test problems of which none is in two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from attnlib.checks import check
from attnlib.generators.arithmetic.problems import OPERATORS, Problems

ENUMERATED = 2_000_000
"""Up to so many problems are listed and shuffled; of more, random ones are drawn until enough are new."""

ROUNDS, MOST = 20, 10_000_000
"""Drawings at most, and problems of one: where few are allowed (no negative results), many are drawn."""

NAMES = ("train", "valid", "test")
DRAWN = ("test", "valid", "train")
"""The order in which splits are filled, so that test problems do not depend on how many are trained on."""


@dataclass(frozen=True)
class Splits:
    """Problems to train on, to choose the best model by, and to test on.

    Attributes:
        train: what a model learns from.
        valid: what decides which model is best.
        test: what is reported.
    """

    train: Problems
    valid: Problems
    test: Problems

    def seen(self) -> Bool[np.ndarray, " problem"]:
        """Which test problems are training problems too: none, unless the splits are as published.

        The two orders of a sum or product count as one problem, as in `Arithmetic.splits`.
        """
        parts = (self.test.ordered, self.train.ordered)
        rows = np.concatenate([np.column_stack([part.operators, part.operands]) for part in parts])
        _, same = np.unique(rows, axis=0, return_inverse=True)
        return np.isin(same[: len(self.test)], same[len(self.test) :])


@dataclass(frozen=True)
class Space:
    """All problems of a task, each with a number of its own.

    Attributes:
        operators: their signs.
        numbers: lowest and highest operand.
        n_operands: numbers per problem.
        negative: whether results below 0 count.
    """

    operators: str
    numbers: tuple[int, int]
    n_operands: int
    negative: bool

    @property
    def span(self) -> int:
        """How many numbers an operand can be."""
        return self.numbers[1] - self.numbers[0] + 1

    @property
    def size(self) -> int:
        """How many problems there are, those with a negative result included."""
        return len(self.operators) * self.span**self.n_operands

    @property
    def shape(self) -> tuple[int, ...]:
        """How many operators there are, and numbers that each operand can be."""
        return (len(self.operators), *[self.span] * self.n_operands)

    @property
    def codes(self) -> Int64[np.ndarray, " operator"]:
        """The index of each operator in `OPERATORS`."""
        return np.array([OPERATORS.index(operator) for operator in self.operators])

    def problems(self, indices: Int64[np.ndarray, " problem"]) -> Problems:
        """The problems of these numbers."""
        operator, *operands = np.unravel_index(indices, self.shape)
        return Problems(self.codes[operator], self.numbers[0] + np.column_stack(operands))

    def twins(self, indices: Int64[np.ndarray, " problem"]) -> Int64[np.ndarray, " problem"]:
        """A number shared by problems that differ in the order of their operands alone, if that is free."""
        operator, *_ = np.unravel_index(indices, self.shape)
        ordered = self.problems(indices).ordered.operands - self.numbers[0]
        return np.ravel_multi_index((operator, *ordered.T), self.shape)

    def allowed(self, indices: Int64[np.ndarray, " problem"]) -> Bool[np.ndarray, " problem"]:
        """Whether each problem's result counts."""
        return np.ones(len(indices), dtype=bool) if self.negative else self.problems(indices).results >= 0

    def describe(self) -> str:
        """The space in words, for messages."""
        low, high = self.numbers
        results = "" if self.negative or "-" not in self.operators else " and no negative result"
        return f"{self.n_operands} numbers from {low} to {high} with {' '.join(self.operators)}{results}"


def disjoint(space: Space, sizes: dict[str, int], seed: int) -> Splits:
    """Splits drawn without replacement; 12+34 and 34+12, the same sum, are never in two of them."""
    rng = np.random.default_rng([seed, 1])
    if space.size <= ENUMERATED:
        indices = _all_shuffled(space, rng)
    else:
        indices = _drawn(space, sum(sizes.values()), rng)
    twins = space.twins(indices)
    parts, start = {}, 0
    for name in DRAWN:
        end = start + sizes[name]
        if end > len(indices):
            there = "there are" if space.size <= ENUMERATED else "drawing at random found"
            needed = start + sum(sizes[each] for each in DRAWN[DRAWN.index(name) :])
            raise ValueError(
                f"splits of {', '.join(f'{sizes[n]:,} {n}' for n in NAMES)} cannot be disjoint: {there} "
                f"{len(indices):,} problems of {space.describe()}, and {needed:,} are needed (the two "
                "orders of a sum go together). Ask for fewer or widen numbers"
            )
        parts[name] = space.problems(indices[start:end])
        start = end + int((twins[end:] == twins[end - 1]).cumprod().sum()) if sizes[name] else end
    rng = np.random.default_rng([seed, 2])
    return Splits(**{name: part[rng.permutation(len(part))] for name, part in parts.items()})


def independent(space: Space, sizes: dict[str, int], seed: int) -> Splits:
    """Splits as the original draws them: each by itself, so that they overlap and repeat themselves.

    Operator and numbers are uniform; where a difference must not be negative, the second number is uniform up
    to the first one.
    """
    check(space.n_operands == 2, "n_operands must be 2 with as_published", space.n_operands)
    low, high = space.numbers
    parts = {}
    for number, name in enumerate(NAMES):
        rng = np.random.default_rng([seed, 3, number])
        operators = space.codes[rng.integers(len(space.codes), size=sizes[name])]
        first = rng.integers(low, high + 1, sizes[name])
        bounded = (operators == OPERATORS.index("-")) & (not space.negative)
        second = rng.integers(low, np.where(bounded, first, high) + 1)
        parts[name] = Problems(operators, np.column_stack([first, second]))
    return Splits(**parts)


def _all_shuffled(space: Space, rng: np.random.Generator) -> Int64[np.ndarray, " problem"]:
    """Every problem once, twins next to each other, in an order drawn at random."""
    indices = np.arange(space.size)
    indices = indices[space.allowed(indices)]
    _, group = np.unique(space.twins(indices), return_inverse=True)
    place = rng.permutation(int(group.max(initial=-1)) + 1)[group]
    return indices[np.argsort(place, kind="stable")]


def _drawn(space: Space, n: int, rng: np.random.Generator) -> Int64[np.ndarray, " problem"]:
    """At least `n` problems if so many turn up, no two of them twins, in the order they were drawn in."""
    indices, drawn, allowed = np.zeros(0, dtype=np.int64), 0, 0
    for _ in range(ROUNDS):
        wanted = 2 * (n - len(indices)) + 100
        new = rng.integers(space.size, size=min(MOST, wanted * drawn // allowed) if allowed else wanted)
        kept = new[space.allowed(new)]
        drawn, allowed = drawn + len(new), allowed + len(kept)
        indices = np.concatenate([indices, kept])
        _, first = np.unique(space.twins(indices), return_index=True)
        indices = indices[np.sort(first)]
        if len(indices) >= n:
            break
    return indices
