"""The chapter on RASP languages: its parameters, its models and their record."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import torch
from pydantic import Field, field_validator, model_validator
from torch import nn

from attnlib.generators.base import Batch, Sample
from attnlib.generators.rasp import (
    ALPHABET_SIZES,
    LANGUAGES,
    Definition,
    Language,
    Sequences,
    definitions_in,
    language,
)
from attnlib.generators.splits import TENTHS
from attnlib.models.compiled import PROGRAMS
from attnlib.models.transformer import Transformer, TransformerConfig
from attnlib.training import Plan
from attnlib.training.objectives import TokenLoss
from attnlib.training.packed import PackedLoss
from book.chapters.chapter import Chapter, Run, Setup
from book.chapters.parameters import Amount, Count, Rate, Seeds, Several, Share, Text, among, refuse_heads
from book.chapters.rasp.measures import match_program, name_of, with_attention_of
from book.chapters.rasp.recipes import ABLATIONS, RECIPES, Recipe, ResetToBest, Size
from book.chapters.refusals import refuse_same_names


@dataclass(frozen=True)
class RaspRun(Run):
    """A model of one language.

    Attributes:
        supervised: whether its heads' attention is supervised.
        ablation: one of `ABLATIONS`; "" for a model of the full size.
        learning_rate: from the chapter's grid; 0: the chapter's own. The same holds for `gamma`.
    """

    language: Language
    supervised: bool
    ablation: str = ""
    learning_rate: float = 0.0
    gamma: float = 0.0


ORIGINAL_NAME = re.compile(
    f"(?P<language>{'|'.join(LANGUAGES)})(_(?P<symbols>{'|'.join(map(str, ALPHABET_SIZES))}))?"
    "(?P<bos>_bos)?(_with_attns)?"
)
"""The original's names of languages, with the size of the alphabet and whether there is a BOS token."""

TO_PAIR = 200
"""The number of sequences for pairing a model's heads with a program's."""

BY_LENGTH = 12
"""The number of ranges of test lengths, unless ranges would be shorter than `SHORTEST_RANGE`."""

SHORTEST_RANGE = 5
"""The least number of lengths in a range: there are too few sequences of a single symbol to test on."""

PACKED_LENGTH, PACKED_WIDTH = 50, 128
"""The sequence length and width from which a packed pass takes about half the time, as measured."""


class RaspLanguages(Chapter):
    """Parameters, models and record of the chapter `rasp_languages`."""

    language: Text
    language_file: Text
    also: Several[Text]
    alphabet_size: Literal[ALPHABET_SIZES]
    bos: bool
    length: Count = Field(ge=1, le=1000)
    n_layers: Count = Field(le=12)
    n_heads: Count = Field(le=16)
    width: Count = Field(ge=8, le=2048)
    ff_width: Count = Field(le=8192)
    positions: Literal["sinusoidal", "learned"]
    dropout: Share = Field(lt=1)
    ablations: Several[Annotated[str, among(ABLATIONS)]]
    supervision: Amount = Field(gt=0)
    supervised: Several[Text]
    as_published: bool
    train_samples: Count = Field(ge=10)
    test_samples: Count = Field(ge=10)
    longest: Count = Field(ge=1, le=2000)
    steps: Count
    batch_size: Count
    learning_rate: Share
    schedule: Literal["onecycle", "exponential", "constant"]
    gamma: Rate
    grid: dict[Literal["learning_rate", "gamma"], Annotated[Several[Rate], Field(min_length=1)]]
    reset_patience: Count
    precision: Literal["float32", "bf16"]
    sequence: Text
    seeds: Seeds

    @model_validator(mode="before")
    @classmethod
    def _by_the_originals_name(cls, given: Any) -> Any:
        """Accept the original's names, such as `reverse_100` or `sort_26_bos`, to run that language alone."""
        name = str(given.get("language")) if isinstance(given, dict) else ""
        found = ORIGINAL_NAME.fullmatch(name)
        if found is None or name == found["language"]:
            return given
        said: dict[str, Any] = {"language": found["language"], "bos": found["bos"] is not None, "also": []}
        return given | said | ({"alphabet_size": int(found["symbols"])} if found["symbols"] else {})

    @field_validator("ablations")
    @classmethod
    def _once(cls, names: list[str]) -> list[str]:
        return list(dict.fromkeys(names))

    @model_validator(mode="after")
    def _possible(self) -> RaspLanguages:
        for name in self.supervised:
            self.lang(name)
        for name in self.languages:
            lang = self.lang(name)
            size = self.size(lang)
            self._fits(name, size)
            for split in TENTHS:
                lang.sequences(1, split=split, max_length=self.length)
            if name in self.supervised and not lang.definition.heads:
                raise ValueError(f"supervised should name languages whose program is known; got {name}")
            if name in self.supervised and not self.has_room(lang):
                raise ValueError(
                    f"n_layers and n_heads should leave room for the heads that {name} supervises, "
                    f"(layer, head) {list(lang.definition.heads)}; got {size.n_layers} and {size.n_heads}"
                )
        for ablation in self.ablations:
            self._fits(self.language, self.size(self.lang(), ablation), ablation)
        if "gamma" in self.grid and self.schedule != "exponential":
            raise ValueError(
                f"a grid of gamma counts with schedule exponential only; got schedule {self.schedule}: say "
                "-p schedule exponential, or leave gamma out of the grid"
            )
        if self.as_published and self.dropout:
            raise ValueError(
                "as_published: the authors' loss is known for models without dropout only (theirs compares "
                f"attention after it); got dropout {self.dropout:g}"
            )
        if self.longest < self.length:
            raise ValueError(f"longest should be at least length = {self.length}; got {self.longest}")
        if self.sequence:
            self.lang().encode(self.sequence)
        if len(self.sequence) > self.length:
            raise ValueError(
                f"sequence should have at most length = {self.length} symbols; got {self.sequence!r}"
            )
        refuse_same_names(self.runs())
        return self

    def _fits(self, name: str, size: Size, ablation: str = "") -> None:
        if not (size.n_layers and size.n_heads):
            full = self.size(self.lang(name))
            raise ValueError(
                f"ablations should leave a layer and a head; {ablation!r} takes the only one from {name}, "
                f"whose models have {full.n_layers} x {full.n_heads} (layers x heads)"
            )
        refuse_heads(size.width, size.n_heads, name)

    @property
    def languages(self) -> list[str]:
        """Every language to train, each once."""
        return list(dict.fromkeys([self.language, *self.also]))

    @property
    def label(self) -> str:
        """The name of the chapter's main language."""
        return self.language

    def lang(self, which: str | Definition | Language | None = None) -> Language:
        """A language with the chapter's alphabet, by name or definition; `None`: the chapter's language."""
        if isinstance(which, Language):
            return which
        which = self.language if which is None else which
        known = self.own.get(which, which) if isinstance(which, str) else which
        return language(known, self.alphabet_size, self.bos)

    @cached_property
    def own(self) -> dict[str, Definition]:
        """The languages that `language_file` defines, by their names."""
        return definitions_in(Path(self.language_file)) if self.language_file else {}

    def size(self, lang: Language, ablation: str = "") -> Size:
        """Layers, heads and width of the model for a language, reduced by the ablation if one is named."""
        n_layers, n_heads = lang.size
        size = Size(self.n_layers or n_layers, self.n_heads or n_heads, self.width)
        return ABLATIONS[ablation](size) if ablation else size

    def recipe(self, lang: Language) -> Recipe:
        """How a model of a language is trained: the language's own recipe where the parameters are 0."""
        own = asdict(RECIPES.get(lang.name, Recipe()))
        return Recipe(**{name: getattr(self, name) or value for name, value in own.items()})

    def has_room(self, lang: Language) -> bool:
        """Whether the language has target attention, and its model has all the heads to be supervised."""
        heads = lang.definition.heads
        return bool(heads) and all(map(self.size(lang).has, heads))

    def annotated(self, text: str) -> tuple[Sample, list[str]]:
        """The sample of a text, without heads that the chapter's models lack, and the names of these."""
        sample, size = self.lang().annotate(text), self.size(self.lang())
        kept = {head: target for head, target in sample.target_attention.items() if size.has(head)}
        lacking = [name_of(head) for head in sample.target_attention if head not in kept]
        return replace(sample, target_attention=kept), lacking

    # ---- models --------------------------------------------------------------------------------------

    def run(
        self,
        which: str | Definition | Language,
        supervised: bool = False,
        seed: int | None = None,
        ablation: str = "",
        rates: tuple[float, float] | None = None,
    ) -> RaspRun:
        """A model to train: of a language by its name, or of one of your own."""
        lang, seed = self.lang(which), self.seeds[0] if seed is None else seed
        learning_rate, gamma = rates or (0.0, 0.0)
        name = lang.name + ", supervised" * supervised + f", {ablation}" * bool(ablation)
        name += f", rate {learning_rate:g}, gamma {gamma:g}" * bool(rates)
        name += f", seed {seed}" * (len(self.seeds) > 1)
        return RaspRun(name, seed, lang, supervised, ablation, learning_rate, gamma)

    def runs(self) -> list[RaspRun]:
        """Every model to train; of the chapter's language also supervised (if possible) and ablated ones."""
        own = [
            (False, ""),
            *[(True, "")] * self.has_room(self.lang()),
            *((False, it) for it in self.ablations),
        ]
        kinds = {
            name: own if name == self.language else [(name in self.supervised, "")] for name in self.languages
        }
        return [
            self.run(name, supervised, seed, ablation, rates)
            for name in self.languages
            for supervised, ablation in kinds[name]
            for rates in self.rates(name)
            for seed in self.seeds
        ]

    def rates(self, name: str) -> list[tuple[float, float] | None]:
        """Every learning rate of the grid with every gamma; `[None]` if there is none."""
        if not self.grid:
            return [None]
        own = {"learning_rate": [self.recipe(self.lang(name)).learning_rate], "gamma": [self.gamma]}
        given = own | self.grid
        return list(itertools.product(given["learning_rate"], given["gamma"]))

    def of_full_size(self, lang: Language | None = None) -> list[RaspRun]:
        """The runs without an ablation, of all languages or of the given one."""
        return [run for run in self.runs() if not run.ablation and lang in (None, run.language)]

    def sequences(self, lang: Language, split: Literal["train", "valid", "test"], seed: int = 0) -> Sequences:
        """The sequences of one split; the splits are disjoint."""
        n = self.train_samples if split == "train" else self.test_samples
        return lang.sequences(n, split=split, seed=seed, max_length=self.length)

    def tests(self, lang: Language, target_attention: bool = False) -> list[Batch]:
        """Batches of held-out sequences, used neither for training nor for choosing the best checkpoint."""
        return lang.in_batches(self.sequences(lang, "test"), target_attention=target_attention)

    def tests_by_length(self, lang: Language) -> dict[tuple[int, int], list[Batch]]:
        """Unseen batches of sequences up to `longest`, by their range of lengths."""
        step = max(SHORTEST_RANGE, self.longest // BY_LENGTH)
        ranges = [(low, min(low + step - 1, self.longest)) for low in range(1, self.longest + 1, step)]
        n = max(10, self.test_samples // 5)
        return {
            (low, high): lang.in_batches(
                lang.sequences(n, split="test", seed=high, min_length=low, max_length=high)
            )
            for low, high in ranges
        }

    def programs(self, lang: Language) -> list[Language]:
        """The languages whose programs a model is compared with: its own first, if it has a program."""
        names = dict.fromkeys([lang.name, *self.languages, *PROGRAMS])
        known = [lang if name == lang.name else self.lang(name) for name in names]
        return [each for each in known if each.definition.heads]

    def matches(self, models: Mapping[str, nn.Module]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Agreement and scores of every model with every program: see `measures.match_program`."""
        agreement, scores = list[pd.DataFrame](), list[pd.DataFrame]()
        for run in self.of_full_size():
            valid = self.sequences(run.language, "valid")[slice(0, TO_PAIR)]
            test = self.sequences(run.language, "test")
            for program in self.programs(run.language):
                batches = (with_attention_of(program, run.language, each) for each in (valid, test))
                found = match_program(models[run.name], *batches)
                about: dict[str, Any] = {"run": run.name, "program of": program.name}
                about["own"] = program == run.language
                about["heads"] = ", ".join(name_of(head) for _, head in sorted(found.pairs.items()))
                agreement.append(found.agreement.assign(**about))
                scores.append(found.scores.assign(**about))
        return pd.concat(agreement, ignore_index=True), pd.concat(scores, ignore_index=True)

    def setup(self, run: RaspRun) -> Setup:
        """A transformer of the language's size, and the language's sequences."""
        lang = run.language
        torch.manual_seed(run.seed)
        size = self.size(lang, run.ablation)
        config = TransformerConfig(
            len(lang.tokenizer),
            len(lang.classes),
            **asdict(size),
            ff_width=self.ff_width or 2 * size.width,
            positions=self.positions,
            dropout=self.dropout,
            max_length=self.longest + 1,
        )
        seen, plan = self.sequences(lang, "train", run.seed), self.plan(run)
        return Setup(
            Transformer(config),
            lang.batches(seen, self.recipe(lang).batch_size, run.seed, target_attention=run.supervised),
            self.loss(run),
            plan,
            lang.in_batches(self.sequences(lang, "valid")),
            hooks=[ResetToBest(self.reset_patience, plan.evaluate_every)] if self.reset_patience else [],
        )

    def loss(self, run: RaspRun) -> TokenLoss | PackedLoss:
        """The loss; packed where that is faster, which is the same up to rounding."""
        weight = self.supervision if run.supervised else 0.0
        large = self.length >= PACKED_LENGTH and self.width >= PACKED_WIDTH
        kind = PackedLoss if large and self.torch_device.type == "cpu" else TokenLoss
        return kind(weight, as_published=self.as_published)

    def plan(self, run: RaspRun) -> Plan:
        """How the model of a run is trained."""
        recipe = self.recipe(run.language)
        epoch = max(1, self.train_samples // recipe.batch_size)
        return Plan(
            steps=recipe.steps,
            learning_rate=run.learning_rate or recipe.learning_rate,
            schedule=self.schedule,
            gamma=run.gamma or self.gamma,
            epoch_steps=epoch,
            evaluate_every=max(1, min(epoch, recipe.steps // 10)),
            stop_at=1.0,
            patience=3,
            seed=run.seed,
            device=self.device,
            precision=self.precision,
        )

    def run_table(self) -> pd.DataFrame:
        """A row per run: its name and its set-up.

        `validated` is the best accuracy on validation sequences, which selects a model from the grid.
        """
        return pd.DataFrame([self._about(run) for run in self.runs()])

    def _about(self, run: RaspRun) -> dict[str, Any]:
        lang = run.language
        another = self.size(lang) != Size(*lang.size, self.width)
        scores = self.trained[run.name].history.table["accuracy"] if run.name in self.trained else [math.nan]
        return {
            "run": run.name,
            "task": lang.name + " without BOS" * (lang.name == "hist" and not self.bos),
            "supervised": run.supervised,
            "seed": run.seed,
            "setting": self._setting(run),
            "ablation": run.ablation or "another size" * another,
            "bos": self.bos,
            "alphabet_size": len(lang.alphabet),
            "length": self.length,
            "width": self.size(lang, run.ablation).width,
            "positions": self.positions,
            "validated": max(scores),
        }

    def _setting(self, run: RaspRun) -> str:
        """The set-up of a run in words."""
        size = self.size(run.language, run.ablation)
        said = [
            "BOS" * self.bos,
            f"{size.n_layers} layer{'s' * (size.n_layers > 1)}",
            f"{size.n_heads} head{'s' * (size.n_heads > 1)}",
            f"width {size.width}",
            f"{len(run.language.alphabet)} symbols",
            f"length up to {self.length}",
            f"{self.positions} positions" * (self.positions != "sinusoidal"),
            f"dropout {self.dropout:g}" * bool(self.dropout),
            run.ablation,
            "supervised heads" * run.supervised + " as published" * (run.supervised and self.as_published),
            f"rate {run.learning_rate:g}, gamma {run.gamma:g}" * bool(run.gamma),
            f"reset after {self.reset_patience} evaluations" * bool(self.reset_patience),
            "bf16" * (self.precision == "bf16"),
        ]
        return ", ".join(part for part in said if part)
