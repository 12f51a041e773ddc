"""Comparison of training runs: which of their scores are compared, and at which checkpoints.

Scores are a mapping from a run's name to its `RunScores`: "uniform" is the run with uniform attention
(its beta is beta_uf), "embedding" the embedding-only model (beta_px), "logistic" logistic regression
(beta_logistic); all others are runs of the same model that differ by their seed. One of these, by default the
first, is the gold run, whose attention is explained; the others are compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attnlib.checks import check, unknown
from attnlib.stats.ragged import Ragged, RunScores
from attnlib.stats.rank_measures import per_row
from attnlib.stats.resampling import Means, resampled_means

UNIFORM, EMBEDDING, LOGISTIC = "uniform", "embedding", "logistic"

Pair = tuple[str, str, str, str]

PAIRS: dict[str, Pair] = {
    "alpha, beta_uf": ("gold", "alpha", UNIFORM, "beta"),
    "beta_uf, beta_px": (UNIFORM, "beta", EMBEDDING, "beta"),
    "beta_px, beta_uf": (EMBEDDING, "beta", UNIFORM, "beta"),
    "delta, beta_uf": ("gold", "delta", UNIFORM, "beta"),
    "alpha, beta": ("gold", "alpha", "other", "beta"),
    "beta_uf, beta_logistic": (UNIFORM, "beta", LOGISTIC, "beta"),
    "beta_logistic, beta_uf": (LOGISTIC, "beta", UNIFORM, "beta"),
}
"""The compared scores: run and name of the one whose largest token is looked up, and of the other one."""

AS_PUBLISHED = {
    "beta_uf, beta_px": PAIRS["beta_px, beta_uf"],
    "beta_uf, beta_logistic": PAIRS["beta_logistic, beta_uf"],
}
"""The pairs that the authors' code compares under these names; it does not compare the reverse pairs."""

_TRAINED = (UNIFORM, "other")  # the checkpoint of such a run is chosen by its agreement


@dataclass(frozen=True)
class AgreementSettings:
    """The settings of measures of agreement and their intervals.

    Attributes:
        measure: "top match", "kendall" or "spearman".
        fraction: the top share of tokens that counts as a match, for `top_match`.
        as_published: do as the authors' code does: choose checkpoints on the evaluated rows, and under the
            names A(beta_uf, beta_px) and A(beta_uf, beta_logistic) look the largest tokens of beta_px and
            beta_logistic up in beta_uf.
        flip_delta: with `as_published`, take minus delta. The authors' code for classification negates its
            gradients twice; their code for translation does not.
        shuffles: number of shuffles for A_hat; by default 1,000, and 20 for rank correlations (slow).
        confidence: confidence level of the intervals.
        seed: seed of resamples and shuffles.
    """

    measure: str = "top match"
    fraction: float | int = 0.05
    as_published: bool = False
    flip_delta: bool = True
    shuffles: int | None = None
    confidence: float = 0.95
    seed: int = 0


@dataclass(frozen=True)
class Runs:
    """Runs on the same rows; every row has at least one token and no NaN.

    Attributes:
        gold: name of the run whose attention is explained.
        others: names of the runs that differ from the gold run by their seed.
    """

    by_name: dict[str, RunScores]
    gold: str
    others: tuple[str, ...]
    settings: AgreementSettings

    @property
    def seeds(self) -> tuple[str, ...]:
        """The names of the runs that differ by their seed, the gold run first."""
        return (self.gold, *self.others)

    def explaining(self, gold: str, others: Sequence[str] | None = None) -> Runs:
        """The same runs with another gold run; `others` are by default all other seeds."""
        others = others or [name for name in self.seeds if name != gold]
        return replace(self, gold=gold, others=tuple(others))

    def run(self, role: str) -> RunScores | None:
        """The run of a role in `PAIRS` ("gold", "other" or a run's name); `None` if there is none."""
        return self.by_name.get({"gold": self.gold, "other": self.others[0]}.get(role, role))

    def pairs(self) -> dict[str, Pair]:
        """Those of `PAIRS` whose runs and scores are given; with `as_published`, as in `AS_PUBLISHED`."""
        pairs = PAIRS
        if self.settings.as_published:
            reverse = set(AS_PUBLISHED.values())
            pairs = {
                name: AS_PUBLISHED.get(name, pair) for name, pair in PAIRS.items() if pair not in reverse
            }
        return {
            name: pair
            for name, pair in pairs.items()
            if all(getattr(self.run(role), score, None) is not None for role, score in (pair[:2], pair[2:]))
        }

    def scores(self, role: str, name: str) -> Ragged:
        """A run's scores at all checkpoints."""
        run = self.run(role)
        if run is None:
            raise unknown("a run", role, self.by_name)
        scores = run.scores(name)
        flipped = name == "delta" and self.settings.as_published and self.settings.flip_delta
        return Ragged(-scores.values, scores.lengths) if flipped else scores

    def accuracy(self, role: str) -> Float[np.ndarray, " checkpoint"]:
        """The accuracy of a run at its checkpoints; a `ValueError` if the run has none."""
        run = self.run(role)
        if run is None or run.accuracy is None:
            raise ValueError(f"{role} must be a run with right or accuracy; got neither")
        return run.accuracy

    def is_share(self, metric: str) -> bool:
        """Whether a metric is a share of rows: top matches, and accuracy known for each row (BLEU is not)."""
        if metric == "xi*":
            return self.by_name[self.gold].right is not None
        return self.settings.measure == "top match"

    @property
    def units(self) -> int:
        """The number of rows, or groups of rows, that the bootstrap resamples."""
        gold = self.by_name[self.gold]
        return len(gold.lengths) if gold.groups is None else len(np.unique(gold.groups))

    def agree(self, x: Ragged, y: Ragged) -> Float[np.ndarray, "*checkpoint row"]:
        """The agreement of two scores in every row."""
        return per_row(x, y, self.settings.measure, self.settings.fraction)

    @cached_property
    def best(self) -> int:
        """The gold run's most accurate checkpoint, the first of equals."""
        return int(self.accuracy("gold").argmax())

    def sides(self, pair: Pair, best: int) -> list[Ragged]:
        """Both scores of a pair: gold at `best`, `_TRAINED` at all checkpoints, others at the last."""
        both = [(role, self.scores(role, name)) for role, name in (pair[:2], pair[2:])]
        return [
            scores if role in _TRAINED else scores.at(best if role == "gold" else -1) for role, scores in both
        ]

    def chosen(self, pair: Pair) -> int:
        """The checkpoint of a pair's trained run with the best mean agreement, the first of equals."""
        rows = self.agree(*self.sides(pair, self.best))
        there = ~np.isnan(rows)
        means = np.where(there, rows, 0).sum(-1) / np.maximum(there.sum(-1), 1)
        return int(np.where(there.any(-1), means, -np.inf).argmax())

    def resampled(self, blocks: Mapping[str, Float[np.ndarray, "column row"]]) -> dict[str, Means]:
        """Means of blocks of columns, all with the same resamples of rows."""
        groups = self.by_name[self.gold].groups
        together = resampled_means(np.concatenate(list(blocks.values())).T, groups, self.settings.seed)
        ends = np.cumsum([len(block) for block in blocks.values()])[:-1]
        split = [np.split(each, ends, axis=-1) for each in together]
        return {name: Means(*each) for name, each in zip(blocks, zip(*split, strict=True), strict=True)}


def check_runs(scores: Mapping[str, RunScores], gold: str | None, settings: AgreementSettings) -> Runs:
    """Check the runs of a mapping, and drop the rows that have a NaN or no token in some run."""
    seeds = [name for name in scores if name not in (UNIFORM, EMBEDDING, LOGISTIC)]
    gold = gold or next(iter(seeds), "none")
    fits = gold in seeds and len(seeds) >= 2 and UNIFORM in scores
    check(fits, f"runs must be {UNIFORM!r} and two or more seeds, with gold {gold!r}", list(scores))
    check(scores[UNIFORM].beta is not None, f"{UNIFORM!r} must have beta", None)
    others = tuple(name for name in seeds if name != gold)
    lengths, steps = scores[gold].lengths, scores[gold].steps
    for name, run in scores.items():
        check(np.array_equal(run.lengths, lengths), f"{name!r} must have the rows of {gold!r}", run.lengths)
        if name in others:
            check(np.array_equal(run.steps, steps), f"{name!r} must have the steps of {gold!r}", run.steps)
    broken = np.logical_or.reduce([run.broken() for run in scores.values()])
    whole = not broken.all()
    check(whole, "at least one row must have tokens and no NaN in any run", f"{len(lengths)} others")
    kept = {name: run.take(~broken) for name, run in scores.items()} if broken.any() else dict(scores)
    return Runs(kept, gold, others, settings)
