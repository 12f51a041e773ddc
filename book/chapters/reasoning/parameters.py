"""What a reader may ask of the chapter on algorithmic reasoning: its parameters, and what they decide."""

from __future__ import annotations

import inspect
import logging
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import TASKS, AlgorithmicGenerator, task
from attnlib.models.causal import OWN, CausalSizes, check_architecture
from attnlib.models.pretrained import DEFAULT, TINY, load_language_model
from attnlib.naming import unknown
from book.chapters.chapter import Chapter, Seeds
from book.chapters.reasoning.ranges import LONGER, RANGES, in_words, range_in_words, tuples, within
from book.chapters.reasoning.recipes import FINE_TUNING, RECIPES, Recipe, Stage
from book.chapters.refusals import WITHOUT_ATTENTION, refuse_model_name

log = logging.getLogger(__name__)

PARTS = ("train", "id", "ood")
"""What a task's ranges are of: training, tests in its distribution, and tests out of it."""

Positions = Literal["", "learned", "sinusoidal", "rotary", "none"]
"""What tells a model order: of our own transformer; "" is the architecture's own way."""

AS_THE_RECIPE: dict[str, Any] = {
    "n_layers": 0,
    "n_heads": 0,
    "width": 0,
    "ff_width": 0,
    "steps": 0,
    "batch_size": 0,
    "learning_rate": 0.0,
    "weight_decay": -1.0,
    "schedule": "",
    "warmup": 0,
}
"""Parameters that a task's recipe has, too, and the values that leave them to it. A task may also have them
for itself: `override[task]["model"]`."""


class AlgorithmicParameters(Chapter):
    """Parameters of the chapter `algorithmic_reasoning`."""

    tasks: list[str] = Field(min_length=1)
    model: str
    ranges: Literal["scratch", "finetune", "grok"]
    reversal: Literal["longer", "study"]
    override: dict[str, dict[str, Any]]
    n_layers: int = Field(ge=0, le=48)
    n_heads: int = Field(ge=0, le=64)
    width: int = Field(ge=0, le=4096)
    ff_width: int = Field(ge=0, le=16384)
    steps: int = Field(ge=0)
    batch_size: int = Field(ge=0)
    learning_rate: float = Field(ge=0, le=1)
    weight_decay: float
    schedule: Literal["", "onecycle", "constant"]
    warmup: int = Field(ge=0)
    positions: list[Literal["learned", "sinusoidal", "rotary", "none"]]
    precision: Literal["float32", "bf16"]
    chat: bool
    instruction: bool
    few_shot: bool
    test_samples: int = Field(ge=4)
    longest: float = Field(ge=0, le=20)
    supervised: list[str]
    supervision: float = Field(gt=0)
    strengths: list[float]
    reinforced_heads: int = Field(ge=1)
    text: str
    seeds: Seeds

    @field_validator("tasks", "supervised")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        for name in names:
            _known_task(name)
        return list(dict.fromkeys(names))

    @field_validator("supervised")
    @classmethod
    def _of_the_tasks(cls, names: list[str], info: Any) -> list[str]:
        """Those of the tasks: the page's own default names one that a reader may leave out."""
        tasks = info.data.get("tasks", names)
        if others := [name for name in names if name not in tasks]:
            log.warning("not supervised, since it is not among tasks = %s: %s", tasks, ", ".join(others))
        return [name for name in names if name in tasks]

    @field_validator("strengths")
    @classmethod
    def _shares(cls, strengths: list[float]) -> list[float]:
        if not all(0 <= strength <= 1 for strength in strengths):
            raise ValueError(f"strengths should be numbers from 0 to 1; got {strengths}")
        return sorted({0.0, *strengths}) if strengths else []

    @field_validator("weight_decay")
    @classmethod
    def _decay(cls, value: float) -> float:
        if value < 0 and value != AS_THE_RECIPE["weight_decay"]:
            raise ValueError(f"weight_decay should be 0 or more, or -1 for the task's own; got {value:g}")
        return value

    @field_validator("override")
    @classmethod
    def _placed(cls, override: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for name, parts in override.items():
            _known_task(name)
            if strangers := set(parts) - {*PARTS, "model", "stages"}:
                raise ValueError(
                    f"override should name parts {', '.join(PARTS)}, model, stages of {name}; got "
                    f"{sorted(strangers)}"
                )
            if plain := [part for part in parts if part != "stages" and not isinstance(parts[part], dict)]:
                raise ValueError(
                    f"override should hold settings by name, such as {{'length': [1, 4]}}, for {plain} of "
                    f"{name}; got {parts[plain[0]]!r}"
                )
            stages = parts.get("stages", [])
            if not isinstance(stages, list) or not all(isinstance(s, dict) and "steps" in s for s in stages):
                raise ValueError(
                    f"stages of {name} should be a list of stages such as {{'steps': 300, 'length': [2, 5]}} "
                    f"or empty; got {stages!r}"
                )
            if strangers := set(parts.get("model", {})) - set(AS_THE_RECIPE):
                raise ValueError(
                    f"override may set {', '.join(AS_THE_RECIPE)} of {name}'s model; got {sorted(strangers)}"
                )
        return override

    @model_validator(mode="after")
    def _possible(self) -> AlgorithmicParameters:
        if strangers := [name for name in self.tasks if name not in self.all_tasks]:
            raise ValueError(
                f"ranges {self.ranges} are of {', '.join(self.all_tasks)} only; got tasks {strangers}"
            )
        if self.from_scratch:
            check_architecture(self.model)
            if self.model in WITHOUT_ATTENTION:
                raise ValueError(f"model should be an architecture with attention; got {self.model!r}")
            if self.chat:
                raise ValueError(
                    f"chat needs a model with a chat template; got {self.model}, which is trained from "
                    "scratch"
                )
        else:
            refuse_model_name(self.model, known=(DEFAULT, TINY))
        if self.positions and self.model != OWN:
            raise ValueError(
                f"positions may be chosen of our own transformer only (model={OWN!r}); got {self.positions} "
                f"for {self.model}, which has its own"
            )
        if len(set(self.positions)) < len(self.positions):
            raise ValueError(f"positions should be different ones; got {self.positions}")
        for name in self.tasks:
            self._try_model(name)
            for part in PARTS:
                self._try(name, part)
            self._try_stages(name)
        if len(self.seeds) > 1 and not any(self.is_trained(name) for name in self.tasks):
            raise ValueError(
                f"seeds should be one where nothing is trained: {self.model} is the same model with each; "
                f"got {self.seeds} and steps 0"
            )
        if self.text:
            self.generator(self.tasks[0], "id", plain=True).annotate(self.text)
        return self

    # ---- what the checks try --------------------------------------------------------------------------

    def _try_model(self, name: str) -> None:
        try:
            recipe = self.recipe(name)
        except ValidationError as error:
            (problem, *_) = error.errors()
            reason = problem["msg"].removeprefix("Value error, ").replace("Input should", "should", 1)
            raise ValueError(
                f"the model of {name} cannot be: {'.'.join(map(str, problem['loc']))} {reason}; got "
                f"{problem['input']!r}"
            ) from None
        if not self.from_scratch:
            return
        if recipe.width % recipe.n_heads or recipe.width % 2:
            allowed = ", ".join(str(n) for n in range(1, 65) if recipe.width % n == 0)
            raise ValueError(
                f"the model of {name} cannot be: width should be even and a multiple of n_heads; got width "
                f"{recipe.width} and n_heads {recipe.n_heads} (n_heads may be {allowed} at this width)"
            )
        if recipe.width // recipe.n_heads % 2 and "rotary" in self.positions:
            raise ValueError(
                f"the model of {name} cannot be: rotary positions need an even width / n_heads; got "
                f"{recipe.width} / {recipe.n_heads}"
            )
        if recipe.warmup >= recipe.steps or (recipe.warmup == 1 and recipe.schedule == "onecycle"):
            raise ValueError(
                f"the model of {name} cannot be: warmup should be less than steps = {recipe.steps}, and 2 or "
                f"more for onecycle; got {recipe.warmup}"
            )
        if self.strengths and self.reinforced_heads > recipe.n_layers * recipe.n_heads:
            raise ValueError(
                f"reinforced_heads should be at most n_layers x n_heads = {recipe.n_layers * recipe.n_heads} "
                f"of {name}; got {self.reinforced_heads}"
            )

    def _try(self, name: str, part: str, where: str = "", **stage: Any) -> None:
        """Draw a sample: what a generator does not allow, it says."""
        known = [key for key in inspect.signature(TASKS[name]).parameters if key != "settings"]
        where = where or f"the {part} settings of {name}"
        if strangers := [key for key in self.settings(name, part) | stage if key not in known]:
            raise ValueError(f"override may set {', '.join(known)} of {name}; got {strangers} for {part}")
        try:
            self.generator(name, part, plain=True, **stage).samples(1)
        except ValueError as error:
            raise ValueError(f"{where} cannot be: {error}") from None

    def _try_stages(self, name: str) -> None:
        """Refuse a curriculum that leaves the task's ranges, or takes longer than training."""
        recipe = self.recipe(name)
        whole = self.settings(name, "train")
        signature = inspect.signature(TASKS[name]).parameters
        for number, stage in enumerate(recipe.stages, 1):
            self._try(name, "train", f"stage {number} of the curriculum of {name}", **tuples(stage.ranges))
            for key, value in tuples(stage.ranges).items():
                allowed = whole.get(key, signature[key].default)
                if not within(value, allowed):
                    raise ValueError(
                        f"the curriculum of {name} leaves the task's ranges: stage {number} has {key} "
                        f"{range_in_words(value)}, and training {range_in_words(allowed)}; narrow the "
                        f"stage, or train on more (override={{{name!r}: {{'train': ...}}}}), or without a "
                        "curriculum (... 'stages': [])"
                    )
        if recipe.stages and recipe.ends[-1] > recipe.steps:
            raise ValueError(
                f"the curriculum of {name} should last no longer than training; its stages take "
                f"{recipe.ends[-1]} steps, of {recipe.steps}"
            )

    # ---- what the parameters decide -------------------------------------------------------------------

    @property
    def from_scratch(self) -> bool:
        """Whether `model` names an architecture, rather than a model with weights."""
        pretrained = self.model in (DEFAULT, TINY) or "/" in self.model or self.model.startswith((".", "~"))
        return not pretrained

    def is_trained(self, name: str) -> bool:
        """Whether the model of a task is trained here, rather than taken as it is (`steps` 0)."""
        return self.recipe(name).steps > 0

    @property
    def all_tasks(self) -> list[str]:
        """Every task that there are `ranges` of."""
        return [name for name in TASKS if name in RANGES[self.ranges]]

    def recipe(self, name: str) -> Recipe:
        """How the model of a task is made: its own way, with what the parameters say instead.

        Curricula are for the study's ranges of models from scratch, and for those only.

        Raises:
            ValidationError: it cannot be made so.
        """
        own = RECIPES[name] if self.from_scratch else FINE_TUNING
        own = own if self.ranges == "scratch" else own.changed({"stages": ()})
        given = {key: getattr(self, key) for key in AS_THE_RECIPE}
        given |= self.override.get(name, {}).get("model", {})
        recipe = own.changed({key: value for key, value in given.items() if value != AS_THE_RECIPE[key]})
        stages = self.override.get(name, {}).get("stages")
        if stages is None:
            return recipe
        parts = [(stage["steps"], {k: v for k, v in stage.items() if k != "steps"}) for stage in stages]
        return recipe.changed({"stages": tuple(Stage(steps=steps, ranges=ranges) for steps, ranges in parts)})

    def sizes(self, name: str, positions: Positions = "") -> CausalSizes:
        """How big a task's model from scratch is, and its positions, if they are chosen."""
        recipe = self.recipe(name)
        sizes = CausalSizes(recipe.n_layers, recipe.n_heads, recipe.width, recipe.ff_width, max_length=2048)
        return replace(sizes, positions=positions) if positions else sizes

    def settings(self, name: str, part: str) -> dict[str, Any]:
        """Settings of a task's generator: the study's, then those overridden; training's, then the part's."""
        merged: dict[str, Any] = {}
        longer = LONGER if self.ranges == "scratch" and self.reversal == "longer" else {}
        for source in (RANGES[self.ranges][name], longer.get(name, {}), self.override.get(name, {})):
            merged |= source.get("train", {}) | (source.get(part, {}) if part != "train" else {})
        return tuples(merged)

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

    def obtain(self, name: str, seed: int = 0, positions: Positions = "") -> tuple[Any, Any]:
        """A task's model, of random weights or pretrained, and its tokenizer."""
        if self.from_scratch:
            tokenizer = char_tokenizer()
            return self.sizes(name, positions).build(self.model, tokenizer, seed), tokenizer
        model, tokenizer = load_language_model(self.model, device="cpu")
        model.set_attn_implementation("eager")  # the kernel that can give its weights
        return model, tokenizer

    @cached_property
    def tokenizer(self) -> Any:
        """Of all the models.

        Raises:
            ValueError: the texts are to be chats, and it has no chat template.
        """
        tokenizer = char_tokenizer() if self.from_scratch else self.obtain(self.tasks[0])[1]
        if self.chat and getattr(tokenizer, "chat_template", None) is None:
            raise ValueError(
                f"chat needs a model with a chat template; {self.model} has none: leave chat False "
                f"(instruction and few_shot may still be True), or take an instructed one, such as {DEFAULT}"
            )
        return tokenizer

    def described(self, name: str, part: str) -> str:
        """A part's settings in words: "length 1-4, num_of_nums 2"."""
        return in_words(self.settings(name, part))


def _known_task(name: str) -> None:
    if name not in TASKS:
        raise unknown("a task", name, TASKS)
