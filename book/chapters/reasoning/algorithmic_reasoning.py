"""The chapter on algorithmic reasoning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from torch import nn

from attnlib.generators.algorithmic import TASKS, AlgorithmicSample, TooFewTexts
from attnlib.generators.base import Batch, Head
from attnlib.generators.order import in_stages
from attnlib.measures import evaluate_rows
from attnlib.stats import answer_accuracy
from attnlib.training import Plan, token_loss
from attnlib.training.objectives import reference_loss
from book.chapters.chapter import Run, Setup
from book.chapters.reasoning.parameters import PARTS, AlgorithmicParameters, Positions
from book.chapters.reasoning.ranges import in_words

POSITIONS: dict[str, str] = {"": "", "none": "no positions"} | {
    kind: f"{kind} positions" for kind in ("learned", "sinusoidal", "rotary")
}
"""What kinds of positions are called in names of runs."""


@dataclass(frozen=True)
class ReasoningRun(Run):
    """A model of one task.

    Attributes:
        task: what it is to do.
        supervised: whether a head of its last layer is asked for the reference.
        positions: of our own transformer; "": as the chapter's model has them.
    """

    task: str
    supervised: bool
    positions: Positions = ""

    @property
    def manner(self) -> str:
        """What sets it apart from other models of its task, but for the seed: "rotary, supervised"."""
        said = [POSITIONS[self.positions], "supervised" * self.supervised]
        return ", ".join(part for part in said if part)

    @property
    def kind(self) -> str:
        """What it is called beside models of other seeds."""
        return self.task.replace("_", " ") + f", {self.manner}" * bool(self.manner)


class AlgorithmicReasoning(AlgorithmicParameters):
    """Models and record of the chapter `algorithmic_reasoning`; its parameters are above it."""

    def samples(self, name: str, part: str, **other: Any) -> list[AlgorithmicSample]:
        """Test texts of a part, each once: `test_samples`, or fewer where a task has not got as many."""
        drawn = self.generator(name, part, **other).samples(self.test_samples)
        return list({sample.text: sample for sample in drawn}.values())

    def batches(self, name: str, part: str, **other: Any) -> list[Batch]:
        """The same texts in batches; see `generator`."""
        samples = self.samples(name, part, **other)
        return self.generator(name, part, **other).in_batches(samples, self._at_once(name))

    def _at_once(self, name: str) -> int:
        return min(50, self.recipe(name).batch_size)

    def lengths(self, name: str) -> list[int]:
        """Lengths to test a task at: up to `longest` times that of training, which is one of them."""
        low = min(self.settings(name, part)["length"][0] for part in PARTS)
        trained = self.settings(name, "train")["length"][1]
        step = math.ceil(trained / 4)
        return [n for n in range(trained % step, int(self.longest * trained) + 1, step) if n >= low]

    def tests_by_length(self, name: str) -> dict[int, list[Batch]]:
        """Unseen texts of every length, otherwise as in training: a quarter of `test_samples`, 10 at least.

        Lengths that have no text outside of training are left out.
        """
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
        """Accuracy of every model at every length, in training's range and beyond.

        Args:
            models: by the names of `runs()`.

        Returns:
            Rows of `answer_accuracy` with the columns `run`, `kind`, `task`, `model` (what sets it apart),
            `seed`, `up_to` (the length of the texts) and `length` (the longest trained on).
        """
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
        """What the run is called among its records."""
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
        """The heads of a model that supervised attention is asked of: the first of the last layer."""
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
        """Of a table with a column `run`, the rows of the first seed's models, called by their kind."""
        kinds = {run.name: run.kind for run in self.runs() if run.seed == self.seeds[0]}
        return table[table["run"].isin(kinds)].assign(run=lambda rows: rows["run"].map(kinds))

    def stages(self, names: Iterable[str] = ()) -> pd.DataFrame:
        """What each task is trained on, stage by stage.

        Args:
            names: of the tasks; the chapter's, if left out.

        Returns:
            A row per stage: `task`, `from step`, `to step`, `texts`, in words. The last stage of a task is
            all of its ranges.
        """
        rows = list[dict[str, Any]]()
        for name in names or self.tasks:
            recipe = self.recipe(name)
            ends = [*recipe.ends, recipe.steps]
            ranges = [*(stage.ranges for stage in recipe.stages), {}]
            for start, end, own in zip([0, *ends], ends, ranges, strict=False):
                texts = in_words(self.settings(name, "train") | dict(own))
                rows.append({"task": name, "from step": start, "to step": end, "texts": texts})
        return pd.DataFrame(rows)

    def run_table(self) -> pd.DataFrame:
        """A row per run: name, task, whether it is supervised, seed; in words, the model and the ranges.

        `kind` is what runs that differ only in their seed have in common; `model`, what sets it apart from
        others of its task.
        """
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
        """How big a model from scratch is, and whether it had a curriculum, in words."""
        if not self.from_scratch:
            return ""
        recipe = self.recipe(run.task)
        ff_width = f", feed-forward {recipe.ff_width}" * (recipe.ff_width not in (0, 4 * recipe.width))
        return (
            f", {recipe.n_layers} layers of {recipe.n_heads} heads, width {recipe.width}{ff_width}"
            + f", curriculum of {len(recipe.stages) + 1} stages" * bool(recipe.stages)
        )
