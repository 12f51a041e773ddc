r"""How far a protocol can be trusted: does it rank methods as the ground truth does, the truth first?

Beside the measures a protocol is shown a *ladder*, scores made of the answer itself: with $t$ the sources (1)
among the candidates (0) and $\varepsilon$ noise of standard normal distribution,

$$t + \sigma \varepsilon, \qquad \sigma = 0, \tfrac12, 1, 2, 4, \infty.$$

Its order is known by construction, so a protocol that does not find it cannot be trusted with any other.

No measure should come before the truth. But the truth is a set: a protocol that counts more tokens than there
are sources, or fewer, has to take some of equal score, and takes them by a coin. So beside the ladder stands
the truth with its best *completion*: sources before all others, and among each the order of whichever does
best by this protocol: a coin, what is lost without each token alone, or any of the measures. A protocol that
ranks a measure even before that one rewards something else than sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy import stats
from torch import Tensor

from attnlib.stats.intervals import NOTHING, Estimate
from attnlib.stats.plausibility import average_precision, average_precision_by_chance
from attnlib.stats.rank_measures import kendall_tau
from attnlib.stats.seeds import over_seeds
from book.chapters.faithfulness_metrics.protocols import Numbers, Protocol, Scores
from book.chapters.faithfulness_metrics.removal import OPERATORS, READINGS, Case, single_effect

PLAUSIBILITY = "plausibility"
"""What the ground truth says of a method: average precision, 0 by chance and 1 at best."""

NOISE = (0.0, 0.5, 1.0, 2.0, 4.0, np.inf)
"""Standard deviations of the rungs of the ladder; the last is noise alone."""

RUNGS = ("the truth", *(f"the truth and {noise:g} of noise" for noise in NOISE[1:-1]), "noise alone")

COMPLETED = "the truth, completed"
"""The truth whose ties are broken in its favour; see the module."""

BESIDE = (*RUNGS, COMPLETED)
"""What is ranked beside the measures, and is none."""

TIE = 1e-3
"""So small against a source's score is all that breaks ties: forms that add scores up hardly see it."""

DIGITS = 6
"""Numbers that are the same to so many digits have the same rank."""

SPLITS = 20
"""How often questions are split into halves."""


class Judged(NamedTuple):
    """What every protocol says of one model's measures, beside what is known.

    Attributes:
        measures: the names; last `BESIDE`, the rungs of the ladder and the completed truth.
        numbers: by protocol, and by `PLAUSIBILITY`, which is what is known.
    """

    setting: str
    seed: int
    measures: tuple[str, ...]
    numbers: dict[str, Float[np.ndarray, "item measure"]]


def judge(
    setting: str,
    seed: int,
    case: Case,
    scores: Mapping[str, Float[Tensor, "item token"]],
    protocols: Mapping[str, Protocol],
) -> Judged:
    """What protocols say of measures, and of the ladder."""
    every = {name: each.detach().cpu().double().numpy() for name, each in scores.items()} | ladder(case)
    stacked = np.stack([*every.values()], 1)
    numbers = {PLAUSIBILITY: plausibility(case, np.concatenate([stacked, case.truth[:, None]], 1))}
    for name, protocol in protocols.items():
        found = protocol(case, stacked)
        truths = np.concatenate([found[:, [len(scores)]], *_completed(case, name, protocol, stacked)], 1)
        best = np.nanmean(truths, axis=0).argmax()
        numbers[name] = np.concatenate([found, truths[:, [best]]], 1)
    return Judged(setting, seed, (*every, COMPLETED), numbers)


def _completed(case: Case, name: str, protocol: Protocol, scores: Scores) -> list[Numbers]:
    """A protocol's numbers of the truth, ties broken; none if its name has no operator and reading."""
    *_, operator, reading = ["", *name.rsplit(", ", 2)]
    if operator not in OPERATORS or reading not in READINGS:
        return []
    lost = single_effect(case, operator, reading)
    return [protocol(case, completed(case, np.concatenate([lost[:, None], scores], 1)))]


def completed(case: Case, scores: Scores) -> Scores:
    """The truth whose ties are broken by scores, the highest first; NaN comes last."""
    known = np.where(case.candidates[:, None] & ~np.isnan(scores), scores, -np.inf)
    return case.truth[:, None] + TIE * stats.rankdata(known, axis=-1) / known.shape[-1]


def ladder(case: Case) -> dict[str, Float[np.ndarray, "item token"]]:
    """The rungs by name; see the module."""
    noise = np.random.default_rng([case.seed, len(NOISE)]).standard_normal((len(NOISE), *case.truth.shape))
    return {
        name: each if np.isinf(sd) else case.truth + sd * each
        for name, sd, each in zip(RUNGS, NOISE, noise, strict=True)
    }


def plausibility(case: Case, scores: Scores) -> Numbers:
    """Average precision of every measure, from chance (0) to perfect (1), question by question."""
    given = case.truth, case.candidates
    chance = average_precision_by_chance(*given)
    found = [average_precision(scores[:, m], *given) for m in range(scores.shape[1])]
    return np.stack([(each - chance) / (1 - chance) for each in found], 1)


def agreement(judged: Iterable[Judged], without: Sequence[str] = ()) -> pd.DataFrame:
    r"""How every protocol ranks the measures of every setting; a model's numbers are means over questions."""
    table = []
    for setting, models in _by_setting(judged).items():
        names = models[0].measures
        measures = [m for m, name in enumerate(names) if name not in (*BESIDE, *without)]
        rungs = [names.index(name) for name in RUNGS]
        known = _means(models, PLAUSIBILITY)
        known_halves = _halves(models, PLAUSIBILITY, measures)
        for protocol in models[0].numbers:
            if protocol == PLAUSIBILITY:
                continue
            found = _means(models, protocol)
            row = {"setting": setting, "protocol": protocol}
            numbers = {
                "tau": _tau(known[measures], found[measures]),
                "somers": _somers(known[measures], found[measures]),
                "ladder": _somers(-np.arange(len(NOISE)).astype(float), found[rungs]),
                "above": float((found[measures] > found[rungs[0]]).mean()),
                "before": float((found[measures] > found[names.index(COMPLETED)]).mean()),
                "halves": _halves(models, protocol, measures),
                "known halves": known_halves,
            }
            table.append(row | numbers)
    columns = ["setting", "protocol", "tau", "somers", "ladder", "above", "before", "halves", "known halves"]
    return pd.DataFrame(table, columns=columns)


def measures_by(judged: Iterable[Judged], protocol: str) -> pd.DataFrame:
    """What a protocol says of every measure in every setting: 0 is noise alone, 1 the completed truth.

    More than 1 rewards other tokens than the sources; a setting where truth is not above noise is left out.
    """
    table = []
    for setting, models in _by_setting(judged).items():
        names, found = models[0].measures, _means(models, protocol)
        noise, truth = (found[names.index(rung)] for rung in (RUNGS[-1], COMPLETED))
        if truth > noise:
            scaled = zip(names, (found - noise) / (truth - noise), strict=True)
            table += [(setting, name, value) for name, value in scaled if name not in BESIDE]
    return pd.DataFrame(table, columns=["setting", "method", "value"])


def over_settings(table: pd.DataFrame, what: str = "tau") -> pd.DataFrame:
    """The mean over settings of one column of `agreement`, with Student's interval; the best come first."""
    rows = [(protocol, *estimate(part[what])) for protocol, part in table.groupby("protocol", sort=False)]
    found = pd.DataFrame(rows, columns=["protocol", "value", "low", "high", "n"])
    return found.sort_values("value", ascending=False, kind="stable", ignore_index=True)


def estimate(values: pd.Series) -> Estimate:
    """The mean over settings, with Student's interval over them; no correlation is outside of -1 and 1."""
    values = values.dropna()
    if values.empty:
        return NOTHING
    found = over_seeds(values.to_numpy(float))
    return found._replace(low=max(found.low, -1.0), high=min(found.high, 1.0))


def difference(values: pd.Series) -> Estimate:
    """The same of differences of two correlations, which are from -2 to 2."""
    value, low, high, n = estimate(values / 2)
    return Estimate(2 * value, 2 * low, 2 * high, n)


def _by_setting(judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    found: dict[str, list[Judged]] = {}
    for each in judged:
        found.setdefault(each.setting, []).append(each)
    return found


def _means(
    models: Sequence[Judged], protocol: str, some: Sequence[Bool[np.ndarray, " item"]] | None = None
) -> Float[np.ndarray, " measure"]:
    """A setting's number of every measure: the mean over its models of means over questions, or some."""
    chosen: Sequence[Any] = [slice(None)] * len(models) if some is None else some
    found = [
        np.nanmean(each.numbers[protocol][rows], axis=0) for each, rows in zip(models, chosen, strict=True)
    ]
    return np.mean(found, axis=0).round(DIGITS)


def _halves(models: Sequence[Judged], protocol: str, measures: Sequence[int]) -> float:
    rng, taus = np.random.default_rng(0), []
    for _ in range(SPLITS):
        sizes = [len(each.numbers[protocol]) for each in models]
        half = [rng.permutation(n) < n // 2 for n in sizes]
        first = _means(models, protocol, half)
        second = _means(models, protocol, [~each for each in half])
        taus.append(_tau(first[measures], second[measures]))
    return float(np.mean(taus))


def _tau(known: Float[np.ndarray, " measure"], found: Float[np.ndarray, " measure"]) -> float:
    """Kendall's tau-b; 0 where one side ranks nothing, and so says nothing."""
    return float(np.nan_to_num(kendall_tau(known, found)))


def _somers(known: Float[np.ndarray, " measure"], found: Float[np.ndarray, " measure"]) -> float:
    if len(set(known)) < 2:
        return 0.0
    return float(np.nan_to_num(stats.somersd(known, found).statistic))
