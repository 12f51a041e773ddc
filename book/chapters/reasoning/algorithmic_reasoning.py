"""The chapter on algorithmic reasoning: its parameters, its models and their record."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import Field, ValidationError, field_validator, model_validator
from torch import nn

from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import TASKS, AlgorithmicGenerator, AlgorithmicSample, TooFewTexts, task
from attnlib.generators.base import Batch, Head
from attnlib.generators.order import in_stages
from attnlib.measures import evaluate_rows
from attnlib.models.causal import OWN, CausalSizes, check_architecture
from attnlib.models.pretrained import DEFAULT, TINY, load_language_model
from attnlib.stats import answer_accuracy
from attnlib.training import Plan, token_loss
from attnlib.training.objectives import reference_loss
from book.chapters.chapter import Chapter, Run, Setup
from book.chapters.parameters import (
    LARGEST_NUMBER,
    Amount,
    Count,
    Different,
    Seeds,
    Several,
    Share,
    Text,
    among,
    refuse_heads,
)
from book.chapters.reasoning import recipes
from book.chapters.reasoning.recipes import AS_THE_RECIPE, Override, Recipe, Stage, in_words, tuples
from book.chapters.refusals import WITHOUT_ATTENTION, refuse_model_name

log = logging.getLogger(__name__)

PARTS = ("train", "id", "ood")
"""The parts of a task: training, tests in distribution, and tests out of distribution."""

READS = 2048
"""The longest input of a model from scratch, in tokens."""

SMALL = 2**18
"""The largest number of layers times width squared for which the checks build the model to try it."""

Positions = Literal["", "learned", "sinusoidal", "rotary", "none"]
"""The position encoding of our own transformer; "" keeps that of the named architecture."""

Task = Annotated[str, among(TASKS)]
"""The name of a task."""

POSITIONS: dict[str, str] = {"": "", "none": "no positions"} | {
    kind: f"{kind} positions" for kind in ("learned", "sinusoidal", "rotary")
}
"""The names of position encodings in the names of runs."""


@dataclass(frozen=True)
class ReasoningRun(Run):
    """A model of one task.

    Attributes:
        supervised: whether a head of its last layer is trained to attend to the reference.
        positions: the position encoding of our own transformer; "": that of the chapter's model.
    """

    task: str
    supervised: bool
    positions: Positions = ""

    @property
    def manner(self) -> str:
        """What distinguishes the model from others of its task, except the seed: "rotary, supervised"."""
        said = [POSITIONS[self.positions], "supervised" * self.supervised]
        return ", ".join(part for part in said if part)

    @property
    def kind(self) -> str:
        """The name of the kind of model, which models of other seeds share."""
        return self.task.replace("_", " ") + f", {self.manner}" * bool(self.manner)


class AlgorithmicReasoning(Chapter):
    """Parameters, models and record of the chapter `algorithmic_reasoning`."""

    tasks: Several[Task] = Field(min_length=1)
    model: Text
    ranges: Literal["scratch", "finetune", "grok"]
    reversal: Literal["longer", "study"]
    override: dict[Task, Override]
    n_layers: Count = Field(le=48)
    n_heads: Count = Field(le=64)
    width: Count = Field(le=4096)
    ff_width: Count = Field(le=16384)
    steps: Count
    batch_size: Count
    learning_rate: Share
    weight_decay: float = Field(ge=-1, le=LARGEST_NUMBER)
    schedule: Literal["", "onecycle", "constant"]
    warmup: Count
    positions: Different[Literal["learned", "sinusoidal", "rotary", "none"]]
    precision: Literal["float32", "bf16"]
    chat: bool
    instruction: bool
    few_shot: bool
    test_samples: Count = Field(ge=4)
    longest: Amount = Field(le=20)
    supervised: Several[Task]
    supervision: Amount = Field(gt=0)
    strengths: Several[Share]
    reinforced_heads: Count = Field(ge=1)
    further: Different[Annotated[str, among(recipes.WAYS)]]
    text: Text
    seeds: Seeds

    @field_validator("tasks", "supervised")
    @classmethod
    def _once(cls, names: list[str]) -> list[str]:
        return list(dict.fromkeys(names))

    @field_validator("supervised")
    @classmethod
    def _of_the_tasks(cls, names: list[str], info: Any) -> list[str]:
        """Keep the names that are among `tasks`: the default names one that a reader may leave out."""
        tasks = info.data.get("tasks", names)
        if others := [name for name in names if name not in tasks]:
            log.warning("not supervised, since it is not among tasks = %s: %s", tasks, ", ".join(others))
        return [name for name in names if name in tasks]

    @field_validator("strengths")
    @classmethod
    def _from_none(cls, strengths: list[float]) -> list[float]:
        return sorted({0.0, *strengths}) if strengths else []

    @model_validator(mode="after")
    def _possible(self) -> AlgorithmicReasoning:
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
        if self.further and self.model != OWN:
            raise ValueError(
                f"further is of our own transformer only (model={OWN!r}); got {self.further} for {self.model}"
            )
        for name in self.tasks:
            self._try_model(name)
            for part in PARTS:
                self._try(name, part)
            self._try_stages(name)
            refuse_unread(self, name)
            if self.from_scratch:
                refuse_unbuilt(self.model, self.sizes(name))
        if others := [name for name in self.override if name not in self.tasks]:
            log.warning("not overridden, since not among tasks = %s: %s", self.tasks, ", ".join(others))
        if as_they_are := [name for name in self.supervised if not self.is_trained(name)]:
            log.warning("not supervised, since not trained (steps 0): %s", ", ".join(as_they_are))
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
        refuse_heads(recipe.width, recipe.n_heads, name)
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
        """Draw a sample, so that the generator refuses settings that it does not allow."""
        known = [key for key in inspect.signature(TASKS[name]).parameters if key != "settings"]
        where = where or f"the {part} settings of {name}"
        if strangers := [key for key in self.settings(name, part) | stage if key not in known]:
            raise ValueError(f"override may set {', '.join(known)} of {name}; got {strangers} for {part}")
        try:
            generator = self.generator(name, part, plain=True, **stage)
            if self.from_scratch and generator.longest > READS:
                raise ValueError(
                    f"a model from scratch reads {READS:,} characters; got settings for up to "
                    f"{generator.longest:,}: make length smaller"
                )
            generator.samples(1)
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
                if not recipes.within(value, allowed):
                    has, trained = map(recipes.range_in_words, (value, allowed))
                    raise ValueError(
                        f"the curriculum of {name} leaves the task's ranges: stage {number} has {key} {has}, "
                        f"and training {trained}; narrow the stage, or train on more (override={{{name!r}: "
                        "{'train': ...}}), or without a curriculum (... 'stages': [])"
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
        """Every task for which `ranges` are defined."""
        return [name for name in TASKS if name in recipes.RANGES[self.ranges]]

    def recipe(self, name: str) -> Recipe:
        """The recipe for the model of a task, in which parameters override the task's own settings."""
        own = recipes.RECIPES[name] if self.from_scratch else recipes.FINE_TUNING
        own = own if self.ranges == "scratch" else own.changed({"stages": ()})
        given = {key: getattr(self, key) for key in AS_THE_RECIPE}
        override: Any = self.override.get(name, {})
        given |= override.get("model", {})
        recipe = own.changed({key: value for key, value in given.items() if value != AS_THE_RECIPE[key]})
        if "stages" not in override:
            return recipe
        return recipe.changed({"stages": tuple(map(Stage.of, override["stages"]))})

    def sizes(self, name: str, positions: Positions = "") -> CausalSizes:
        """The sizes of a task's model from scratch, with its position encoding if one is chosen."""
        recipe = self.recipe(name)
        sizes = CausalSizes(recipe.n_layers, recipe.n_heads, recipe.width, recipe.ff_width, max_length=READS)
        return replace(sizes, positions=positions) if positions else sizes

    def settings(self, name: str, part: str) -> dict[str, Any]:
        """The generator's settings for a part of a task: the study's, those of `LONGER`, then the reader's.

        Later ones override earlier ones; within each, the part's own settings override those of training.
        """
        merged: dict[str, Any] = {}
        longer = recipes.LONGER if self.ranges == "scratch" and self.reversal == "longer" else {}
        sources: list[Any] = [recipes.RANGES[self.ranges], longer, self.override]
        for source in (each.get(name, {}) for each in sources):
            merged |= source.get("train", {}) | source.get(part, {})
        return tuples(merged)

    def generator(
        self, name: str, part: str, *, seed: int = 0, plain: bool = False, **other: Any
    ) -> AlgorithmicGenerator:
        """A task's generator for a part; training and test texts never coincide."""
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
        model.set_attn_implementation("eager")  # the kernel that can return attention weights
        return model, tokenizer

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of all models."""
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

    def samples(self, name: str, part: str, **other: Any) -> list[AlgorithmicSample]:
        """The different test texts of a part: `test_samples`, or fewer where a task does not have as many."""
        drawn = self.generator(name, part, **other).samples(self.test_samples)
        return list({sample.text: sample for sample in drawn}.values())

    def batches(self, name: str, part: str, **other: Any) -> list[Batch]:
        """The same texts in batches; see `generator`."""
        samples = self.samples(name, part, **other)
        return self.generator(name, part, **other).in_batches(samples, self._at_once(name))

    def _at_once(self, name: str) -> int:
        return min(50, self.recipe(name).batch_size)

    def lengths(self, name: str) -> list[int]:
        """The lengths to test a task at, up to `longest` times the training length, which is one of them."""
        low = min(self.settings(name, part)["length"][0] for part in PARTS)
        trained = self.settings(name, "train")["length"][1]
        step = math.ceil(trained / 4)
        return [n for n in range(trained % step, int(self.longest * trained) + 1, step) if n >= low]

    def tests_by_length(self, name: str) -> dict[int, list[Batch]]:
        """Unseen texts of every possible length: a quarter of `test_samples` each, but at least 10."""
        found = dict[int, list[Batch]]()
        for length in self.lengths(name):
            generator = self.generator(name, "train", split="test", length=(length, length))
            try:
                drawn = generator.samples(max(10, self.test_samples // 4))
            except TooFewTexts:
                continue
            once = {sample.text: sample for sample in drawn}.values()
            found[length] = generator.in_batches(once, self._at_once(name))
        return found

    def accuracy_by_length(self, models: Mapping[str, nn.Module]) -> pd.DataFrame:
        """Accuracy of every model at every length, in training's range and beyond."""
        tests = {name: self.tests_by_length(name) for name in self.tasks}
        found = list[pd.DataFrame]()
        for run in self.runs():
            about: dict[str, Any] = {"run": run.name, "kind": run.kind, "task": run.task, "seed": run.seed}
            about |= {"model": run.manner or self.model}
            trained = self.settings(run.task, "train")["length"][1]
            for length, batches in tests[run.task].items():
                rows = answer_accuracy(evaluate_rows(models[run.name], batches, follow=()))
                found.append(rows.assign(**about, up_to=length, length=trained))
        return pd.concat(found, ignore_index=True) if found else pd.DataFrame()

    @property
    def label(self) -> str:
        """The run's name among the records."""
        tasks = "all-tasks" if len(self.tasks) == len(TASKS) else "+".join(self.tasks)
        return f"{self.model.strip('./~').replace('/', '-')}-{tasks}"

    # ---- models --------------------------------------------------------------------------------------

    def runs(self) -> list[ReasoningRun]:
        """Every model to train, for each task, positions and seed; some tasks once more, supervised."""
        own: list[Positions] = [""]
        kinds = [
            ReasoningRun("", 0, name, supervised, positions)
            for name in self.tasks
            for positions in self.positions or own
            for supervised in (
                [False, True] if name in self.supervised and self.is_trained(name) else [False]
            )
        ]
        numbered = len(self.seeds) > 1
        return [
            replace(each, name=each.kind + f", seed {seed}" * numbered, seed=seed)
            for each in kinds
            for seed in self.seeds
        ]

    def supervised_heads(self, model: Any) -> list[Head]:
        """The heads of a model whose attention is supervised: the first of the last layer."""
        n_layers = getattr(model.config, "num_hidden_layers", None) or model.config.n_layers
        return [(n_layers - 1, 0)]

    def setup(self, run: ReasoningRun) -> Setup:
        """A model and the texts of its task, stage by stage; with `steps` = 0, it is not trained."""
        model = self.obtain(run.task, run.seed, run.positions)[0]
        recipe = self.recipe(run.task)
        stages = [(stage.steps, dict(stage.ranges)) for stage in recipe.stages] + [(recipe.steps, {})]
        texts = [(steps, self.generator(run.task, "train", seed=run.seed, **own)) for steps, own in stages]
        heads = self.supervised_heads(model) if run.supervised else []
        return Setup(
            model,
            in_stages([(n, each.batches(recipe.batch_size, reference=run.supervised)) for n, each in texts]),
            reference_loss(self.supervision, heads) if heads else token_loss(),
            self.plan(run) if self.is_trained(run.task) else None,
            self.batches(run.task, "valid"),
        )

    def plan(self, run: ReasoningRun) -> Plan:
        """How the model of a run is trained."""
        recipe = self.recipe(run.task)
        steps = recipe.steps
        return Plan(
            steps=steps,
            learning_rate=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            schedule=recipe.schedule,
            warmup=recipe.warmup or (steps // 10 if steps >= 20 else 0),
            optimizer="adamw",
            clip=1.0,
            evaluate_every=max(1, steps // recipe.evaluations),
            metric="exact_match",
            stop_at=0.995,
            patience=2,
            seed=run.seed,
            device=self.device,
            precision=self.precision,
        )

    def of_first_seed(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of the first seed's models in a table with a column `run`, which becomes their kind."""
        kinds = {run.name: run.kind for run in self.runs() if run.seed == self.seeds[0]}
        return table[table["run"].isin(kinds)].assign(run=lambda rows: rows["run"].map(kinds))

    def stages(self, names: Iterable[str] = ()) -> pd.DataFrame:
        """The training texts of each task in words: a row per stage."""
        rows = list[dict[str, Any]]()
        for name in names or self.tasks:
            recipe = self.recipe(name)
            ends = [*recipe.ends, recipe.steps]
            ranges = [*(stage.ranges for stage in recipe.stages), {}]
            for start, end, own in zip([0, *ends], ends, ranges, strict=False):
                texts = in_words(self.settings(name, "train") | dict(own), longest=12)
                rows.append({"task": name, "from step": start, "to step": end, "texts": texts})
        return pd.DataFrame(rows)

    def run_table(self) -> pd.DataFrame:
        """A row per run; `kind` is what runs that differ only in their seed have in common."""
        ways = {True: "from scratch" if self.from_scratch else "fine-tuned", False: "as it is"}
        extras = {"chat": self.chat, "instruction": self.instruction, "examples": self.few_shot}
        said = "".join(f", {extra}" for extra, there in extras.items() if there)
        rows = [
            {
                "run": run.name,
                "kind": run.kind,
                "task": run.task,
                "model": run.manner or self.model,
                "supervised": run.supervised,
                "positions": run.positions,
                "seed": run.seed,
                "setting": f"{self.model}, {ways[self.is_trained(run.task)]}{self._size(run)}{said}"
                + f", {POSITIONS[run.positions]}" * bool(run.positions)
                + ", supervised head" * run.supervised,
                "ranges": f"{self.described(run.task, 'train')}; OOD {self.described(run.task, 'ood')}",
            }
            for run in self.runs()
        ]
        return pd.DataFrame(rows)

    def _size(self, run: ReasoningRun) -> str:
        """The size of a model from scratch, and whether it had a curriculum, in words."""
        if not self.from_scratch:
            return ""
        recipe = self.recipe(run.task)
        ff_width = f", feed-forward {recipe.ff_width}" * (recipe.ff_width not in (0, 4 * recipe.width))
        return (
            f", {recipe.n_layers} layers of {recipe.n_heads} heads, width {recipe.width}{ff_width}"
            + f", curriculum of {len(recipe.stages) + 1} stages" * bool(recipe.stages)
        )


def refuse_unread(p: AlgorithmicReasoning, name: str) -> None:
    """Refuse texts of a task that are too long: with instruction and examples, or `longest` times as long."""
    asked: list[tuple[str, Any]] = [("train", {"length": (n, n)}) for n in p.lengths(name)[-1:]]
    around = 0
    if p.from_scratch and (p.instruction or p.few_shot):
        whole, bare = (p.generator(name, "train", plain=plain).samples(1)[0] for plain in (False, True))
        around = len(whole.input_ids) - len(bare.input_ids)
        asked += [(part, {}) for part in PARTS]
    longest = around + max(
        (p.generator(name, part, plain=True, **own).longest for part, own in asked), default=0
    )
    if p.from_scratch and longest > READS:
        raise ValueError(
            f"a model from scratch reads {READS:,} characters; got texts of {name} of up to {longest:,}: "
            "make length or longest smaller, or leave out instruction and few_shot"
        )


@cache
def refuse_unbuilt(architecture: str, sizes: CausalSizes) -> None:
    """Refuse an architecture that cannot have these sizes; models above `SMALL` are not tried here."""
    if sizes.n_layers * sizes.width**2 <= SMALL:
        sizes.build(architecture, char_tokenizer())
