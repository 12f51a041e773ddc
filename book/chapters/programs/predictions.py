"""Predictions on the confirming half of the programs, and on trained ones, from before either was run.

The predictions were written after the methods had been seen on 200 programs of the selecting half (seeds 0 to
199) and on those of a trial. They were committed before any program of the confirming half (seeds 1000 to
1999) was compiled, before any metric was computed, and before any trained transformer was evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from attnlib.attribution.registry import SIGNED
from attnlib.benchmarking.scoring import differences, features, summary
from attnlib.stats.intervals import Estimate
from attnlib.stats.rank_measures import kendall_tau
from attnlib.stats.seeds import over_seeds
from book.chapters.faithfulness_metrics.measures import called
from book.chapters.findings.rules import above, ahead, negated

MARGIN = 0.1
"""A smaller difference between methods, on the way from chance to perfect, would not matter in use."""

PAIRS = 180
"""How many of the 253 pairs of methods should differ significantly by *reads*."""

USUAL, SUPPORTED = called("comprehensiveness", "mask", "p"), called("without the first", "replace", "log p")

ROLLOUT, MEAN, LAST = "rollout", "mean attention", "raw attention, last layer"


class Answer(NamedTuple):
    """The result of a prediction: the verdict, and the number with its interval over `units`."""

    verdict: str
    value: float
    low: float
    high: float
    n: int
    units: str = "programs"


class Prediction(NamedTuple):
    """A sentence, and a function that computes its result from rows of one kind.

    Attributes:
        of: the kind of rows: "compiled", "metrics", "trained", "twice" or "positions".
        answer: returns the result; takes these rows (and those of the compiled programs, for "trained", or of
            the trained transformers, for "twice" and "positions").
    """

    words: str
    of: str
    answer: Callable[..., Answer]


def _values(rows: pd.DataFrame, method: str, truth: str, sign: str = "as given") -> pd.Series:
    chosen = (rows["method"] == method) & (rows["truth"] == truth) & (rows["sign"] == sign)
    return rows[chosen].set_index("seed")["value"]


def over_programs(values: pd.Series) -> Estimate:
    """The mean over programs, with Student's interval."""
    return over_seeds(values.dropna().to_numpy(float))


def _answered(values: pd.Series, verdict: Callable[[Estimate], str]) -> Answer:
    found = over_programs(values)
    return Answer(verdict(found), *found)


def lead(rows: pd.DataFrame, first: str, second: str, truth: str) -> pd.Series:
    """The difference of two methods on each program."""
    return (_values(rows, first, truth) - _values(rows, second, truth)).dropna()


def deep(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of programs of more than one layer; with one layer, attention and rollout order tokens alike."""
    table = features(sorted(set(rows["seed"]))).set_index("seed")["layers"]
    return rows[rows["seed"].map(table) > 1]


def _ahead(first: str, second: str, truth: str) -> Callable[..., Answer]:
    return lambda rows: _answered(lead(deep(rows), first, second, truth), lambda found: ahead(found, MARGIN))


def _little_ahead(rows: pd.DataFrame) -> Answer:
    """Rollout's lead over mean attention, by reads, is below the margin."""

    def verdict(found: Estimate) -> str:
        return above(Estimate(MARGIN - found.value, MARGIN - found.high, MARGIN - found.low, found.n))

    return _answered(lead(deep(rows), ROLLOUT, MEAN, "reads"), verdict)


def _first_by_causes(rows: pd.DataFrame) -> Answer:
    """Activation patching against the best of all others, by causes."""
    plain = rows[(rows["sign"] == "as given") & (rows["truth"] == "causes")]
    others = summary(plain[plain["method"] != "activation patching"])
    best = str(others.sort_values("value")["method"].iloc[-1])
    return _answered(lead(rows, "activation patching", best, "causes"), above)


def _sign(rows: pd.DataFrame) -> Answer:
    """What absolute values add to gradient x embedding, by reads."""
    name = "gradient x embedding"
    assert name in SIGNED
    gain = _values(rows, name, "reads", "absolute") - _values(rows, name, "reads")
    return _answered(gain, lambda found: above(found, MARGIN))


def _counting(rows: pd.DataFrame) -> Answer:
    """AttnLRP, in absolute value, on programs that count, minus on those that do not (Welch's interval)."""
    values = _values(rows, "AttnLRP", "reads", "absolute")
    return _unpaired(values, "counts", lower=True)


def _rotated(rows: pd.DataFrame) -> Answer:
    """ALTI on programs whose residual stream is rotated, minus on others."""
    return _unpaired(_values(rows, "ALTI", "reads"), "rotated", lower=True)


def _unpaired(values: pd.Series, feature: str, *, lower: bool) -> Answer:
    table = features(sorted(values.index)).set_index("seed")[feature].astype(bool)
    have = table.reindex(values.index)
    found = welch(values[have].to_numpy(float), values[~have].to_numpy(float))
    return Answer(above(negated(found) if lower else found), *found)


def welch(first: np.ndarray, second: np.ndarray) -> Estimate:
    """The difference of two means with Welch's 95 % interval; n is how many numbers there are together."""
    import scipy.stats

    test = scipy.stats.ttest_ind(first, second, equal_var=False)
    low, high = test.confidence_interval()
    return Estimate(float(first.mean() - second.mean()), float(low), float(high), len(first) + len(second))


def pairs(rows: pd.DataFrame) -> Answer:
    """How many pairs of methods differ significantly by reads, after Holm's correction."""
    plain = rows[(rows["sign"] == "as given") & (rows["truth"] == "reads")]
    found = differences(plain)
    n = int((found["p_holm"] < 0.05).sum())
    verdict = "reproduced" if n >= PAIRS else "not reproduced"
    return Answer(verdict, n, np.nan, np.nan, len(found), "pairs")


def _metrics(first: str, second: str, truth: str) -> Callable[..., Answer]:
    def answer(rows: pd.DataFrame) -> Answer:
        wide = rows[rows["truth"] == truth].pivot(index="seed", columns="metric", values="value")
        return _answered(wide[first] - wide[second], above)

    return answer


def same_order(trained: pd.DataFrame, compiled: pd.DataFrame, truth: str = "causes") -> Answer:
    """Kendall's tau of the methods' means on trained and on compiled programs, of the same seeds."""
    wide = [by_program(rows, truth) for rows in (trained, compiled)]
    both = sorted(set(wide[0].index) & set(wide[1].index))
    first, second = (each.loc[both].to_numpy(float) for each in wide)

    def tau(chosen: np.ndarray) -> float:
        return float(kendall_tau(np.nanmean(first[chosen], 0), np.nanmean(second[chosen], 0)))

    rng = np.random.default_rng(0)
    drawn = [tau(rng.integers(len(both), size=len(both))) for _ in range(2_000)]
    low, high = np.quantile(drawn, (0.025, 0.975))
    found = Estimate(tau(np.arange(len(both))), float(low), float(high), len(both))
    return Answer(above(found, 0.5), *found)


def by_program(rows: pd.DataFrame, truth: str) -> pd.DataFrame:
    """The scores by one truth, as given: a row per program, a column per method."""
    plain = rows[(rows["sign"] == "as given") & (rows["truth"] == truth)]
    return plain.pivot(index="seed", columns="method", values="value").sort_index(axis=1)


PREDICTIONS = (
    Prediction(
        "Rollout finds more of the tokens that a program reads than the last layer's raw attention does.",
        "compiled",
        _ahead(ROLLOUT, LAST, "reads"),
    ),
    Prediction(
        "Rollout's lead over mean attention is smaller than a tenth of the way from chance to perfect.",
        "compiled",
        _little_ahead,
    ),
    Prediction(
        "Gradient norm finds more of the tokens that a program reads than rollout does.",
        "compiled",
        _ahead("gradient norm", ROLLOUT, "reads"),
    ),
    Prediction(
        "Activation patching finds the tokens that cause the output better than every other method.",
        "compiled",
        _first_by_causes,
    ),
    Prediction(
        "Absolute values improve gradient × embedding by more than a tenth, by reads.",
        "compiled",
        _sign,
    ),
    Prediction("AttnLRP does worse on programs that count than on those that do not.", "compiled", _counting),
    Prediction("ALTI does worse where the residual stream is rotated.", "compiled", _rotated),
    Prediction(
        f"At least {PAIRS} of 253 pairs of methods differ significantly, by reads.", "compiled", pairs
    ),
    Prediction(
        "Replacing the first token and reading log p agrees better with the causes than the usual metric.",
        "metrics",
        _metrics(SUPPORTED, USUAL, "causes"),
    ),
    Prediction(
        "Replacing the first token and reading log p agrees better with the reads than the usual metric.",
        "metrics",
        _metrics(SUPPORTED, USUAL, "reads"),
    ),
    Prediction(
        "Reading log p in place of p makes the usual metric agree better with the causes.",
        "metrics",
        _metrics(called("comprehensiveness", "mask", "log p"), USUAL, "causes"),
    ),
    Prediction(
        "Trained transformers order the methods as compiled ones do, by causes: tau is above .5.",
        "trained",
        same_order,
    ),
    Prediction(
        "In trained transformers, too, rollout finds the causes better than the last layer's raw attention.",
        "trained",
        lambda trained, compiled: _ahead(ROLLOUT, LAST, "causes")(trained),
    ),
    Prediction(
        "In trained transformers, too, activation patching finds the causes better than every other method.",
        "trained",
        lambda trained, compiled: _first_by_causes(trained),
    ),
)
"""In the order of the page. None was changed after it was answered."""


TWICE = Prediction(
    "Transformers of twice the size order the methods as smaller ones do, by causes: tau is above .5.",
    "twice",
    same_order,
)
"""Written after transformers of the same size were evaluated, before any of twice the size was trained."""

POSITIONS = Prediction(
    "Transformers with {} positions order the methods as those with learned positions do: tau is above .5.",
    "positions",
    same_order,
)
"""By causes, for sinusoidal and for rotary positions. Written before any of them was trained."""


def answered(**rows: pd.DataFrame) -> Iterator[tuple[Prediction, Answer]]:
    """Every prediction whose rows are given, with its result."""
    for each in PREDICTIONS:
        if each.of in rows:
            yield each, answer_of(each, rows)


def answer_of(each: Prediction, rows: Mapping[str, pd.DataFrame]) -> Answer:
    """The result of one prediction; some predictions compare with rows of another kind."""
    beside = {"trained": ["compiled"], "twice": ["trained"]}
    given: list[Any] = [rows[kind] for kind in (each.of, *beside.get(each.of, []))]
    return each.answer(*given)
