"""What a reader may ask of the chapter on RASP languages: its parameters, and what they decide."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from attnlib.generators.base import Sample
from attnlib.generators.rasp import ALPHABET_SIZES, Definition, Language, definitions_in, language
from book.chapters.chapter import Chapter, Seeds
from book.chapters.rasp.settings import ABLATIONS, RECIPES, Recipe, Size


class RaspParameters(Chapter):
    """Parameters of the chapter `rasp_languages`."""

    language: str
    language_file: str
    also: list[str]
    alphabet_size: int
    bos: bool
    length: int = Field(ge=1, le=1000)
    n_layers: int = Field(ge=0, le=12)
    n_heads: int = Field(ge=0, le=16)
    width: int = Field(ge=8, le=2048)
    ff_width: int = Field(ge=0, le=8192)
    positions: Literal["sinusoidal", "learned"]
    dropout: float = Field(ge=0, lt=1)
    ablations: list[str]
    supervision: float = Field(gt=0)
    supervised: list[str]
    as_published: bool
    train_samples: int = Field(ge=10)
    test_samples: int = Field(ge=10)
    longest: int = Field(ge=1, le=2000)
    steps: int = Field(ge=0)
    batch_size: int = Field(ge=0)
    learning_rate: float = Field(ge=0, le=1)
    schedule: Literal["onecycle", "exponential", "constant"]
    gamma: float = Field(gt=0, le=1)
    grid: dict[str, list[float]]
    reset_patience: int = Field(ge=0)
    sequence: str
    seeds: Seeds

    @field_validator("ablations")
    @classmethod
    def _known_ablations(cls, names: list[str]) -> list[str]:
        if unknown := [name for name in names if name not in ABLATIONS]:
            raise ValueError(f"ablations should be some of {list(ABLATIONS)}; got {unknown[0]!r}")
        return list(dict.fromkeys(names))

    @field_validator("grid")
    @classmethod
    def _rates(cls, grid: dict[str, list[float]]) -> dict[str, list[float]]:
        for name, rates in grid.items():
            if name not in ("learning_rate", "gamma"):
                raise ValueError(f"grid should be of learning_rate and gamma; got {name!r}")
            if not rates or not all(0 < rate <= 1 for rate in rates):
                raise ValueError(f"grid should list rates above 0, up to 1, for {name}; got {rates}")
        return grid

    @field_validator("alphabet_size")
    @classmethod
    def _alphabet(cls, size: int) -> int:
        if size not in ALPHABET_SIZES:
            raise ValueError(
                f"alphabet_size should be one of {', '.join(map(str, ALPHABET_SIZES))}; got {size}"
            )
        return size

    @model_validator(mode="after")
    def _known(self) -> RaspParameters:
        for name in [self.language, *self.also, *self.supervised]:
            self.lang(name)
        return self

    @model_validator(mode="after")
    def _possible(self) -> RaspParameters:
        for name in self.languages:
            lang = self.lang(name)
            size = self.size(lang)
            self._fits(name, size)
            if name in self.supervised and not self.has_room(lang):
                raise ValueError(
                    f"n_layers and n_heads should leave room for the heads that {name} supervises, "
                    f"(layer, head) {list(lang.definition.heads)}; got {size.n_layers} and {size.n_heads}"
                )
        for ablation in self.ablations:
            self._fits(self.language, self.size(self.lang(), ablation), ablation)
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
        return self

    def _fits(self, name: str, size: Size, ablation: str = "") -> None:
        if not (size.n_layers and size.n_heads):
            full = self.size(self.lang(name))
            raise ValueError(
                f"ablations should leave a layer and a head; {ablation!r} takes the only one from {name}, "
                f"whose models have {full.n_layers} x {full.n_heads} (layers x heads)"
            )
        if size.width % size.n_heads or size.width % 2:
            allowed = [n for n in range(1, 17) if size.width % n == 0]
            raise ValueError(
                f"width should be even and a multiple of n_heads; got width {size.width} and n_heads "
                f"{size.n_heads} for {name} (n_heads may be {', '.join(map(str, allowed))} at this width)"
            )

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
        which = self.language if which is None else which
        known = self.own.get(which, which) if isinstance(which, str) else which
        return language(known, self.alphabet_size, self.bos)

    @cached_property
    def own(self) -> dict[str, Definition]:
        """The languages that `language_file` defines, by their names."""
        return definitions_in(Path(self.language_file)) if self.language_file else {}

    def size(self, lang: Language, ablation: str = "") -> Size:
        """Layers, heads and width of the model for a language; less, if an ablation is named."""
        n_layers, n_heads = lang.size
        size = Size(self.n_layers or n_layers, self.n_heads or n_heads, self.width)
        return ABLATIONS[ablation](size) if ablation else size

    def recipe(self, lang: Language) -> Recipe:
        """How long and how fast a model of a language is trained: its own way, where the parameters say 0."""
        own = RECIPES.get(lang.name, Recipe())
        return Recipe(
            self.steps or own.steps,
            self.batch_size or own.batch_size,
            self.learning_rate or own.learning_rate,
        )

    def has_room(self, lang: Language) -> bool:
        """Whether the language has target attention, and its model all the heads that are to have it."""
        heads, size = lang.definition.heads, self.size(lang)
        return bool(heads) and all(layer < size.n_layers and head < size.n_heads for layer, head in heads)

    def annotated(self, text: str) -> tuple[Sample, list[str]]:
        """A text of the chapter's language: the sample, and the program's heads that its models do not have.

        Those heads' attention is left out of the sample: a model of one layer can be drawn, too.
        """
        sample, size = self.lang().annotate(text), self.size(self.lang())
        have = {head: head[0] < size.n_layers and head[1] < size.n_heads for head in sample.target_attention}
        kept = {head: target for head, target in sample.target_attention.items() if have[head]}
        lacking = [f"L{layer}H{head}" for (layer, head), there in have.items() if not there]
        return replace(sample, target_attention=kept), lacking
