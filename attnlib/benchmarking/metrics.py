r"""Faithfulness metrics against ground truth: does a metric rank methods as the known sources do?

A faithfulness metric sees a model, a prompt and a method's scores, and says how faithful the scores are; it
does not see the sources. On every program, the metric ranks the methods of the benchmark by its mean over
questions, and the ground truth ranks them by their average precision. The metric's *agreement* on the program
is Kendall's rank correlation tau-b of the two orders, from -1 to 1.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from attnlib.attribution.registry import METHODS
from attnlib.benchmarking.entering import compared_in_words, records_of
from attnlib.benchmarking.population import POPULATION
from attnlib.benchmarking.questions import TRUTHS, Questions, ask, precision
from attnlib.benchmarking.scoring import (
    COMPARED,
    SAME,
    SEED,
    UNCHANGED,
    asked,
    differences,
    state_of,
    summary,
)
from attnlib.checks import check, check_shape
from attnlib.files import write_atomically
from attnlib.models.base import seeded
from attnlib.models.transformer import Transformer
from attnlib.stats import with_interval
from attnlib.stats.rank_measures import kendall_tau

Metric = Callable[..., Float[Tensor, " batch"]]
"""A faithfulness metric; see `benchmark_metric`."""

Numbers = Float[np.ndarray, "question method"]
"""A metric's values: the estimated faithfulness of each method's scores."""

PUBLISHED = Path(__file__).with_name(f"{POPULATION}-metrics.parquet")
"""The recorded rows of `agreement_rows`, of 24 metrics."""

SEEDS = range(1000, 1100)
"""The seeds of the programs on which a metric is evaluated by default."""

STANDARD = "comprehensiveness, mask, p"
"""The most common metric: the drop of the target's probability when the tokens with top scores are masked."""

_DIGITS = 6


def published_metrics(seeds: Iterable[int] | None = None) -> pd.DataFrame:
    """The recorded rows of 24 metrics, for some seeds or for all; see `agreement_rows`."""
    rows = pd.read_parquet(PUBLISHED)
    return rows if seeds is None else rows[rows["seed"].isin([*seeds])].reset_index(drop=True)


def agreement_rows(
    seeds: Iterable[int],
    judge: Callable[
        [int, Transformer, Questions, Float[np.ndarray, "question method token"]], Mapping[str, Numbers]
    ],
    tick: Callable[[int], Any] = lambda seed: None,
) -> pd.DataFrame:
    """The agreement of metrics with the ground truth: a row per program, metric and truth.

    `judge` takes a seed, its model, its questions and the scores of the methods `COMPARED`; it returns by
    metric a number for every question and method, larger for more faithful scores. `value` is Kendall's tau-b
    with the ranking by the ground truth, 0 if either ranking has only ties; `n` counts questions.
    """
    found = []
    for seed in seeds:
        made = asked(seed)
        if made is not None:
            model, questions = made
            with seeded(SEED):
                scores = ask(model, questions, {name: METHODS[name] for name in COMPARED})
            numbers = judge(seed, model, questions, np.stack([*scores.values()], 1))
            for truth in TRUTHS:
                true = questions.truth(truth)
                known = np.stack([precision(each, true, questions.candidates) for each in scores.values()], 1)
                some = np.isfinite(known).all(1)
                if some.any():
                    order = known[some].mean(0).round(_DIGITS)
                    for name, number in numbers.items():
                        tau = kendall_tau(order, np.nanmean(number[some], 0).round(_DIGITS))
                        found.append((seed, name, truth, float(np.nan_to_num(tau)), int(some.sum())))
        tick(seed)
    return pd.DataFrame(found, columns=["seed", "metric", "truth", "value", "n"])


def metric_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The mean of each metric over programs, from rows of `agreement_rows`; see `MetricResult.table`."""
    return summary(_as_methods(rows)).rename(columns={"method": "metric"}).drop(columns="sign")


@dataclass(frozen=True)
class MetricResult:
    """A metric's agreement with the ground truth, beside that of the recorded metrics.

    Attributes:
        name: the metric's name.
        seeds: seeds of the requested programs.
        rows: the agreement per program, metric and truth, for the metric and the others (`agreement_rows`).
    """

    name: str
    seeds: range
    rows: pd.DataFrame

    @property
    def programs(self) -> int:
        """The number of programs on which the metric was evaluated."""
        return int(self.rows.loc[self.rows["metric"] == self.name, "seed"].nunique())

    @property
    def table(self) -> pd.DataFrame:
        """A row per metric and truth, the highest agreement first: the mean over programs.

        Columns `metric`, `truth`, `value` (of tau), `low`, `high`, `n` (programs) and `rank`.
        """
        return metric_table(self.rows)

    @property
    def differences(self) -> pd.DataFrame:
        """The metric minus `STANDARD` and the best other one, by each truth, with Holm's correction.

        Columns as in `attnlib.benchmarking.scoring.differences`.
        """
        tables = []
        for truth in TRUTHS:
            rows = _as_methods(self.rows[self.rows["truth"] == truth])
            best = summary(rows[rows["method"] != self.name])["method"][0]
            against = dict.fromkeys([STANDARD, best])
            tables.append(differences(rows, [(self.name, other) for other in against]))
        return pd.concat(tables, ignore_index=True)

    def said(self) -> str:
        """The metric's agreement and its comparisons, as text for a terminal."""
        lines = [f"{self.name}: {self.programs} programs of {POPULATION}"]
        table = self.table
        for row in table[table["metric"] == self.name].to_dict("records"):
            of = int((table["truth"] == row["truth"]).sum())
            lines.append(f"  by {row['truth']:6} tau {with_interval(row)}, rank {row['rank']} of {of}")
        return "\n".join([*lines, *compared_in_words(self.differences)])

    def entry(self, path: str | Path) -> Path:
        """Write the metric's numbers as JSON, with the seeds of the programs; returns the path."""
        own = self.rows[self.rows["metric"] == self.name]
        told = {
            "metric": self.name,
            "population": POPULATION,
            "seeds": f"{self.seeds.start}:{self.seeds.stop}",
            "summary": records_of(self.table.query("metric == @self.name")),
            "differences": records_of(self.differences),
            "values": records_of(own.drop(columns="metric")),
        }
        write_atomically(Path(path), json.dumps(told).encode() + b"\n")
        return Path(path)


def benchmark_metric(
    metric: Metric, seeds: Sequence[int] = SEEDS, *, name: str | None = None, progress: bool = True
) -> MetricResult:
    """Test how well a faithfulness metric ranks attribution methods on programs whose sources are known.

    Args:
        metric: a function `f(model, input_ids, scores, query=-1, target=None, foil=None)` that returns a
            number per prompt, `[batch]`, larger if the scores are more faithful. `scores` `[batch token]` are
            those of one method; they are minus infinity at the tokens that no method ranks, which are the
            first one and the query's own. The model is an attnlib `Transformer` in float64.
        seeds: seeds of the programs, as a `range`; only those with recorded metrics are used, 1000 to 1199.
        name: the metric's name in the results; by default the function's own name.
        progress: whether to show a bar, if there is a terminal.

    Raises:
        ValueError: the name is that of a recorded metric; no seed has recorded metrics; or the metric fails,
            does not return a finite number per prompt, changes the model, or is random without a seed.
    """
    recorded = published_metrics()
    called = name or str(getattr(metric, "__name__", "my metric"))
    check(called not in set(recorded["metric"]), "name must differ from those of recorded metrics", called)
    there = sorted(set(recorded["seed"]))
    wanted = [seed for seed in there if isinstance(seeds, range) and seed in seeds]
    check(wanted, f"seeds must be a range with some of those recorded, {there[0]} to {there[-1]}", seeds)

    def judge(seed: int, model: Transformer, questions: Questions, scores: Any) -> dict[str, Numbers]:
        return {called: _numbers(metric, called, model, questions, scores)}

    with tqdm(
        total=len(wanted), unit="program", disable=None if progress else True, leave=False, file=sys.stderr
    ) as bar:
        own = agreement_rows(wanted, judge, tick=lambda _: bar.update())
    others = recorded[recorded["seed"].isin(wanted)]
    return MetricResult(
        called, range(min(seeds), max(seeds) + 1), pd.concat([own, others], ignore_index=True)
    )


def _numbers(metric: Metric, called: str, model: Transformer, questions: Questions, scores: Any) -> Numbers:
    """The metric's number for every question and method; questions of one query share a batch."""
    found = np.full(scores.shape[:2], math.nan)
    ranked = np.where(questions.candidates[:, None], scores, -math.inf)
    before = state_of(model)
    for query in questions.query.unique().tolist():
        rows = (questions.query == query).nonzero()[:, 0]
        for method in range(scores.shape[1]):
            given = questions.ids[rows], torch.from_numpy(ranked[rows.numpy(), method])
            how = {"query": query, "target": questions.target[rows], "foil": questions.foil[rows]}
            numbers = _checked(metric, called, model, given, how)
            if method == 0:
                again = _checked(metric, called, model, given, how)
                check(torch.equal(numbers, again), f"{called} {SAME}", "other numbers")
            found[rows.numpy(), method] = numbers.numpy()
    check(state_of(model) == before, f"{called} {UNCHANGED}", "a changed model")
    return found


def _checked(metric: Metric, called: str, model: Transformer, given: Any, how: Any) -> Tensor:
    try:
        numbers = torch.as_tensor(metric(model, *given, **how)).detach().double()
    except Exception as error:
        raise ValueError(
            f"{called} must judge scores of an attnlib Transformer in float64; it ends with "
            f"{type(error).__name__}: {error}"
        ) from error
    check_shape(given[0].shape[:1], "[prompt]", **{f"the numbers of {called}": numbers})
    check(bool(numbers.isfinite().all()), f"the numbers of {called} must be finite", numbers)
    return numbers


def _as_methods(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `agreement_rows` with the columns that `summary` and `differences` expect."""
    return rows.rename(columns={"metric": "method"}).assign(sign="as given")
