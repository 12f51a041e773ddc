r"""Protocols that judge measures of attribution without knowing the answer: a registry, as `METHODS` is.

A protocol is a function of a `Case` and of scores, and says how good each measure's scores are, question by
question; larger is better. Most of them take tokens away by an operator and read the answer
(`book.chapters.faithfulness_metrics.removal`). With $v(S)$ the reading on candidates $S$, $C$ all of them and
$T_n$ the first $n$ by a measure, a *form* makes a number of it:

    without the first n    v(C) - v(C without T_n), n = 1, 3, or as many as there are sources (R)
    comprehensiveness      the mean of that over 10, 20 and 50 % of the candidates
    sufficiency            the mean of v(T_n) over the same n
    deletion               minus the area under v(C without T_n), n from none to all in steps of 20 %
    insertion              the area under v(T_n), in the same steps
    LDS                    Spearman's correlation of v(S) with the sum of scores over S, over random halves S
    MAS                    insertion minus deletion, of v and of the scores themselves; see below

MAS asks for more than an order. With $r_n = (v(T_n) - v(\emptyset)) / (v(C) - v(\emptyset))$ from 0 to 1,
made so that it never falls, and $d_n$ the share of all scores above 0 that $T_n$ has, its curve is
$\max(0, r_n - |d_n - r_n|)$, from its lowest (0) to its highest (1). For deletion $r_n$ is of
$v(C \setminus T_n)$ and never rises, $d_n$ the share of what is left, and the curve
$\min(1, r_n + |d_n - r_n|)$. One that is the same everywhere counts as 1/2. (Scores below 0, of which the
authors' images have none, count as 0.)

Tokens of equal score are ordered by a coin of the measure's own: one coin for all would rank all measures
that say nothing alike, and give them the luck of one order.

References:
    DeYoung et al. 2020, *ERASER*: comprehensiveness, sufficiency. Petsiuk et al. 2018, *RISE*: deletion and
    insertion. Park et al. 2023, *TRAK*, section 3: the linear datamodeling score (LDS), of training data;
    Cohen-Wang et al. 2024, *ContextCite*, section 4: of a prompt's parts. Walker et al. 2024, *Attribution
    quality metrics with magnitude alignment* (MAS), section 4, and their code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
from jaxtyping import Bool, Float, Int

from attnlib.stats.ragged import Ragged
from attnlib.stats.rank_measures import spearman_rows
from book.chapters.attribution_benchmark.measures import BUDGETS, counts_of, order_of
from book.chapters.faithfulness_metrics.removal import OPERATORS, READINGS, Case
from book.chapters.faithfulness_metrics.soft import SOFT

Scores = Float[np.ndarray, "item measure token"]
Numbers = Float[np.ndarray, "item measure"]
Protocol = Callable[[Case, Scores], Numbers]
"""How good each measure's scores are of each question; larger is better."""

STEPS, HALVES = (0.2, 0.4, 0.6, 0.8), 64
"""Shares of the candidates between none and all; and how many random halves LDS takes."""

Counts = Int[np.ndarray, "item budget"]


def first_tokens(case: Case, scores: Scores, counts: Counts) -> Bool[np.ndarray, "item measure budget token"]:
    """Which candidates every measure puts first, so many of them; NaN comes last."""
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
    """How much is lost without the first tokens; see the module."""
    whole, _ = _ends(case, operator, reading)
    first = first_tokens(case, scores, counts_of(BUDGETS, case.candidates))
    return whole - _read(case, operator, reading, ~first).mean(-1)


def sufficiency(operator: str, reading: str, case: Case, scores: Scores) -> Numbers:
    """How much is there with the first tokens alone; see the module."""
    first = first_tokens(case, scores, counts_of(BUDGETS, case.candidates))
    return _read(case, operator, reading, first).mean(-1)


def without_first(n: int | None, operator: str, reading: str, case: Case, scores: Scores) -> Numbers:
    """How much is lost without the first `n` tokens, or as many as there are sources."""
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
    """Whether sums of scores rank random halves of candidates as the model does; 0 where all are equal."""
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
"""What is made of the readings: name -> function; see the module."""


def called(form: str, operator: str, reading: str) -> str:
    """The name of a protocol."""
    return f"{form}, {operator}, {reading}"


PROTOCOLS: dict[str, Protocol] = {
    called(form, operator, reading): partial(FORMS[form], operator, reading)
    for form, operator, reading in product(FORMS, OPERATORS, READINGS)
} | SOFT
"""Name -> function; one of a reader's own is as good."""
