"""The chapter on RASP languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd
import torch
from pydantic import Field, field_validator, model_validator
from torch import nn

from attnlib.chapters.base import Chapter, Run, Setup
from attnlib.generators.base import Batch
from attnlib.generators.rasp import ALPHABET_SIZES, Definition, Language, Sequences, language
from attnlib.measures.program_heads import match_program, name_of
from attnlib.models.compiled import PROGRAMS, Compiled
from attnlib.models.transformer import Transformer, TransformerConfig
from attnlib.stats import summarise
from attnlib.training import Plan, token_loss

TO_PAIR = 200
"""How many sequences the model's heads are paired with a program's by."""

RECORDED = ["run", "metric", "value", "low", "high", "n", "uniform"]


@dataclass(frozen=True)
class RaspRun(Run):
    """A model of one language.

    Attributes:
        language: what it is to compute.
        supervised: whether its heads are told where to look.
    """

    language: Language
    supervised: bool


class RaspLanguages(Chapter):
    """Parameters, models and record of the chapter `rasp_languages`."""

    language: str
    also: list[str]
    alphabet_size: int
    bos: bool
    length: int = Field(ge=1, le=1000)
    n_layers: int = Field(ge=0, le=12)
    n_heads: int = Field(ge=0, le=16)
    width: int = Field(ge=8, le=2048)
    supervision: float = Field(gt=0)
    supervised: list[str]
    train_samples: int = Field(ge=10)
    test_samples: int = Field(ge=10)
    steps: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    learning_rate: float = Field(gt=0, le=1)
    schedule: Literal["onecycle", "exponential", "constant"]
    gamma: float = Field(gt=0, le=1)
    sequence: str
    seeds: list[int] = Field(min_length=1)

    @field_validator("language")
    @classmethod
    def _known(cls, name: str) -> str:
        language(name)
        return name

    @field_validator("also", "supervised")
    @classmethod
    def _all_known(cls, names: list[str]) -> list[str]:
        for name in names:
            language(name)
        return names

    @field_validator("alphabet_size")
    @classmethod
    def _alphabet(cls, size: int) -> int:
        if size not in ALPHABET_SIZES:
            raise ValueError(
                f"alphabet_size should be one of {', '.join(map(str, ALPHABET_SIZES))}; got {size}"
            )
        return size

    @model_validator(mode="after")
    def _possible(self) -> RaspLanguages:
        for name in self.languages:
            n_layers, n_heads = self.size(self.lang(name))
            if self.width % n_heads or self.width % 2:
                allowed = [n for n in range(1, 17) if self.width % n == 0]
                raise ValueError(
                    f"width should be even and a multiple of n_heads; got width {self.width} and n_heads "
                    f"{n_heads} for {name} (n_heads may be {', '.join(map(str, allowed))} at this width)"
                )
            if name in self.supervised and not self.has_room(self.lang(name)):
                raise ValueError(
                    f"n_layers and n_heads should leave room for the heads that {name} supervises, "
                    f"(layer, head) {list(self.lang(name).definition.heads)}; got {n_layers} and {n_heads}"
                )
        if self.sequence:
            self.lang().encode(self.sequence)
        if len(self.sequence) > self.length:
            raise ValueError(
                f"sequence should have at most length = {self.length} symbols; got {self.sequence!r}"
            )
        return self

    @property
    def languages(self) -> list[str]:
        """Every language to train, each once."""
        return list(dict.fromkeys([self.language, *self.also]))

    @property
    def label(self) -> str:
        """The language that is looked into."""
        return self.language

    def lang(self, which: str | Definition | Language | None = None) -> Language:
        """A language with the chapter's alphabet: by its name, or one of your own; `None`: the chapter's."""
        if isinstance(which, Language):
            return which
        return language(which or self.language, self.alphabet_size, self.bos)

    def size(self, lang: Language) -> tuple[int, int]:
        """Layers and heads of the model for a language."""
        n_layers, n_heads = lang.size
        return self.n_layers or n_layers, self.n_heads or n_heads

    def has_room(self, lang: Language) -> bool:
        """Whether the language has target attention, and its model all the heads that are to have it."""
        heads, (n_layers, n_heads) = lang.definition.heads, self.size(lang)
        return bool(heads) and all(layer < n_layers and head < n_heads for layer, head in heads)

    # ---- models --------------------------------------------------------------------------------------

    def run(
        self, which: str | Definition | Language, supervised: bool = False, seed: int | None = None
    ) -> RaspRun:
        """A model to train: of a language by its name, or of one of your own."""
        lang, seed = self.lang(which), self.seeds[0] if seed is None else seed
        name = lang.name + ", supervised" * supervised + f", seed {seed}" * (len(self.seeds) > 1)
        return RaspRun(name, seed, lang, supervised)

    def runs(self) -> list[RaspRun]:
        """Every model to train; that of the chapter's own language also supervised, if it can be."""
        own = [False, True] if self.has_room(self.lang()) else [False]
        kinds = {name: own if name == self.language else [name in self.supervised] for name in self.languages}
        return [
            self.run(name, supervised, seed)
            for name in self.languages
            for supervised in kinds[name]
            for seed in self.seeds
        ]

    def sequences(self, lang: Language, split: Literal["train", "valid", "test"], seed: int = 0) -> Sequences:
        """Sequences of one split, none of which is in another."""
        n = self.train_samples if split == "train" else self.test_samples
        return lang.sequences(n, split=split, seed=seed, max_length=self.length)

    def tests(self, lang: Language, target_attention: bool = False) -> list[Batch]:
        """Batches that no model has seen, neither in training nor in choosing the best checkpoint."""
        return lang.in_batches(self.sequences(lang, "test"), target_attention=target_attention)

    def programs(self, lang: Language) -> list[Language]:
        """Languages whose programs a model is compared with: its own first, if it is known; others."""
        names = dict.fromkeys([lang.name, *self.languages, *PROGRAMS])
        known = [lang if name == lang.name else self.lang(name) for name in names]
        return [each for each in known if each.definition.heads]

    def matches(self, models: Mapping[str, nn.Module]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Every model beside every program: see `attnlib.measures.program_heads.match_program`.

        Args:
            models: by the names of `runs()`.

        Returns:
            The rows of agreement and of scores, with the columns `run`, `program of` (a language), `own`,
            whether that is the model's, and `heads`, which of the model's go with the program's, in order.
        """
        agreement, scores = list[pd.DataFrame](), list[pd.DataFrame]()
        for run in self.runs():
            valid = self.sequences(run.language, "valid")[slice(0, TO_PAIR)]
            test = self.sequences(run.language, "test")
            for program in self.programs(run.language):
                batches = (with_attention_of(program, run.language, each) for each in (valid, test))
                found = match_program(models[run.name], *batches)
                about: dict[str, Any] = {
                    "run": run.name,
                    "program of": program.name,
                    "own": program == run.language,
                }
                about["heads"] = ", ".join(name_of(head) for _, head in sorted(found.pairs.items()))
                agreement.append(found.agreement.assign(**about))
                scores.append(found.scores.assign(**about))
        return pd.concat(agreement, ignore_index=True), pd.concat(scores, ignore_index=True)

    def setup(self, run: RaspRun) -> Setup:
        """A transformer of the language's size, and the language's sequences."""
        lang = run.language
        torch.manual_seed(run.seed)
        n_layers, n_heads = self.size(lang)
        sizes: dict[str, Any] = {"n_layers": n_layers, "n_heads": n_heads, "width": self.width}
        sizes |= {"ff_width": 2 * self.width, "max_length": self.length + 1}
        config = TransformerConfig(len(lang.tokenizer), len(lang.classes), **sizes)
        seen = self.sequences(lang, "train", run.seed)
        return Setup(
            Transformer(config),
            lang.batches(seen, self.batch_size, run.seed, target_attention=run.supervised),
            token_loss(self.supervision if run.supervised else 0.0),
            self.plan(run),
            lang.in_batches(self.sequences(lang, "valid")),
        )

    def plan(self, run: RaspRun) -> Plan:
        """How the model of a run is trained."""
        epoch = max(1, self.train_samples // self.batch_size)
        return Plan(
            steps=self.steps,
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            gamma=self.gamma,
            epoch_steps=epoch,
            evaluate_every=max(1, min(epoch, self.steps // 10)),
            stop_at=1.0,
            patience=3,
            seed=run.seed,
            device=self.device,
        )

    def program_rows(self, agreement: pd.DataFrame, replaced: pd.DataFrame) -> pd.DataFrame:
        """What was found by `matches`, as rows of the record.

        Args:
            agreement: the mean by `run` and `program of`.
            replaced: the accuracy by these and `attention`.
        """
        of = " of " + replaced["program of"] + " in its heads"
        put = "accuracy, " + replaced["attention"].replace("the program's", "attention") + of
        rows = [
            agreement.assign(metric="agreement with " + agreement["program of"]),
            replaced.assign(metric=put),
        ]
        return pd.concat(rows)[RECORDED].merge(self.run_table(), on="run")

    def run_table(self) -> pd.DataFrame:
        """A row per run: what it is called, its task, whether it is supervised, its seed and its set-up."""
        rows = []
        for run in self.runs():
            lang, (n_layers, n_heads) = run.language, self.size(run.language)
            setting = "BOS, " * self.bos + f"{n_layers} layer{'s' * (n_layers > 1)}, {n_heads} head"
            setting += f"{'s' * (n_heads > 1)}, width {self.width}, {len(lang.alphabet)} symbols, "
            setting += f"length up to {self.length}" + ", supervised heads" * run.supervised
            task = lang.name + " without BOS" * (lang.name == "hist" and not self.bos)
            rows.append((run.name, task, run.supervised, run.seed, setting))
        return pd.DataFrame(rows, columns=["run", "task", "supervised", "seed", "setting"])


def with_attention_of(program: Language, lang: Language, sequences: Sequences) -> list[Batch]:
    """Batches of one language, with the target attention of another's program on the same sequences."""
    if program == lang:
        return lang.in_batches(sequences, target_attention=True)
    pairs = zip(lang.in_batches(sequences), program.in_batches(sequences, target_attention=True), strict=True)
    return [replace(batch, target_attention=other.target_attention) for batch, other in pairs]


def exact_rows(exact: Sequence[Compiled], built: pd.DataFrame, sources: pd.DataFrame) -> pd.DataFrame:
    """What was found of compiled models, as rows of the record.

    Args:
        exact: the models.
        built: the rows of `measures.known_sources.exactness`.
        sources: the mean of `sources_found` by `run`, `among` and `method`, with `chance`.
    """
    right = summarise(built, ["run"], "right", whole="asked").assign(metric="accuracy, compiled")
    apart = built.groupby("run", sort=False)["apart"].max()
    largest = right.assign(
        metric="largest difference of attention", **dict.fromkeys(["low", "high"], float("nan"))
    )
    largest["value"] = largest["run"].map(apart)
    found = sources.assign(metric="source found, " + sources["method"] + ", " + sources["among"])
    rows = pd.concat([right, largest, found.rename(columns={"chance": "uniform"})])
    settings = {
        each.run: f"compiled, BOS, {len(each.language.alphabet)} symbols, length up to {each.longest}"
        for each in exact
    }
    task = rows["run"].str.removesuffix(", compiled")
    return rows[RECORDED].assign(task=task, supervised=False, seed=0, setting=rows["run"].map(settings))
