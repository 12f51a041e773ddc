"""The six tasks: what the study trained and tested on, how each is learned, and what is trained further."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

from book.chapters.parameters import Settings, Several, among, plain

RANGES: dict[str, dict[str, dict[str, dict[str, Any]]]] = {
    "scratch": {
        "long_addition": {"train": {"length": (1, 4), "num_of_nums": (2, 2)}, "ood": {"length": (5, 10)}},
        "long_multiplication": {"train": {"length": (1, 3)}, "ood": {"length": (4, 5)}},
        "string_reversal": {"train": {"length": (10, 20)}, "ood": {"length": (1, 10)}},
        "successor": {
            "train": {"start_number_range": (1, 90), "length": (2, 4)},
            "ood": {"start_number_range": (100, 900), "length": (5, 6)},
        },
        "value_assignment": {
            "train": {"length": (1, 5), "encoding_length": (1, 5)},
            "ood": {"length": (10, 50), "encoding_length": (10, 20)},
        },
        "flip_flop": {"train": {"length": (1, 10), "num_registers": (2, 2)}, "ood": {"length": (11, 20)}},
    },
    "finetune": {
        "long_addition": {"train": {"length": (7, 10), "num_of_nums": (2, 2)}, "ood": {"length": (1, 6)}},
        "long_multiplication": {"train": {"length": (1, 3)}, "ood": {"length": (4, 5)}},
        "string_reversal": {
            "train": {"length": (1, 20)},
            "id": {"length": (1, 10)},
            "ood": {"length": (10, 50)},
        },
        "successor": {
            "train": {"start_number_range": (1, 90), "length": (2, 4)},
            "ood": {"start_number_range": (100, 900), "length": (5, 6)},
        },
        "value_assignment": {
            "train": {"length": (1, 5), "encoding_length": (1, 5)},
            "id": {"length": (5, 5), "encoding_length": (5, 5)},
            "ood": {"length": (10, 50), "encoding_length": (10, 20)},
        },
        "flip_flop": {"train": {"length": (10, 10), "num_registers": (2, 2)}, "ood": {"length": (11, 20)}},
    },
    "grok": {
        "flip_flop": {
            "train": {"length": (10, 10), "num_registers": (2, 2)},
            "id": {"length": (10, 20)},
            "ood": {"length": (100, 130)},
        },
    },
}
"""The ranges of the six tasks in the study's two families of configurations (its repository's `configs`, of
2025-05-20): models trained from random weights, and fine-tuned ones; and its "grok" configuration, of
flip-flop alone. What "id" and "ood" do not name is as in "train"."""

LONGER: dict[str, dict[str, dict[str, Any]]] = {
    "string_reversal": {"train": {"length": (1, 10)}, "ood": {"length": (11, 20)}}
}
"""Reversal tested on longer strings, like all other tasks; the study trained from scratch on longer ones."""


def in_words(settings: dict[str, Any], longest: int | None = None) -> str:
    """Settings of a generator in words: "length 1-4, num_of_nums 2"; the longest values are cut off."""
    said = {key: range_in_words(value) for key, value in settings.items()}
    cut = {key: f"{text[:longest]}…" for key, text in said.items() if longest and len(text) > longest}
    return ", ".join(f"{key} {text}" for key, text in (said | cut).items())


def range_in_words(value: Any) -> str:
    """A setting in words: "1-4", "2" for a range of one number, and others as they are."""
    if isinstance(value, tuple) and len(value) == 2:
        return f"{value[0]}-{value[1]}" if value[0] != value[1] else str(value[0])
    return str(value)


def tuples(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with tuples in place of YAML's lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}


def within(value: Any, whole: Any) -> bool:
    """Whether a setting (a range, or a set of characters) lies within another."""
    if isinstance(whole, bool) or isinstance(value, bool):
        return value == whole
    if isinstance(whole, tuple):
        return whole[0] <= value[0] <= value[1] <= whole[1]
    return set(value) <= set(whole)


SYMBOLS = string.ascii_lowercase + string.ascii_uppercase + string.digits


@dataclass(frozen=True, config={"extra": "forbid"})
class Stage:
    """A stage of a curriculum, with easier texts than the task's.

    Attributes:
        steps: the number of training steps.
        ranges: settings of the task's generator in this stage; they lie within those of training.
    """

    steps: int = Field(ge=1)
    ranges: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Stage:
        """A stage from a reader's settings, in which steps and ranges stand together."""
        ranges = dict(settings)
        return cls(steps=ranges.pop("steps", 0), ranges=ranges)


@dataclass(frozen=True, config={"extra": "forbid"})
class Recipe:
    """How a model of a task is made: its size, and how it is trained.

    Attributes:
        steps: training steps; 0: a pretrained model is used without training.
        batch_size: samples per step.
        learning_rate: the peak.
        weight_decay: the weight decay of AdamW.
        schedule: see `Plan`.
        warmup: steps until the learning rate peaks; 0: a tenth of all.
        n_layers: layers.
        n_heads: heads per layer.
        width: the size of the residual stream.
        ff_width: hidden size of the feed-forward blocks; 0: four times the width.
        evaluations: how often, in training, the model is scored on validation texts.
        stages: the curriculum; after its last stage, training is on all of the task's ranges.
    """

    steps: int = Field(default=700, ge=0)
    batch_size: int = Field(default=64, ge=1)
    learning_rate: float = Field(default=0.002, gt=0, le=1)
    weight_decay: float = Field(default=0.0, ge=0)
    schedule: Literal["onecycle", "constant"] = "onecycle"
    warmup: int = Field(default=0, ge=0)
    n_layers: int = Field(default=2, ge=1, le=48)
    n_heads: int = Field(default=4, ge=1, le=64)
    width: int = Field(default=128, ge=8, le=4096)
    ff_width: int = Field(default=0, ge=0, le=16384)
    evaluations: int = Field(default=10, ge=1)
    stages: tuple[Stage, ...] = ()

    def changed(self, settings: Mapping[str, Any]) -> Recipe:
        """The recipe with other settings; stages and warm-up are scaled with the number of steps."""
        other = replace(self, **settings)
        steps = other.steps
        if not self.steps or steps == self.steps:
            return other
        ends = [round(end * steps / self.steps) for end in self.ends]
        lengths = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        stages = [Stage(n, stage.ranges) for n, stage in zip(lengths, self.stages, strict=True) if n]
        warmup = settings.get("warmup", self.warmup * steps // self.steps)
        return replace(other, stages=tuple(stages), warmup=warmup)

    @property
    def ends(self) -> list[int]:
        """The steps at which stages end."""
        return [sum(stage.steps for stage in self.stages[: n + 1]) for n in range(len(self.stages))]


def _table(steps: int, symbols: int, values: int, *entries: int, length: tuple[int, int] = (1, 5)) -> Stage:
    """A stage of value assignment with few symbols and values; `entries` bounds the tables' size."""
    own = {"charset_from": SYMBOLS[:symbols], "charset_to": string.digits[:values]}
    return Stage(steps, {**own, "encoding_length": entries, "length": length})


RECIPES: dict[str, Recipe] = {
    "long_addition": Recipe(steps=1600, n_layers=3, width=96),
    "long_multiplication": Recipe(
        steps=8000,
        batch_size=32,
        learning_rate=0.0025,
        n_layers=3,
        width=96,
        ff_width=192,
        evaluations=30,
        stages=(
            Stage(400, {"length": (1, 1)}),
            Stage(600, {"length": (1, 2)}),
            Stage(3500, {"length": (2, 3)}),
        ),
    ),
    "string_reversal": Recipe(),
    "successor": Recipe(weight_decay=0.3),
    # With 62 symbols from the start, the model never learns to look one up; with three in full tables it
    # does. Then their number grows slowly enough that the model does not return to guessing.
    "value_assignment": Recipe(
        steps=3800,
        learning_rate=0.0015,
        schedule="constant",
        warmup=50,
        n_layers=3,
        width=64,
        ff_width=64,
        evaluations=38,
        stages=(
            _table(450, 3, 3, 3, 3, length=(3, 5)),
            _table(150, 3, 3, 1, 3),
            _table(200, 4, 4, 1, 4),
            _table(200, 6, 5, 1, 5),
            _table(200, 10, 7, 1, 5),
            _table(200, 18, 10, 1, 5),
            _table(200, 32, 10, 1, 5),
            _table(150, 62, 10, 1, 5),
        ),
    ),
    # Short texts first; registers that are flipped several times occur in the longer ones.
    "flip_flop": Recipe(
        steps=3400,
        learning_rate=0.003,
        n_layers=3,
        width=64,
        ff_width=64,
        evaluations=30,
        stages=(Stage(300, {"length": (2, 5)}), Stage(2500, {"length": (5, 10)})),
    ),
}
"""How each task is learned on the study's ranges for models trained from scratch."""

FINE_TUNING = Recipe(steps=0, batch_size=16, learning_rate=0.0001)
"""The recipe for a pretrained model; with 0 steps it is used without training."""

AS_THE_RECIPE: dict[str, Any] = {
    **dict.fromkeys(("n_layers", "n_heads", "width", "ff_width", "steps", "batch_size"), 0),
    **{"learning_rate": 0.0, "weight_decay": -1.0, "schedule": "", "warmup": 0},
}
"""Parameters that override a task's recipe, and the values that keep the recipe's own. They can also be set
for a single task: `override[task]["model"]`."""


class Override(TypedDict, total=False):
    """A task's own settings: of its generator, of its model, and the stages of its training.

    Attributes:
        train: settings of the generator for training.
        id: settings for tests in distribution.
        ood: settings for tests out of distribution.
        model: any of `AS_THE_RECIPE`.
        stages: the stages of a curriculum, such as `{"steps": 300, "length": [2, 5]}`; empty: none.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    train: Settings
    id: Settings
    ood: Settings
    model: dict[Annotated[str, among(AS_THE_RECIPE)], Annotated[Any, AfterValidator(plain)]]
    stages: Several[Settings]


NOTHING, ALL, WHOLE = "nothing", "all weights", "queries and keys"
STEEPEST, RANDOM = "one column, the steepest", "one column, at random"
FASTEST, SLOWEST = "the fastest frequency", "the slowest frequency"
EVERY = "every column, one at a time"
WAYS = (ALL, WHOLE, STEEPEST, RANDOM, FASTEST, SLOWEST, EVERY)
"""The parts of a model that can be trained further; frequencies are those of rotary positions."""
