"""Parameters of the chapter on RASP languages."""

from __future__ import annotations

from typing import Literal

import pandas as pd
from pydantic import Field, field_validator, model_validator

from attnlib.chapters.base import Params
from attnlib.generators.rasp import ALPHABET_SIZES, Language, language
from attnlib.training import Plan


class RaspParams(Params):
    """Parameters of the chapter `rasp_languages`."""

    language: str = Field(description="the language to look into: sort, reverse, hist, ... dyck8_ptf")
    also: list[str] = Field(description="further languages to train, for the table")
    alphabet_size: int = Field(description="10, 26, 52 or 100 symbols; Dyck languages bring their own")
    bos: bool = Field(description="whether a beginning-of-sequence token stands in front")
    length: int = Field(description="longest sequence, in symbols", ge=1, le=1000)
    n_layers: int = Field(description="layers; 0: as many as the paper gave the language", ge=0, le=12)
    n_heads: int = Field(description="heads per layer; 0: as many as the paper gave it", ge=0, le=16)
    width: int = Field(description="numbers per token in the model", ge=8, le=2048)
    supervision: float = Field(description="weight of the attention loss, where one is used", gt=0)
    supervised: list[str] = Field(description="languages in `also` to train with attention supervision")
    train_samples: int = Field(description="training sequences", ge=10)
    test_samples: int = Field(description="sequences to validate on, and as many others to test on", ge=10)
    steps: int = Field(description="training steps of each model", ge=1)
    batch_size: int = Field(description="sequences per step", ge=1)
    learning_rate: float = Field(description="the highest learning rate", gt=0, le=1)
    schedule: Literal["onecycle", "exponential", "constant"] = Field(
        description="of the learning rate: onecycle, exponential (per epoch) or constant"
    )
    gamma: float = Field(description="what exponential multiplies the rate by, per epoch", gt=0, le=1)
    sequence: str = Field(description="the sequence whose attention is drawn; empty: one from the test set")
    seeds: list[int] = Field(description="one model of each kind per seed", min_length=1)
    device: Literal["auto", "cpu", "cuda"] = Field(description="auto takes a GPU if there is one")

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
    def _possible(self) -> RaspParams:
        for name in self.languages:
            n_layers, n_heads = self.size(name)
            targets = list(self.definition(name).definition.heads)
            if self.width % n_heads or self.width % 2:
                allowed = [n for n in range(1, 17) if self.width % n == 0]
                raise ValueError(
                    f"width should be even and a multiple of n_heads; got width {self.width} and n_heads "
                    f"{n_heads} for {name} (n_heads may be {', '.join(map(str, allowed))} at this width)"
                )
            if name in self.supervised and not self.has_room(name):
                raise ValueError(
                    f"n_layers and n_heads should leave room for the heads that {name} supervises, "
                    f"(layer, head) {targets}; got {n_layers} and {n_heads}"
                )
        if self.sequence:
            self.definition(self.language).encode(self.sequence)
        if len(self.sequence) > self.length:
            raise ValueError(
                f"sequence should have at most length = {self.length} symbols; got {self.sequence!r}"
            )
        return self

    @property
    def languages(self) -> list[str]:
        """Every language to train, each once."""
        return list(dict.fromkeys([self.language, *self.also]))

    def definition(self, name: str) -> Language:
        """The language `name` with the chapter's alphabet."""
        return language(name, self.alphabet_size, self.bos)

    def plan(self, name: str, supervised: bool, seed: int) -> Plan:
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
            seed=seed,
            device=self.device,
            about={
                "language": name,
                "supervision": self.supervision if supervised else 0.0,
                **self.model_dump(include={"alphabet_size", "bos", "length", "train_samples", "batch_size"}),
            },
        )

    def run_table(self) -> pd.DataFrame:
        """A row per run: what it is called, its task, whether it is supervised, its seed and its set-up."""
        rows = []
        for run, (name, supervised, seed) in self.runs().items():
            n_layers, n_heads = self.size(name)
            setting = "BOS, " * self.bos + f"{n_layers} layer{'s' * (n_layers > 1)}, {n_heads} head"
            setting += (
                f"{'s' * (n_heads > 1)}, width {self.width}, {len(self.definition(name).alphabet)} symbols, "
            )
            setting += f"length up to {self.length}"
            task = name + " without BOS" * (name == "hist" and not self.bos)
            rows.append((run, task, supervised, seed, setting + ", supervised heads" * supervised))
        return pd.DataFrame(rows, columns=["run", "task", "supervised", "seed", "setting"])

    def variants(self, name: str) -> list[bool]:
        """Whether to supervise attention: both ways for the chapter's own language, if it can be done."""
        if name == self.language:
            return [False, True] if self.has_room(name) else [False]
        return [name in self.supervised]

    def has_room(self, name: str) -> bool:
        """Whether the language has target attention, and its model all the heads that are to have it."""
        heads, (n_layers, n_heads) = self.definition(name).definition.heads, self.size(name)
        return bool(heads) and all(layer < n_layers and head < n_heads for layer, head in heads)

    def runs(self) -> dict[str, tuple[str, bool, int]]:
        """Every model to train, by what it is called: its language, whether it is supervised, its seed."""
        return {
            name + ", supervised" * supervised + f", seed {seed}" * (len(self.seeds) > 1): (
                name,
                supervised,
                seed,
            )
            for name in self.languages
            for supervised in self.variants(name)
            for seed in self.seeds
        }

    def size(self, name: str) -> tuple[int, int]:
        """Layers and heads of the model for a language.

        Raises:
            ValueError: if they are left to the paper, and the paper has none.
        """
        layers, heads = self.definition(name).definition.paper_size or (0, 0)
        n_layers, n_heads = self.n_layers or layers, self.n_heads or heads
        if not (n_layers and n_heads):
            raise ValueError(f"n_layers and n_heads should be given: the paper has no model for {name}")
        return n_layers, n_heads
