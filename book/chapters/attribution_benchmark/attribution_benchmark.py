"""The chapter that evaluates every attribution method on every model with ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import pandas as pd
import torch
from jaxtyping import Bool, Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from attnlib.attended import bar
from attnlib.attribution.registry import METHODS
from attnlib.benchmarking.costs import cost_table
from attnlib.models.attention.forward import context_of
from book.chapters.attribution_benchmark.measures import (
    ASKED,
    BASELINES,
    BUILT,
    Scored,
    faithfulness_rows,
    hop_rows,
    plausibility_rows,
    scored,
    untrained,
)
from book.chapters.attribution_benchmark.questions import ID, OOD, Questions
from book.chapters.attribution_benchmark.settings import SETTINGS, refuse_profile
from book.chapters.chapter import Chapter
from book.chapters.display import display_name
from book.chapters.parameters import Amount, Count, Different, Several, Text, among

T = TypeVar("T")

SettingName = Annotated[str, among(SETTINGS)]
MethodName = Annotated[str, among(METHODS)]
BuiltName = Annotated[str, among(BUILT)]
Some = Annotated[Count, Field(ge=1)]

TOLD = ("activation patching", "attribution patching")
"""Methods to which a counterfactual that differs only in the sources, and in tokens that follow from them,
reveals the ground truth: they give no score to tokens that are the same in both prompts."""

NOT_ASKED = "not asked here: it takes too many passes of a large model"
"""The reason for a missing method in a setting for which `only` names a few methods."""


@dataclass(frozen=True)
class Asked:
    """The scores of attribution methods on one model.

    Attributes:
        scores: the scores by method, including the baselines and methods applied to an untrained model.
        missing: the methods that were not applied to this model, with the reason.
    """

    setting: str
    seed: int
    model: nn.Module
    questions: Questions
    scores: dict[str, Float[Tensor, "item token"]]
    missing: dict[str, str]


class AttributionBenchmark(Chapter):
    """Parameters, questions and record of the chapter `attribution_benchmark`."""

    settings: Different[SettingName] = Field(min_length=1)
    methods: Different[MethodName]
    questions: Count = Field(ge=2, le=2000)
    fewer: dict[SettingName, Some]
    only: dict[SettingName, Several[MethodName]]
    models: Text
    train_more: bool
    others: bool
    seeds: Count = Field(ge=1, le=3)
    k: Several[Some] = Field(min_length=1)
    faithful: Count = Field(le=2000)
    budgets: Several[Amount] = Field(min_length=1)
    orders: Count = Field(ge=1, le=100)
    standard: Text
    untrained: Several[MethodName]
    shown: Count = Field(ge=1, le=20)
    cost_tokens: Count = Field(le=4096)
    whole_answers: Different[BuiltName]

    @model_validator(mode="after")
    def _possible(self) -> AttributionBenchmark:
        refuse_profile(self.models, self.settings)
        if self.standard not in self.asked_for:
            raise ValueError(f"standard should be among the methods; got {self.standard!r}")
        asked = [name for name in self.settings if name in self.only]
        if without := [name for name in asked if not {*self.only[name]} & {*self.asked_for}]:
            raise ValueError(
                f"only should leave a setting at least one of the methods; got none for {without}"
            )
        if none := [each for each in self.budgets if each <= 0 or (each > 1 and each % 1)]:
            raise ValueError(f"budgets should be shares below 1, or whole numbers of tokens; got {none}")
        return self

    @property
    def label(self) -> str:
        """The numbers of settings and of measures."""
        found = f"{len(self.settings)}-settings-{len(self.asked_for)}-measures"
        return found + "-whole-answers" * bool(self.whole_answers)

    @property
    def asked_for(self) -> list[str]:
        """The methods to evaluate: `ASKED`, unless the parameters name some."""
        return self.methods or [*ASKED]

    @property
    def transformers(self) -> list[str]:
        """The settings for means and ranks: transformers, since recurrent models support few methods."""
        found = [name for name in self.settings if SETTINGS[name].transformer]
        return found or self.settings

    # ---- scores --------------------------------------------------------------------------------------

    def ask_all(self, progress: bool = True) -> list[Asked]:
        """The scores of the methods on every model of every setting."""
        pairs = [(name, seed) for name in self.settings for seed in self.seeds_of(name)]
        return [self.ask(*pair) for pair in bar(pairs, shown=progress, desc="settings", unit="model")]

    def seeds_of(self, setting: str) -> list[int]:
        """The seeds of a setting's models that are evaluated."""
        return SETTINGS[setting].seeds(self)[: self.seeds]

    def ask(self, setting: str, seed: int) -> Asked:
        """The scores of methods and baselines on one model, and of some methods on its untrained twin."""
        model, questions = SETTINGS[setting].make(self, seed, others=self.others)
        model = model.to(self.torch_device)
        if setting in self.fewer:
            questions = questions.where(first_of_each_split(questions, self.fewer[setting]))
        here = self.only.get(setting, self.asked_for)
        there = SETTINGS[setting].methods(name for name in self.asked_for if name in here)
        found = scored(model, questions, there)
        twin = self._twin(setting, model, questions, seed)
        scores = found.scores | twin.scores | scored(model, questions, BASELINES).scores
        missing = {name: NOT_ASKED for name in self.asked_for if name not in here}
        return Asked(setting, seed, model, questions, scores, missing | found.missing | twin.missing)

    def _twin(self, setting: str, model: nn.Module, questions: Questions, seed: int) -> Scored:
        """The scores of the methods in `self.untrained` on a model with random weights."""
        if not self.untrained:
            return Scored({}, {})
        try:
            methods = SETTINGS[setting].methods(self.untrained)
            found = scored(untrained(model, seed), questions, methods)
        except ValueError as error:
            found = Scored({}, dict.fromkeys(self.untrained, str(error)))
        return Scored(_renamed(found.scores), _renamed(found.missing))

    # ---- rows ----------------------------------------------------------------------------------------

    def rows(self, asked: Sequence[Asked]) -> pd.DataFrame:
        """Plausibility of all questions, and faithfulness of the first `faithful` ones of each split."""
        tables = []
        for each in asked:
            about: dict[str, Any] = {"setting": each.setting, "seed": each.seed}
            tables.append(plausibility_rows(each.questions, each.scores, self.k).assign(**about))
            if self.faithful:
                tables.append(self._faithfulness(each).assign(**about))
        return pd.concat(tables, ignore_index=True)

    def _faithfulness(self, each: Asked) -> pd.DataFrame:
        some = first_of_each_split(each.questions, self.faithful).cpu()
        scores = {name: score[some] for name, score in each.scores.items()}
        standard = self.standard if self.standard in scores else None
        how: dict[str, Any] = {"budgets": self.budgets, "orders": self.orders, "standard": standard}
        return faithfulness_rows(each.model, each.questions.where(some), scores, **how)

    def hop_rows(self, progress: bool = True) -> pd.DataFrame:
        """How well methods find the sources of whole answers, without those of `TOLD`; see `measures`."""
        methods = [name for name in self.asked_for if name not in TOLD]
        pairs = [
            (name, seed) for name in self.whole_answers for seed in BUILT[name].seeds(self)[: self.seeds]
        ]
        shown = bar(pairs, shown=progress and bool(pairs), desc="whole answers", unit="model")
        tables = [hop_rows(*pair, self, methods, self.torch_device) for pair in shown]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def costs(self, asked: Sequence[Asked]) -> tuple[str, pd.DataFrame]:
        """The name of the transformer with the longest context and a length; the costs of methods there."""
        transformers = [each for each in asked if SETTINGS[each.setting].transformer] or asked
        each = max(transformers, key=lambda one: context_of(one.model) or 0)
        n = min(self.cost_tokens, context_of(each.model) or self.cost_tokens)
        q, there = each.questions, SETTINGS[each.setting].methods(self.asked_for)
        ids = self._repeated(q.input_ids, q.attention_mask, n)
        other = None if q.counterfactual is None else self._repeated(q.counterfactual, q.attention_mask, n)
        return f"{each.setting}, {n} tokens", cost_table(each.model, ids, there, counterfactual=other)

    def _repeated(self, ids: Tensor, real: Bool[Tensor, "item token"], n: int) -> Tensor:
        first = ids[0][real[0]]
        return first.repeat(-(-n // len(first)))[None, :n].to(self.torch_device)


def first_of_each_split(questions: Questions, n: int) -> Bool[Tensor, " item"]:
    """A mask of the first `n` questions in distribution and the first `n` out of distribution."""
    known = questions.in_distribution
    return torch.where(known, known.cumsum(0), (~known).cumsum(0)) <= n


def explored(p: AttributionBenchmark, asked: Sequence[Asked]) -> dict[str, dict[str, Any]]:
    """The first questions of the first model of each setting, as `widgets.MeasureExplorer` takes them."""
    firsts, found = {each.setting: each for each in reversed(asked)}, dict[str, dict[str, Any]]()
    for each in [firsts[name] for name in dict.fromkeys(one.setting for one in asked)]:
        q = each.questions.to("cpu")
        for item in first_of_each_split(q, p.shown).nonzero()[:, 0].tolist():
            split, answer = ID if q.in_distribution[item] else OOD, "right" if q.right[item] else "wrong"
            scores = {display_name(name): score[item].nan_to_num() for name, score in each.scores.items()}
            shown = SETTINGS[each.setting].shown(p, q, item, scores)
            name = f"{each.setting}, question {item + 1} ({split}, answered {answer})"
            found[name] = shown | {"missing": {display_name(name): why for name, why in each.missing.items()}}
    return found


EXAMPLE = ("rollout", "raw attention, last layer", "AttnLRP", "blank-out")
"""The methods whose scores of one question the page draws."""


def example(
    p: AttributionBenchmark, asked: Sequence[Asked]
) -> tuple[str, Float[Tensor, "method token"], list[str], list[str]]:
    """The first question: its name, absolute scores by `EXAMPLE` (largest: 1), these methods, the tokens."""
    name, shown = next(iter(explored(p, asked).items()))
    methods = [each for each in EXAMPLE if display_name(each) in shown["scores"]] or list(shown["scores"])[:4]
    sizes = torch.stack([shown["scores"][display_name(each)].abs() for each in methods]).float()
    sizes = sizes * shown["candidates"]
    marked = zip(shown["tokens"], shown["truth"].tolist(), strict=True)
    words = [word + "\xa0(source)" * source for word, source in marked]
    return name, sizes / sizes.amax(1, keepdim=True).clamp(min=1e-12), methods, words


def _renamed(found: dict[str, T]) -> dict[str, T]:
    return {f"{name}, untrained": each for name, each in found.items()}
