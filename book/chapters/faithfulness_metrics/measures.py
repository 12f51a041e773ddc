r"""A registry of faithfulness metrics (*protocols*), and tests of how far each of them can be trusted.

A protocol is a function of a `Case` and of scores. It returns how good each measure's scores are, question by
question; larger is better. Most protocols remove tokens by an operator and read the answer (see
`book.chapters.faithfulness_metrics.perturbation`). With $v(S)$ the reading on candidates $S$, $C$ all of them
and $T_n$ the first $n$ by a measure, a *form* aggregates readings into a number:

    without the first n    v(C) - v(C without T_n), n = 1, 3, or as many as there are sources (R)
    comprehensiveness      the mean of that over 10, 20 and 50 % of the candidates
    sufficiency            the mean of v(T_n) over the same n
    deletion               minus the area under v(C without T_n), n from none to all in steps of 20 %
    insertion              the area under v(T_n), in the same steps
    LDS                    Spearman's correlation of v(S) with the sum of scores over S, over random halves S
    MAS                    insertion minus deletion, of v and of the scores themselves; see below

MAS uses the size of scores, too. Let $r_n = (v(T_n) - v(\emptyset)) / (v(C) - v(\emptyset))$ from 0 to 1,
made monotonically increasing, and $d_n$ the share of $T_n$ in the sum of all positive scores. The curve is
$\max(0, r_n - |d_n - r_n|)$, scaled from its minimum (0) to its maximum (1). For deletion $r_n$ uses
$v(C \setminus T_n)$ and is monotonically decreasing, $d_n$ is the share of the remaining tokens, and the
curve is $\min(1, r_n + |d_n - r_n|)$. A constant curve counts as 1/2. (Scores below 0, of which the authors'
images have none, count as 0.)

Ties are broken at random, independently for each measure: with a common order, all measures with constant
scores would get the same rank, by the luck of that one order.

Does a protocol rank methods as the ground truth does, with ground truth first? Beside the measures it
rates a *ladder* of scores made from the ground truth: with $t$ the sources (1) among the candidates (0) and
$\varepsilon$ noise of standard normal distribution,

$$t + \sigma \varepsilon, \qquad \sigma = 0, \tfrac12, 1, 2, 4, \infty.$$

Its order is known by construction, so a protocol that does not find it cannot be trusted with other scores.

No measure should come before the truth. But the truth is a set: a protocol that removes more tokens than
there are sources, or fewer, has to choose among ties, and does so at random. So the protocol also rates the
truth with its best *completion*: sources before all other tokens, and ties broken by the order that is best
by this protocol: a random one, the effect of removing each token alone, or the order of any of the measures.
A protocol that ranks a measure even before this completion rewards other tokens than the sources.

References:
    DeYoung et al. 2020, *ERASER*: comprehensiveness, sufficiency. Petsiuk et al. 2018, *RISE*: deletion and
    insertion. Park et al. 2023, *TRAK*, section 3: the linear datamodeling score (LDS), of training data;
    Cohen-Wang et al. 2024, *ContextCite*, section 4: of a prompt's parts. Walker et al. 2024, *Attribution
    quality metrics with magnitude alignment* (MAS), section 4, and their code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from scipy import stats
from torch import Tensor, nn

from attnlib.attribution.learned import learned_heads
from attnlib.attribution.prompts import Prompts
from attnlib.stats.intervals import NOTHING, Estimate
from attnlib.stats.plausibility import average_precision, average_precision_by_chance
from attnlib.stats.ragged import Ragged
from attnlib.stats.rank_measures import kendall_tau, spearman_rows
from attnlib.stats.seeds import over_seeds
from book.chapters.attribution_benchmark.measures import BUDGETS, counts_of, order_of, scored
from book.chapters.attribution_benchmark.questions import Questions, alike
from book.chapters.faithfulness_metrics.perturbation import OPERATORS, READINGS, SOFT, Case, single_effect

Scores = Float[np.ndarray, "item measure token"]
Numbers = Float[np.ndarray, "item measure"]
Protocol = Callable[[Case, Scores], Numbers]
"""A function that returns how good each measure's scores of each question are; larger is better."""

STEPS, HALVES = (0.2, 0.4, 0.6, 0.8), 64
"""Shares of the candidates between none and all; and how many random halves LDS takes."""

Counts = Int[np.ndarray, "item budget"]


def first_tokens(case: Case, scores: Scores, counts: Counts) -> Bool[np.ndarray, "item measure budget token"]:
    """The first candidates by every measure, as many as `counts` says; NaN comes last."""
    places = [order_of(scores[:, m], case.candidates, 1000 * case.seed + m) for m in range(scores.shape[1])]
    first = np.stack(places, 1)[:, :, None] < counts[:, None, :, None]
    return first & case.candidates[:, None, None]


def _read(
    case: Case, operator: str, reading: str, ways: Bool[np.ndarray, "item measure budget token"]
) -> Float[np.ndarray, "item measure budget"]:
    """The reading on these candidates only."""
    kept = ways.reshape(len(ways), -1, ways.shape[-1])
    return case.answers(operator, reading, kept).reshape(ways.shape[:-1])


def _ends(case: Case, operator: str, reading: str) -> tuple[Numbers, Numbers]:
    """The reading on all candidates, and on none."""
    both = np.stack([case.candidates, np.zeros_like(case.candidates)], 1)
    found = case.answers(operator, reading, both)
    return found[:, :1], found[:, 1:]


def comprehensiveness(operator: str, reading: str, case: Case, scores: Scores) -> Numbers:
    """The mean loss without the first tokens; see the module."""
    whole, _ = _ends(case, operator, reading)
    first = first_tokens(case, scores, counts_of(BUDGETS, case.candidates))
    return whole - _read(case, operator, reading, ~first).mean(-1)


def sufficiency(operator: str, reading: str, case: Case, scores: Scores) -> Numbers:
    """The mean reading on the first tokens alone; see the module."""
    first = first_tokens(case, scores, counts_of(BUDGETS, case.candidates))
    return _read(case, operator, reading, first).mean(-1)


def without_first(n: int | None, operator: str, reading: str, case: Case, scores: Scores) -> Numbers:
    """The loss without the first `n` tokens; `None` stands for the number of sources."""
    counts = case.truth.sum(1) if n is None else np.minimum(n, case.candidates.sum(1))
    whole, _ = _ends(case, operator, reading)
    return whole - _read(case, operator, reading, ~first_tokens(case, scores, counts[:, None])).mean(-1)


def deletion(operator: str, reading: str, case: Case, scores: Scores) -> Numbers:
    """Minus the area under the curve of taking the first tokens away, by the trapezoid rule."""
    first = first_tokens(case, scores, counts_of(STEPS, case.candidates))
    return -_area(*_ends(case, operator, reading), _read(case, operator, reading, ~first))


def insertion(operator: str, reading: str, case: Case, scores: Scores) -> Numbers:
    """The area under the curve of putting the first tokens in, by the trapezoid rule."""
    first = first_tokens(case, scores, counts_of(STEPS, case.candidates))
    return _area(*_ends(case, operator, reading), _read(case, operator, reading, first))


def _area(whole: Numbers, nothing: Numbers, between: Float[np.ndarray, "item measure step"]) -> Numbers:
    n = len(STEPS)
    return ((whole + nothing) / 2 + n * between.mean(-1)) / (n + 1)


def mas(operator: str, reading: str, case: Case, scores: Scores) -> Numbers:
    """Magnitude aligned scoring, insertion minus deletion; see the module."""
    counts = np.concatenate([counts_of(STEPS, case.candidates), case.candidates.sum(1)[:, None]], 1)
    first = first_tokens(case, scores, counts)
    whole, nothing = _ends(case, operator, reading)
    positive = np.where(case.candidates[:, None], np.nan_to_num(scores), 0).clip(0)
    even = case.candidates[:, None] / case.candidates.sum(1)[:, None, None]
    total = positive.sum(-1, keepdims=True)
    share = np.where(total > 0, positive / np.where(total > 0, total, 1), even)
    there = np.einsum("imbt,imt->imb", first.astype(float), share)
    shown = np.concatenate([np.zeros((*there.shape[:2], 1)), there], 2)
    change = (whole - nothing)[..., None]

    def response(kept: Bool[np.ndarray, "item measure step token"], start: Numbers) -> np.ndarray:
        v = _read(case, operator, reading, kept)
        v = np.concatenate([np.broadcast_to(start[..., None], (*v.shape[:2], 1)), v], 2)
        return ((v - nothing[..., None]) / np.where(change == 0, np.inf, change)).clip(0, 1)

    up = np.maximum.accumulate(response(first, nothing), -1)
    down = np.minimum.accumulate(response(~first, whole), -1)
    inserted = (up - np.abs(shown - up)).clip(0, 1)
    deleted = (down + np.abs(1 - shown - down)).clip(0, 1)
    return _area_of(inserted) - _area_of(deleted)


def _area_of(curve: Float[np.ndarray, "item measure step"]) -> Numbers:
    """The area under a curve between its lowest and its highest point, by the trapezoid rule."""
    low, high = curve.min(-1, keepdims=True), curve.max(-1, keepdims=True)
    flat = high - low < 1e-9
    scaled = np.where(flat, 0.5, (curve - low) / np.where(flat, 1, high - low))
    return np.trapezoid(scaled, dx=1 / (curve.shape[-1] - 1), axis=-1)


def lds(operator: str, reading: str, case: Case, scores: Scores) -> Numbers:
    """Spearman's correlation of sums of scores with readings over random halves; 0 where one is constant."""
    rng = np.random.default_rng([case.seed, HALVES])
    n = len(scores)
    kept = (rng.random((n, HALVES, scores.shape[-1])) < 0.5) & case.candidates[:, None]
    answers = case.answers(operator, reading, kept).round(9)
    largest = np.abs(np.nan_to_num(scores)).max(-1, keepdims=True)
    scaled = np.nan_to_num(scores) / np.where(largest > 0, largest, 1)
    sums = np.einsum("imt,ist->ims", scaled, kept.astype(float)).round(6)
    rows = sums.reshape(-1, HALVES), np.repeat(answers, scores.shape[1], 0)
    every = np.ones(rows[0].shape, dtype=bool)
    found = spearman_rows(*(Ragged.from_padded(each, every) for each in rows))
    return np.nan_to_num(found).reshape(n, -1)


FORMS: dict[str, Callable[[str, str, Case, Scores], Numbers]] = {
    "without the first": partial(without_first, 1),
    "without the first 3": partial(without_first, 3),
    "without the first R": partial(without_first, None),
    "comprehensiveness": comprehensiveness,
    "sufficiency": sufficiency,
    "deletion": deletion,
    "insertion": insertion,
    "LDS": lds,
    "MAS": mas,
}
"""Name -> function that aggregates readings into a number; see the module."""


def called(form: str, operator: str, reading: str) -> str:
    """The name of a protocol."""
    return f"{form}, {operator}, {reading}"


PROTOCOLS: dict[str, Protocol] = {
    called(form, operator, reading): partial(FORMS[form], operator, reading)
    for form, operator, reading in product(FORMS, OPERATORS, READINGS)
} | SOFT
"""Name -> protocol; functions of one's own with the same signature work, too."""

PLAUSIBILITY = "plausibility"
"""The quality of a method by ground truth: average precision, 0 by chance and 1 at best."""

NOISE = (0.0, 0.5, 1.0, 2.0, 4.0, np.inf)
"""Standard deviations of the rungs of the ladder; the last is noise alone."""

RUNGS = ("the truth", *(f"the truth and {noise:g} of noise" for noise in NOISE[1:-1]), "noise alone")

COMPLETED = "the truth, completed"
"""The truth whose ties are broken in its favour; see the module."""

BESIDE = (*RUNGS, COMPLETED)
"""Scores that protocols rate beside the measures: the rungs of the ladder, and the completed truth."""

TIE = 1e-3
"""The size of tie-breaking scores where a source scores 1, too small to matter to forms with sums."""

DIGITS = 6
"""The decimal places to which numbers are rounded; numbers that are then equal have the same rank."""

SPLITS = 20
"""How often questions are split into halves."""


class Rated(NamedTuple):
    """The numbers of one model's measures by every protocol and by ground truth.

    Attributes:
        measures: the names; last `BESIDE`, the rungs of the ladder and the completed truth.
        numbers: the numbers by protocol, and by ground truth (`PLAUSIBILITY`).
    """

    setting: str
    seed: int
    measures: tuple[str, ...]
    numbers: dict[str, Float[np.ndarray, "item measure"]]


def rate(
    setting: str,
    seed: int,
    case: Case,
    scores: Mapping[str, Float[Tensor, "item token"]],
    protocols: Mapping[str, Protocol],
) -> Rated:
    """The numbers of measures, of the ladder and of the completed truth by protocols."""
    every = {name: each.detach().cpu().double().numpy() for name, each in scores.items()} | ladder(case)
    stacked = np.stack([*every.values()], 1)
    numbers = {PLAUSIBILITY: plausibility(case, np.concatenate([stacked, case.truth[:, None]], 1))}
    for name, protocol in protocols.items():
        found = protocol(case, stacked)
        truths = np.concatenate([found[:, [len(scores)]], *_completed(case, name, protocol, stacked)], 1)
        best = np.nanmean(truths, axis=0).argmax()
        numbers[name] = np.concatenate([found, truths[:, [best]]], 1)
    return Rated(setting, seed, (*every, COMPLETED), numbers)


def _completed(case: Case, name: str, protocol: Protocol, scores: Scores) -> list[Numbers]:
    """A protocol's numbers of the completed truths; empty if its name has no operator and reading."""
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


def agreement(rated: Iterable[Rated], without: Sequence[str] = ()) -> pd.DataFrame:
    r"""How well rankings of measures agree with the ground truth, a row per setting and protocol."""
    table = []
    for setting, models in _by_setting(rated).items():
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


def measures_by(rated: Iterable[Rated], protocol: str) -> pd.DataFrame:
    """Every measure's number by a protocol in every setting: 0 is noise alone, 1 the completed truth.

    Numbers above 1 reward other tokens than sources. Settings where truth is not above noise are left out.
    """
    table = []
    for setting, models in _by_setting(rated).items():
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
    """The mean difference of two correlations over settings, with Student's interval cut at -2 and 2."""
    value, low, high, n = estimate(values / 2)
    return Estimate(2 * value, 2 * low, 2 * high, n)


def _by_setting(rated: Iterable[Rated]) -> dict[str, list[Rated]]:
    found: dict[str, list[Rated]] = {}
    for each in rated:
        found.setdefault(each.setting, []).append(each)
    return found


def _means(
    models: Sequence[Rated], protocol: str, some: Sequence[Bool[np.ndarray, " item"]] | None = None
) -> Float[np.ndarray, " measure"]:
    """A setting's number of every measure: the mean over its models of means over questions, or some."""
    chosen: Sequence[Any] = [slice(None)] * len(models) if some is None else some
    found = [
        np.nanmean(each.numbers[protocol][rows], axis=0) for each, rows in zip(models, chosen, strict=True)
    ]
    return np.mean(found, axis=0).round(DIGITS)


def _halves(models: Sequence[Rated], protocol: str, measures: Sequence[int]) -> float:
    rng, taus = np.random.default_rng(0), []
    for _ in range(SPLITS):
        sizes = [len(each.numbers[protocol]) for each in models]
        half = [rng.permutation(n) < n // 2 for n in sizes]
        first = _means(models, protocol, half)
        second = _means(models, protocol, [~each for each in half])
        taus.append(_tau(first[measures], second[measures]))
    return float(np.mean(taus))


def _tau(known: Float[np.ndarray, " measure"], found: Float[np.ndarray, " measure"]) -> float:
    """Kendall's tau-b; 0 if one side is constant."""
    return float(np.nan_to_num(kendall_tau(known, found)))


def _somers(known: Float[np.ndarray, " measure"], found: Float[np.ndarray, " measure"]) -> float:
    if len(set(known)) < 2:
        return 0.0
    return float(np.nan_to_num(stats.somersd(known, found).statistic))


LEARNED = "learned weights of heads"
"""The name of the measure that `learned_heads` learns."""


def cross_fitted(model: nn.Module, questions: Questions) -> Float[Tensor, "item token"]:
    """Scores by weights of heads that were learned on the other half of the questions (even or odd)."""
    even = torch.arange(len(questions)) % 2 == 0
    scores = torch.zeros(questions.input_ids.shape)
    for asked, learned in ((even, ~even), (~even, even)):
        method = learned_heads(model, prompts_of(questions.where(learned)))
        scores[asked] = scored(model, questions.where(asked), {LEARNED: method}).scores[LEARNED]
    return scores


def prompts_of(questions: Questions) -> Iterator[Prompts]:
    """The questions as input of measures: batches of one query and one length."""
    sizes = questions.attention_mask.sum(1)
    for query, length, rows in alike(questions.query, sizes, most=len(questions)):
        some = questions.where(rows)
        yield Prompts(some.input_ids[:, :length], query, some.target, some.foil)
