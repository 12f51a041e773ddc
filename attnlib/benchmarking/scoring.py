r"""Scores of attribution methods on programs of the population, and statistics over programs.

The unit is the program: scores are averaged over its questions, and every interval is Student's 95 %
confidence interval over programs. Two methods are compared by their difference on each program (a paired
t-test), with Holm's correction over the pairs of one truth and sign.
"""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats
import torch
from torch import Tensor, nn

from attnlib.attribution.prompts import Method
from attnlib.attribution.registry import METHODS, SIGNED
from attnlib.benchmarking.compiling import Disguise, InexactError, compiled
from attnlib.benchmarking.population import POPULATION, draw
from attnlib.benchmarking.programs import COPY, COUNT, LOOKUP, Program
from attnlib.benchmarking.questions import TRUTHS, Questions, ask, precision, questions_of
from attnlib.checks import check, check_shape
from attnlib.models.base import seeded
from attnlib.models.transformer import Transformer
from attnlib.stats.comparisons import corrected
from attnlib.stats.seeds import over_seeds
from attnlib.undoing import scope, undone

CONFIRMATION = range(1000, 2000)
"""Held-out seeds for testing a method; develop it on others, such as 0 to 999."""

PUBLISHED = Path(__file__).with_name(f"{POPULATION}.parquet")
"""The recorded scores of the methods `COMPARED`: rows of `rows_of`."""

FEATURES = Path(__file__).with_name(f"{POPULATION}-features.parquet")
"""The recorded rows of `features` for the same programs, since drawing a thousand programs takes minutes."""

KEY = ["method", "truth", "sign"]

_LEFT_OUT = ("rollout over null", "sink-free over null", "KernelSHAP", "ReAGent")

COMPARED = tuple(name for name in METHODS if name not in _LEFT_OUT)
"""The compared methods: all but those that need a causal model, and two that take many passes."""

SEED = 0
"""The seed of random methods, which is set before each method is run."""


def asked(seed: int, disguise: Disguise | None = None) -> tuple[Transformer, Questions] | None:
    """A program's transformer and questions; None for too few questions or an inexact transformer."""
    program = draw(seed)
    questions = questions_of(program)
    if questions is None:
        return None
    try:
        return compiled(program, disguise), questions
    except InexactError:
        return None


def rows_of(
    seeds: Iterable[int],
    methods: Mapping[str, Method],
    made: Callable[[int], tuple[Transformer, Questions] | None] = asked,
    tick: Callable[[int], Any] = lambda seed: None,
) -> pd.DataFrame:
    """The mean score of each method on each program: a row per program, method, truth and sign.

    The sign is "as given", and for methods in `SIGNED` or with scores below 0 also "absolute". `n` counts the
    questions that `value` is the mean of. A program for which `made` returns None has no rows.
    """
    found: list[dict[str, Any]] = []
    for seed in seeds:
        program = made(seed)
        if program is not None:
            model, questions = program
            for name, method in methods.items():
                with seeded(SEED):
                    scores = ask(model, questions, {name: method})[name]
                found += _rows(seed, name, scores, questions)
        tick(seed)
    return pd.DataFrame(found, columns=["seed", *KEY, "value", "n"])


def _rows(seed: int, name: str, scores: np.ndarray, questions: Questions) -> Iterator[dict[str, Any]]:
    signs = {"as given": scores} | (
        {"absolute": np.abs(scores)} if name in SIGNED or (scores < 0).any() else {}
    )
    for truth in TRUTHS:
        for sign, each in signs.items():
            values = precision(each, questions.truth(truth), questions.candidates)
            n = int(np.isfinite(values).sum())
            if n:
                value = round(float(np.nanmean(values)), 5)
                yield {"seed": seed, "method": name, "truth": truth, "sign": sign, "value": value, "n": n}


def features(seeds: Iterable[int]) -> pd.DataFrame:
    """The features of programs, a row per seed.

    Columns are `seed`, `layers` (as many as heads on the longest chain to the output), `counts`, `copies`
    and `lookups` (variables that the output is computed from), `distractors` (heads that the output does not
    depend on), `causal`, `length`, `alphabet`, and the fields of `Disguise`.
    """
    wanted = [*seeds]
    known = _recorded_features() if FEATURES.exists() else pd.DataFrame()
    there = [seed for seed in wanted if seed in known.index]
    drawn = [features_of(draw(seed)) for seed in wanted if seed not in known.index]
    parts = [known.loc[there].reset_index()] * bool(there) + [pd.DataFrame(drawn)] * bool(drawn)
    return pd.concat(parts, ignore_index=True)


@functools.cache
def _recorded_features() -> pd.DataFrame:
    return pd.read_parquet(FEATURES).set_index("seed")


def features_of(program: Program) -> dict[str, Any]:
    """The features of one program; see `features`."""
    used = [program.variables[number] for number in program.used()]
    kinds = {name: sum(each.operation == name for each in used) for name in (COUNT, COPY, LOOKUP)}
    heads = sum(each.is_head for each in program.variables)
    return {
        "seed": program.seed,
        "layers": program.n_layers,
        "counts": kinds[COUNT],
        "copies": kinds[COPY],
        "lookups": kinds[LOOKUP],
        "distractors": heads - kinds[COUNT] - kinds[COPY],
        "causal": program.causal,
        "length": program.length,
        "alphabet": program.alphabet,
        **vars(Disguise.of(program.seed)),
    }


def published(seeds: Iterable[int] | None = None) -> pd.DataFrame:
    """The recorded rows of `rows_of` for the methods `COMPARED`, for some seeds or for all."""
    rows = pd.read_parquet(PUBLISHED)
    return rows if seeds is None else rows[rows["seed"].isin([*seeds])].reset_index(drop=True)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """The mean of each method over programs, from rows of `rows_of`: a row per method, truth and sign.

    Further columns are its interval, `n` (programs), and `rank` among the rows of one truth and sign.
    """
    found = []
    for key, part in rows.groupby(KEY, sort=False):
        found.append((*key, *over_seeds(part["value"].to_numpy())))
    table = pd.DataFrame(found, columns=[*KEY, "value", "low", "high", "n"])
    table["rank"] = table.groupby(["truth", "sign"])["value"].rank(ascending=False, method="min").astype(int)
    return table.sort_values(["truth", "sign", "rank"], ignore_index=True)


def differences(rows: pd.DataFrame, pairs: Iterable[tuple[str, str]] | None = None) -> pd.DataFrame:
    """Pairs of methods, by default all, compared on the same programs, in rows of `rows_of`.

    A row per pair, truth and sign: `first`, `second`, `value` (first minus second), `low`, `high`, `n`
    (programs), `p` of the paired t-test, and `p_holm`, corrected over the pairs of one truth and sign.
    """
    tables = []
    for (truth, sign), part in rows.groupby(["truth", "sign"], sort=False):
        wide = part.pivot(index="seed", columns="method", values="value")
        those = [*combinations(wide.columns, 2)] if pairs is None else pairs
        compared = [(a, b, (wide[a] - wide[b]).dropna()) for a, b in those if a in wide and b in wide]
        table = pd.DataFrame(
            [
                (a, b, *over_seeds(each.to_numpy()), _p(each.to_numpy()))
                for a, b, each in compared
                if len(each)
            ],
            columns=["first", "second", "value", "low", "high", "n", "p"],
        )
        tables.append(
            table.assign(truth=str(truth), sign=str(sign), p_holm=corrected(table["p"].to_numpy(float)))
        )
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _p(difference: np.ndarray) -> float:
    """The p-value of Student's t-test that the mean is 0; 1 if all are 0, NaN for fewer than two."""
    if len(difference) < 2:
        return float("nan")
    if not difference.any():
        return 1.0
    return float(scipy.stats.ttest_1samp(difference, 0).pvalue)


UNCHANGED = "must leave the model's weights, mode and hooks as they were"
SAME = "must return the same when it is called again (draw from a generator with a seed of its own)"


class Checked:
    """A method whose results are checked; `passes` counts the rows that the model is called with."""

    def __init__(self, method: Method, name: str) -> None:
        self.__signature__ = inspect.signature(method)  # whether it takes a counterfactual
        self.method, self.name = method, name
        self.passes = self.questions = 0
        self._known = False

    def __call__(self, model: nn.Module, input_ids: Tensor, *given: Any, **how: Any) -> Tensor:
        """The method's scores; raises a `ValueError` if they are invalid or random, or the model changed."""
        before = state_of(model)
        with rows_counted(model) as calls:
            scores = self._scores(model, input_ids, given, how)
        self.passes, self.questions = self.passes + sum(calls), self.questions + len(input_ids)
        check(state_of(model) == before, f"{self.name} {UNCHANGED}", "a changed model")
        if not self._known:
            with seeded(SEED + 1):
                again = self._scores(model, input_ids, given, how)
            check(torch.allclose(scores, again, equal_nan=True), f"{self.name} {SAME}", "other scores")
            self._known = True
        return scores

    def _scores(
        self, model: nn.Module, input_ids: Tensor, given: tuple[Any, ...], how: dict[str, Any]
    ) -> Tensor:
        try:
            scores = torch.as_tensor(self.method(model, input_ids, *given, **how))
        except Exception as error:
            raise ValueError(
                f"{self.name} must explain an attnlib Transformer in float64; it ends with "
                f"{type(error).__name__}: {error}"
            ) from error
        check_shape(input_ids.shape, "[prompt token]", **{f"the scores of {self.name}": scores})
        query = int(how.get("query", -1))
        own = torch.arange(scores.shape[1]) == query % scores.shape[1]
        scores = scores.detach()
        finite = bool(scores.double()[:, ~own].isfinite().all())
        check(finite, f"the scores of {self.name} must be finite but at the query", scores)
        return scores


def state_of(model: nn.Module) -> tuple[Any, ...]:
    """The state of a model that a method must not change: weights (by their versions), mode, and hooks."""
    hooks = sum(len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules())
    weights = tuple((id(each), each._version) for each in model.parameters())
    return weights, tuple(each.training for each in model.modules()), hooks


@scope
def rows_counted(model: nn.Module) -> Iterator[list[int]]:
    """A context that gives a list of the batch sizes with which the model is called inside it."""
    calls = list[int]()

    def count(module: nn.Module, given: tuple[Any, ...], how: dict[str, Any]) -> None:
        ids = given[0] if given else how.get("input_ids")
        calls.append(len(ids) if isinstance(ids, Tensor) else 1)

    def remove() -> None:
        own = [key for key, each in model._forward_pre_hooks.items() if each is count]
        for key in own:
            model._forward_pre_hooks_with_kwargs.pop(key, None)
            model._forward_pre_hooks.pop(key, None)

    with undone(remove):
        model.register_forward_pre_hook(count, with_kwargs=True)
        yield calls


def versions() -> dict[str, str]:
    """The versions of the packages that scores depend on."""
    return {name: importlib.metadata.version(name) for name in ("attnlib", "torch", "numpy")}
