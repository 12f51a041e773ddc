"""The chapter on algorithmic reasoning."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pandas as pd
from pydantic import Field, field_validator, model_validator

from attnlib.chapters.algorithmic_ranges import RANGES
from attnlib.chapters.base import Chapter, ParameterError, Run, Setup
from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import TASKS, AlgorithmicGenerator, AlgorithmicSample, task
from attnlib.generators.base import Batch, Head
from attnlib.models.causal import CausalSizes, check_architecture
from attnlib.models.pretrained import DEFAULT, TINY, load_language_model
from attnlib.training import Plan, token_loss
from attnlib.training.objectives import reference_loss

PARTS = ("train", "id", "ood")
"""What a task's ranges are of: training, tests in its distribution, and tests out of it."""

OWN = ("n_layers", "n_heads", "width", "steps", "learning_rate", "weight_decay")
"""Parameters that a task may have for itself: `override[task]["model"]`."""


@dataclass(frozen=True)
class ReasoningRun(Run):
    """A model of one task.

    Attributes:
        task: what it is to do.
        supervised: whether a head of its last layer is asked for the reference.
    """

    task: str
    supervised: bool


class AlgorithmicReasoning(Chapter):
    """Parameters, models and record of the chapter `algorithmic_reasoning`."""

    tasks: list[str] = Field(min_length=1)
    model: str
    ranges: Literal["scratch", "finetune"]
    override: dict[str, dict[str, dict[str, Any]]]
    n_layers: int = Field(ge=1, le=48)
    n_heads: int = Field(ge=1, le=64)
    width: int = Field(ge=8, le=4096)
    steps: int = Field(ge=0)
    batch_size: int = Field(ge=1)
    learning_rate: float = Field(gt=0, le=1)
    weight_decay: float = Field(ge=0)
    precision: Literal["float32", "bf16"]
    chat: bool
    instruction: bool
    few_shot: bool
    test_samples: int = Field(ge=4)
    supervised: list[str]
    supervision: float = Field(gt=0)
    strengths: list[float]
    reinforced_heads: int = Field(ge=1)
    text: str
    seeds: list[int] = Field(min_length=1)

    @field_validator("tasks", "supervised")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        for name in names:
            _known_task(name)
        return list(dict.fromkeys(names))

    @field_validator("strengths")
    @classmethod
    def _shares(cls, strengths: list[float]) -> list[float]:
        if not all(0 <= strength <= 1 for strength in strengths):
            raise ValueError(f"strengths should be numbers from 0 to 1; got {strengths}")
        return sorted({0.0, *strengths}) if strengths else []

    @field_validator("override")
    @classmethod
    def _placed(cls, override: dict[str, dict[str, dict[str, Any]]]) -> dict[str, dict[str, dict[str, Any]]]:
        for name, parts in override.items():
            _known_task(name)
            if strangers := set(parts) - {*PARTS, "model"}:
                raise ValueError(
                    f"override should name parts {', '.join(PARTS)}, model of {name}; got {sorted(strangers)}"
                )
            if strangers := set(parts.get("model", {})) - set(OWN):
                raise ValueError(
                    f"override may set {', '.join(OWN)} of {name}'s model; got {sorted(strangers)}"
                )
        return override

    @model_validator(mode="after")
    def _possible(self) -> AlgorithmicReasoning:
        self._scratch_is_possible()
        for name in self.tasks:
            if self.override.get(name, {}).get("model"):
                self._try_model(name)
        strangers = [name for name in self.supervised if name not in self.tasks]
        if strangers:
            raise ValueError(f"supervised should be among tasks = {self.tasks}; got {strangers}")
        for name in self.tasks:
            for part in PARTS:
                self._try(name, part)
        if self.text:
            self.generator(self.tasks[0], "id", plain=True).annotate(self.text)
        return self

    def _scratch_is_possible(self) -> None:
        if not self.from_scratch:
            return
        check_architecture(self.model)
        if self.width % self.n_heads or self.width % 2:
            allowed = ", ".join(str(n) for n in range(1, 65) if self.width % n == 0)
            raise ValueError(
                f"width should be even and a multiple of n_heads; got width {self.width} and n_heads "
                f"{self.n_heads} (n_heads may be {allowed} at this width)"
            )
        if self.steps == 0:
            raise ValueError(
                f"steps should be at least 1 for {self.model}, which starts from random weights; got 0"
            )
        if self.chat:
            raise ValueError(
                f"chat needs a model with a chat template; got {self.model}, which is trained from scratch"
            )
        if self.strengths and self.reinforced_heads > self.n_layers * self.n_heads:
            raise ValueError(
                f"reinforced_heads should be at most n_layers x n_heads = {self.n_layers * self.n_heads}; "
                f"got {self.reinforced_heads}"
            )

    def _try_model(self, name: str) -> None:
        try:
            self.of(name)
        except ParameterError as error:
            reason = str(error).partition("\n  - ")[2]
        else:
            return
        raise ValueError(f"the model of {name} cannot be: {reason}")

    def _try(self, name: str, part: str) -> None:
        """Draw a sample: what a generator does not allow, it says."""
        known = list(inspect.signature(TASKS[name]).parameters)
        known.remove("settings")  # the ones that chapters have parameters of their own for
        strangers = [key for key in self.settings(name, part) if key not in known]
        if strangers:
            raise ValueError(f"override may set {', '.join(known)} of {name}; got {strangers} for {part}")
        try:
            self.generator(name, part, plain=True).samples(1)
        except ValueError as error:
            raise ValueError(f"the {part} settings of {name} cannot be: {error}") from None

    def of(self, name: str) -> AlgorithmicReasoning:
        """The same parameters, with those that a task has for itself in place."""
        own = self.override.get(name, {}).get("model", {})
        ranges = {
            other: {part: value for part, value in parts.items() if part != "model"}
            for other, parts in self.override.items()
        }
        return self.checked({**self.model_dump(), **own, "override": ranges})

    @property
    def from_scratch(self) -> bool:
        """Whether `model` names an architecture, rather than a model with weights."""
        pretrained = self.model in (DEFAULT, TINY) or "/" in self.model or self.model.startswith((".", "~"))
        return not pretrained

    @property
    def sizes(self) -> CausalSizes:
        """How big a model from scratch is."""
        return CausalSizes(self.n_layers, self.n_heads, self.width, max_length=2048)

    def settings(self, name: str, part: str) -> dict[str, Any]:
        """Settings of a task's generator: the study's, then those overridden; training's, then the part's."""
        merged: dict[str, Any] = {}
        for source in (RANGES[self.ranges][name], self.override.get(name, {})):
            merged |= source.get("train", {}) | (source.get(part, {}) if part != "train" else {})
        return {key: tuple(value) if isinstance(value, list) else value for key, value in merged.items()}

    def generator(
        self, name: str, part: str, *, seed: int = 0, plain: bool = False, **other: Any
    ) -> AlgorithmicGenerator:
        """A task's generator for a part; texts for training, and texts for tests, are never the same.

        Args:
            name: of the task.
            part: "train", "valid" (in training's distribution), "id" or "ood".
            seed: of the samples.
            plain: without instruction, examples and chat, a token per character.
            **other: further settings.
        """
        around = {} if plain else {"use_instruction": self.instruction, "use_few_shot": self.few_shot}
        around |= {} if plain else {"apply_chat_template": self.chat}
        tokenizer = char_tokenizer() if plain else self.tokenizer
        split = part if part in ("train", "valid") else "test"
        given = self.settings(name, "train" if part == "valid" else part)
        return task(name, tokenizer, **(given | around | {"split": split, "seed": seed} | other))

    def samples(self, name: str, part: str, **other: Any) -> list[AlgorithmicSample]:
        """Test texts of a part, each once: `test_samples`, or fewer where a task has not got as many."""
        drawn = self.generator(name, part, **other).samples(self.test_samples)
        return list({sample.text: sample for sample in drawn}.values())

    def batches(self, name: str, part: str) -> list[Batch]:
        """The same texts in batches."""
        return self.generator(name, part).in_batches(self.samples(name, part), min(50, self.batch_size))

    @property
    def label(self) -> str:
        """What the run is called among its records."""
        tasks = "all-tasks" if len(self.tasks) == len(TASKS) else "+".join(self.tasks)
        return f"{self.model.strip('./~').replace('/', '-')}-{tasks}"

    # ---- models --------------------------------------------------------------------------------------

    def runs(self) -> list[ReasoningRun]:
        """Every model to train, one for each task and seed; some tasks once more, supervised."""
        numbered = len(self.seeds) > 1
        return [
            ReasoningRun(
                name.replace("_", " ") + ", supervised" * supervised + f", seed {seed}" * numbered,
                seed,
                name,
                supervised,
            )
            for name in self.tasks
            for supervised in ([False, True] if name in self.supervised else [False])
            for seed in self.seeds
        ]

    def obtain(self, name: str, seed: int = 0) -> tuple[Any, Any]:
        """A task's model, of random weights or pretrained, and its tokenizer."""
        if self.from_scratch:
            tokenizer = char_tokenizer()
            return self.of(name).sizes.build(self.model, tokenizer, seed), tokenizer
        model, tokenizer = load_language_model(self.model, device="cpu")
        model.set_attn_implementation("eager")  # the kernel that can give its weights
        return model, tokenizer

    @cached_property
    def tokenizer(self) -> Any:
        """Of all the models."""
        return self.obtain(self.tasks[0])[1]

    def supervised_heads(self, model: Any) -> list[Head]:
        """The heads of a model that supervised attention is asked of: the first of the last layer."""
        n_layers = getattr(model.config, "num_hidden_layers", None) or model.config.n_layers
        return [(n_layers - 1, 0)]

    def setup(self, run: ReasoningRun) -> Setup:
        """A model and the texts of its task; with `steps` = 0, it is not trained."""
        model = self.obtain(run.task, run.seed)[0]
        texts = self.generator(run.task, "train", seed=run.seed)
        heads = self.supervised_heads(model) if run.supervised else []
        return Setup(
            model,
            texts.batches(self.batch_size, reference=run.supervised),
            reference_loss(self.supervision, heads) if heads else token_loss(),
            self.plan(run) if self.of(run.task).steps else None,
            self.batches(run.task, "valid"),
        )

    def plan(self, run: ReasoningRun) -> Plan:
        """How the model of a run is trained."""
        own = self.of(run.task)
        return Plan(
            steps=own.steps,
            learning_rate=own.learning_rate,
            weight_decay=own.weight_decay,
            schedule="onecycle",
            warmup=own.steps // 10 if own.steps >= 20 else 0,
            optimizer="adamw",
            clip=1.0,
            evaluate_every=max(1, own.steps // 10),
            metric="exact_match",
            stop_at=0.995,
            patience=2,
            seed=run.seed,
            device=self.device,
            precision=self.precision,
        )

    def run_table(self) -> pd.DataFrame:
        """A row per run: name, task, whether it is supervised, seed; in words, the model and the ranges."""
        sizes = {name: self.of(name).sizes for name in self.tasks}
        size = {
            name: f", {s.n_layers} layers of {s.n_heads} heads, width {s.width}" * self.from_scratch
            for name, s in sizes.items()
        }
        how = "from scratch" if self.from_scratch else f"{'fine-tuned' if self.steps else 'as it is'}"
        extras = {"chat": self.chat, "instruction": self.instruction, "examples": self.few_shot}
        said = "".join(f", {extra}" for extra, there in extras.items() if there)
        rows = [
            {
                "run": run.name,
                "task": run.task,
                "supervised": run.supervised,
                "seed": run.seed,
                "setting": f"{self.model}, {how}{size[run.task]}{said}"
                + ", supervised head" * run.supervised,
                "ranges": f"{self.described(run.task, 'train')}; OOD {self.described(run.task, 'ood')}",
            }
            for run in self.runs()
        ]
        return pd.DataFrame(rows)

    def described(self, name: str, part: str) -> str:
        """A part's settings in words: "length 1-4, num_of_nums 2"."""
        return ", ".join(f"{key} {_range(value)}" for key, value in self.settings(name, part).items())


def _range(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        return f"{value[0]}-{value[1]}" if value[0] != value[1] else str(value[0])
    return str(value)


def _known_task(name: str) -> None:
    if name not in TASKS:
        close = difflib.get_close_matches(name, TASKS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"a task should be one of {', '.join(TASKS)}; got {name!r}{hint}")
