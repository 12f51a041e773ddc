"""The chapter that tests faithfulness metrics (*protocols*) on models with ground truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from pydantic import Field, model_validator
from torch import Tensor

from attnlib.attended import bar
from attnlib.attribution.registry import METHODS, SIGNED
from book.chapters.attribution_benchmark.measures import ASKED, scored
from book.chapters.attribution_benchmark.questions import Questions
from book.chapters.attribution_benchmark.settings import FURTHER, SETTINGS, Setting, refuse_profile
from book.chapters.chapter import Chapter
from book.chapters.faithfulness_metrics.further import carry, needles, roar
from book.chapters.faithfulness_metrics.further.hidden_keys import RETRAINED, keys_hidden
from book.chapters.faithfulness_metrics.further.tables import FEWEST, part_tables
from book.chapters.faithfulness_metrics.measures import (
    FORMS,
    LEARNED,
    PROTOCOLS,
    Protocol,
    Rated,
    agreement,
    called,
    cross_fitted,
    rate,
)
from book.chapters.faithfulness_metrics.perturbation import OPERATORS, READINGS, SOFT, Case, single_effect
from book.chapters.faithfulness_metrics.predictions import RECORDED_SETTINGS
from book.chapters.parameters import Count, Different, Text, among

Cases = dict[tuple[str, int], Case]
"""Setting and seed -> the model with its questions."""

Scores = dict[tuple[str, int], dict[str, Float[Tensor, "item token"]]]
"""Setting and seed -> measure -> its scores of the questions."""

BEYOND = {"carry": carry, "needles": needles, "roar": roar}
"""Further experiments with a module of their own, each with a function `rated` and predictions."""

PARTS = ("apart", *BEYOND)
"""The further experiments that the parameter `parts` can name."""

SettingName = Annotated[str, among((*RECORDED_SETTINGS, *FURTHER))]
RetrainedName = Annotated[str, among(RETRAINED)]
MethodName = Annotated[str, among((*METHODS, LEARNED))]
FormName = Annotated[str, among((*FORMS, *SOFT))]
OperatorName = Annotated[str, among(OPERATORS)]
ReadingName = Annotated[str, among(READINGS)]
PartName = Annotated[str, among(PARTS)]

APART: dict[str, Callable[[Questions], Bool[Tensor, " item"]]] = {
    "out of distribution": lambda q: q.right & ~q.in_distribution,
    "answered wrongly": lambda q: ~q.right,
}
"""Kinds of questions that are evaluated apart -> the mask of a kind; metrics are not selected on them."""

BLIND = "hist, compiled"
"""The program whose sources carry no value: see `FaithfulnessMetrics.blind_spot`."""


class FaithfulnessMetrics(Chapter):
    """Parameters, models and record of the chapter `faithfulness_metrics`."""

    settings: Different[SettingName] = Field(min_length=1)
    methods: Different[MethodName]
    forms: Different[FormName] = Field(min_length=1)
    operators: Different[OperatorName] = Field(min_length=1)
    readings: Different[ReadingName] = Field(min_length=1)
    questions: Count = Field(ge=4, le=2000)
    models: Text
    train_more: bool
    others: bool
    retrained: Different[RetrainedName]
    seeds: Count = Field(ge=1, le=3)
    draws: Count = Field(ge=1, le=100)
    shown: Count = Field(ge=1, le=20)
    parts: Different[PartName]

    @model_validator(mode="after")
    def _possible(self) -> FaithfulnessMetrics:
        refuse_profile(self.models, [*self.settings, *self.retrained])
        if len(self.methods) == 1:
            raise ValueError(
                f"methods should be at least two, to be ranked, or none for all; got {self.methods}"
            )
        if "carry" in self.parts and self.seeds == 1:
            raise ValueError(
                'seeds should be at least 2 where parts has "carry", whose weights go to another'
            )
        return self

    @property
    def label(self) -> str:
        """The numbers of settings and of protocols."""
        return f"{len(self.settings)}-settings-{len(self.asked_for)}-protocols"

    @property
    def asked_for(self) -> dict[str, Protocol]:
        """The protocols of these forms, operators and readings, by name."""
        forms = [form for form in self.forms if form not in SOFT]
        names = [called(*parts) for parts in product(forms, self.operators, self.readings)]
        names += [form for form in self.forms if form in SOFT]
        return {name: PROTOCOLS[name] for name in names}

    @property
    def measures(self) -> list[str]:
        """The measures that are rated: `ASKED`, unless some are named."""
        return self.methods or [*ASKED]

    # ---- questions, scores of measures, and numbers of metrics ---------------------------------------

    def _case(self, setting: Setting, seed: int) -> Case:
        """A model, and the questions in distribution that it answers correctly."""
        model, questions = setting.make(self, seed, others=self.others)
        known = questions.where(questions.right & questions.in_distribution)
        if len(known) < 2:
            raise ValueError(
                f"{setting.title}, seed {seed}: at least two questions should be answered rightly; "
                f"got {len(known)} of {len(questions)}. Ask more, or train it longer (models=...)."
            )
        return Case(model.to(self.torch_device), known, draws=self.draws, seed=seed)

    def cases(self, progress: bool = True) -> Cases:
        """Every model of every setting, with its questions."""
        pairs = [(name, seed) for name in self.settings for seed in SETTINGS[name].seeds(self)[: self.seeds]]
        shown = bar(pairs, shown=progress, desc="models", unit="model")
        return {(name, seed): self._case(SETTINGS[name], seed) for name, seed in shown}

    def retrained_cases(self, progress: bool = True) -> Cases:
        """A model trained with hidden keys, with its questions, for each of `settings` in `retrained`."""
        both = [name for name in self.retrained if name in self.settings]
        shown = bar(both, shown=progress, desc="trained again", unit="model")
        return {(name, 0): self._case(keys_hidden(name), 0) for name in shown}

    def cases_apart(self, kind: str, cases: Cases, progress: bool = True) -> Cases:
        """The same models with the questions of one kind of `APART`, if there are at least `FEWEST`."""
        found = Cases()
        for name, seed in bar(cases, shown=progress, desc=kind, unit="model"):
            _, questions = SETTINGS[name].make(self, seed, others=self.others)
            some = questions.where(APART[kind](questions))
            if len(some) >= FEWEST:
                found[name, seed] = Case(cases[name, seed].model, some, draws=self.draws, seed=seed)
        return found

    def apart(self, cases: Cases, protocols: Sequence[str], progress: bool = True) -> dict[str, pd.DataFrame]:
        """Agreement of protocols with ground truth by kind (`APART`); empty unless `parts` has "apart"."""
        found = dict[str, pd.DataFrame]()
        for kind in APART if "apart" in self.parts else ():
            some = self.cases_apart(kind, cases, progress)
            found[kind] = agreement(self.rate_all(some, self.scores(some, progress), protocols, progress))
        return found

    def beyond(self, part: str) -> dict[str, pd.DataFrame]:
        """The tables of a further experiment of `BEYOND`, by name; empty unless it is in `parts`."""
        module = BEYOND[part]
        return part_tables(part, module.rated(self), module.PREDICTED) if part in self.parts else {}

    def scores(self, cases: Cases, progress: bool = True) -> Scores:
        """The scores of every measure; learned weights of heads are fitted on other questions."""
        plain = [name for name in self.measures if name != LEARNED]
        found = Scores()
        for pair, case in bar(cases.items(), shown=progress, desc="measured", unit="model"):
            found[pair] = scored(case.model, case.questions, SETTINGS[pair[0]].methods(plain)).scores
            if LEARNED in self.measures:
                found[pair][LEARNED] = cross_fitted(case.model, case.questions)
        return found

    def rate_all(
        self, cases: Cases, scores: Scores, protocols: Sequence[str] = (), progress: bool = True
    ) -> list[Rated]:
        """The protocols' numbers of these scores: those of `protocols`, or else of all in `asked_for`."""
        some = {name: PROTOCOLS[name] for name in protocols} or self.asked_for
        shown = bar(cases.items(), shown=progress, desc="rated", unit="model")
        return [rate(*pair, case, scores[pair], some) for pair, case in shown]

    def explored(self, cases: Cases) -> dict[str, dict[str, Any]]:
        """The effects of removing tokens of the first questions, as `widgets.MeasureExplorer` takes them."""
        found = dict[str, dict[str, Any]]()
        firsts = {setting: case for (setting, _), case in reversed(cases.items())}
        for setting in dict.fromkeys(setting for setting, _ in cases):
            case = firsts[setting]
            effects = single_effects(case)
            for item in range(min(self.shown, len(case.questions))):
                lost = {name: torch.from_numpy(each[item]) for name, each in effects.items()}
                shown = SETTINGS[setting].shown(self, case.questions, item, lost)
                found[f"{setting}, question {item + 1}"] = shown
        return found

    def blind_spot(self, methods: list[str]) -> tuple[list[str], Questions, torch.Tensor]:
        """One question to the program `BLIND`: its tokens, the question, and scaled absolute scores."""
        model, questions = SETTINGS[BLIND].make(self, 0, others=self.others)
        sizes = questions.truth.sum(1) * 100 - questions.attention_mask.sum(1)
        first = questions.where(sizes.argmax()[None])
        n = int(first.attention_mask.sum())
        scores = scored(model, first, methods).scores
        values = torch.stack([scores[name][0, :n].nan_to_num().abs() for name in methods])
        words = SETTINGS[BLIND].words(self, first.input_ids[0, :n])
        return words, first, values / values.amax(1, keepdim=True)


def without_sign(scores: Scores) -> Scores:
    """The absolute values of scores that have a sign, under their measures' names."""
    return {
        pair: {name: each.abs() for name, each in found.items() if name in (*SIGNED, LEARNED)}
        for pair, found in scores.items()
    }


def single_effects(case: Case) -> dict[str, np.ndarray]:
    """The effect of removing each token alone, by operator and reading: a number per item and token."""
    return {
        f"{operator}, {reading}": single_effect(case, operator, reading)
        for operator, reading in product(OPERATORS, READINGS)
    }
