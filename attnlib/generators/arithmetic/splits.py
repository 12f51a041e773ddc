"""Train, validation and test problems: disjoint, or drawn independently as in the original."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from attnlib.checks import check
from attnlib.generators.arithmetic.problems import OPERATORS, Problems

ENUMERATED = 2_000_000
"""The largest space of problems that is listed and shuffled; from a larger one, problems are sampled."""

ROUNDS, MOST = 20, 10_000_000
"""Limits of sampling, which matter where few problems are allowed: rounds, and problems drawn per round."""

NAMES = ("train", "valid", "test")
DRAWN = ("test", "valid", "train")
"""The order in which splits are filled: test problems must not depend on the number of training problems."""


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
        """True for test problems that are training problems too; with disjoint splits there are none.

        The two orders of a sum or product count as one problem, as in `Arithmetic.splits`.
        """
        parts = (self.test.ordered, self.train.ordered)
        rows = np.concatenate([np.column_stack([part.operators, part.operands]) for part in parts])
        _, same = np.unique(rows, axis=0, return_inverse=True)
        return np.isin(same[: len(self.test)], same[len(self.test) :])


@dataclass(frozen=True)
class Space:
    """All problems of a task, each with an index of its own.

    Attributes:
        operators: the characters of the operators, in the order of `OPERATORS`.
        numbers: lowest and highest operand.
        n_operands: number of operands per problem.
        negative: whether results below 0 are allowed.
    """

    operators: str
    numbers: tuple[int, int]
    n_operands: int
    negative: bool

    @property
    def span(self) -> int:
        """The number of values of an operand."""
        return self.numbers[1] - self.numbers[0] + 1

    @property
    def size(self) -> int:
        """The number of problems, including those with a negative result."""
        return len(self.operators) * self.span**self.n_operands

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of operators, then the number of values of each operand."""
        return (len(self.operators), *[self.span] * self.n_operands)

    @property
    def codes(self) -> Int64[np.ndarray, " operator"]:
        """The index of each operator in `OPERATORS`."""
        return np.array([OPERATORS.index(operator) for operator in self.operators])

    def problems(self, indices: Int64[np.ndarray, " problem"]) -> Problems:
        """The problems with the given indices."""
        operator, *operands = np.unravel_index(indices, self.shape)
        return Problems(self.codes[operator], self.numbers[0] + np.column_stack(operands))

    def twins(self, indices: Int64[np.ndarray, " problem"]) -> Int64[np.ndarray, " problem"]:
        """An index shared by twins: sums or products that differ only in the order of their operands."""
        operator, *_ = np.unravel_index(indices, self.shape)
        ordered = self.problems(indices).ordered.operands - self.numbers[0]
        return np.ravel_multi_index((operator, *ordered.T), self.shape)

    def allowed(self, indices: Int64[np.ndarray, " problem"]) -> Bool[np.ndarray, " problem"]:
        """Whether each problem is allowed, which excludes negative results unless `negative`."""
        return np.ones(len(indices), dtype=bool) if self.negative else self.problems(indices).results >= 0

    def describe(self) -> str:
        """The space in words, for messages."""
        low, high = self.numbers
        results = "" if self.negative or "-" not in self.operators else " and no negative result"
        return f"{self.n_operands} numbers from {low} to {high} with {' '.join(self.operators)}{results}"


def disjoint(space: Space, sizes: dict[str, int], seed: int) -> Splits:
    """Splits drawn without replacement; twins such as 12+34 and 34+12 are never in two different splits."""
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
    """Splits drawn independently and with replacement, as in the original: they overlap and repeat problems.

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
    """Every allowed problem once, in random order, but with twins next to each other."""
    indices = np.arange(space.size)
    indices = indices[space.allowed(indices)]
    _, group = np.unique(space.twins(indices), return_inverse=True)
    place = rng.permutation(int(group.max(initial=-1)) + 1)[group]
    return indices[np.argsort(place, kind="stable")]


def _drawn(space: Space, n: int, rng: np.random.Generator) -> Int64[np.ndarray, " problem"]:
    """At least `n` random problems (fewer if not enough are found) in the order drawn, without twins."""
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
