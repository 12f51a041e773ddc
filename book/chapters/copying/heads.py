"""Good and bad heads in the chapter on copying: drawn at random, graded by training, and combined.

Source: Snell, Zhong, Klein and Steinhardt 2021, section 5.2, and the authors' multihead.py. A head is a map
from the decoder's state to a query, and a map from the attended states to the context. Everything else
(embeddings, encoder, decoder, output) is the base, whose initial weights are the same in all models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from attnlib import stats
from attnlib.generators.copying import UNSEEN, CopyBatch, Copying
from attnlib.generators.order import chunks
from attnlib.models.base import seeded
from attnlib.models.copier import Copier, CopierConfig, copying_loss, copying_scores
from attnlib.training import Plan
from book.chapters.chapter import Chapter, Run, Setup, Trained
from book.chapters.copying.measures import PREFERENCES, HeadLooks, initial_preference
from book.chapters.copying.tables import (
    GOOD_ABOVE,
    ORDERS,
    Graded,
    HeadResults,
    head_grades,
    learned_at,
    run_grades,
)
from book.chapters.dynamics import checkpoint_steps
from book.chapters.parameters import Count, Rate
from book.chapters.processes import processes, train_side_by_side


def initial_head(config: CopierConfig, seed: int) -> dict[str, Tensor]:
    """The initial weights of one head, by their parameter names in `Copier`."""
    with seeded(seed):
        maps = {
            "to_query": nn.Linear(config.hidden, config.both),
            "to_context": nn.Linear(config.both, config.hidden),
        }
    return {
        f"{name}_{kind}": weight for name, each in maps.items() for kind, weight in each.state_dict().items()
    }


def copier_of(config: CopierConfig, base: int, heads: Sequence[Sequence[int]]) -> Copier:
    """Parallel models on the same base, with chosen heads."""
    counts = {len(each) for each in heads}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(
            f"all models should have equally many heads, at least 1; got {[len(each) for each in heads]}"
        )
    model = Copier(replace(config, seeds=(base,) * len(heads), n_heads=counts.pop()))
    drawn = {seed: initial_head(config, seed) for each in heads for seed in each}
    with torch.no_grad():
        for name in next(iter(drawn.values())):
            stacked = [torch.stack([drawn[seed][name] for seed in each]) for each in heads]
            getattr(model, name).copy_(torch.stack(stacked))
    return model


LOOK_EVERY = 10  # steps, as in the original
DRAWN_AT_ONCE = 20  # heads per round of grading, until there are enough good and bad ones
NOT_GRADED = 30  # size of the pool of ungraded heads, as in the original
_GRADED_FROM, _NOT_GRADED_FROM = 10_000, 20_000  # seeds of heads: no base has them


@dataclass(frozen=True)
class HeadRun(Run):
    """Parallel models with heads of chosen seeds, each with its own order of the data."""

    heads: tuple[tuple[int, ...], ...]
    orders: tuple[int, ...]
    steps: int


class CopyingHeads(Chapter):
    """Parameters and models of the part on heads; the notebook's parameters cell describes the fields."""

    precision: Literal["float32", "bf16"]
    heads_wanted: Count
    heads_drawn: Count = Field(ge=1, le=1000)
    heads_together: Count = Field(ge=2, le=NOT_GRADED)
    heads_models: Count = Field(ge=1, le=1000)
    heads_length: Count = Field(ge=3, le=500)
    heads_hidden: Count = Field(ge=1, le=4096)
    heads_batch_size: Count = Field(ge=1)
    heads_learning_rate: Rate
    heads_steps: Count = Field(ge=1)
    together_steps: Count = Field(ge=1)
    heads_sequences: Count = Field(ge=1)
    heads_stacked: Count = Field(ge=1)
    heads_base: Count = Field(lt=_GRADED_FROM)

    @model_validator(mode="after")
    def _enough(self) -> CopyingHeads:
        if 0 < self.heads_wanted < self.heads_together:
            raise ValueError(
                f"heads_wanted should be 0, or at least heads_together = {self.heads_together}, for models "
                f"of bad heads alone; got {self.heads_wanted}"
            )
        return self

    # ---- models of heads -----------------------------------------------------------------------------

    @property
    def heads_task(self) -> Copying:
        """The task of copying permutations."""
        return Copying(self.heads_length, self.heads_length)

    def head_setup(self, run: HeadRun) -> Setup:
        """Parallel models with chosen heads on one base, and how they are trained."""
        model = copier_of(self._head_config, self.heads_base, run.heads)
        looked_at = self._unseen(len(run.heads))
        batches = self.heads_task.batches(self.heads_batch_size, run.orders)
        looks = HeadLooks(checkpoint_steps(run.steps, LOOK_EVERY, (0,)), looked_at)
        plan = self.copying_plan(run, self.heads_learning_rate, LOOK_EVERY)
        return Setup(model, batches, copying_loss, plan, [looked_at], copying_scores, [looks])

    def copying_plan(self, run: Any, learning_rate: float, every: int) -> Plan:
        """How copiers are trained, with chosen heads or their own; `every`: steps between evaluations."""
        return Plan(
            steps=run.steps,
            learning_rate=learning_rate,
            evaluate_every=max(50, every),  # checkpoints are written here, too: not at every evaluation
            seed=run.seed,
            device=self.device,
            precision=self.precision,
        )

    @property
    def _head_config(self) -> CopierConfig:
        return CopierConfig(self.heads_task.vocabulary, self.heads_hidden, cell="gru", shared=False)

    def _unseen(self, models: int) -> CopyBatch:
        """Held-out sequences, the same for every model."""
        rng = np.random.default_rng([0, UNSEEN])
        sequences = self.heads_task.sequences(self.heads_sequences, rng)
        return self.heads_task.of(np.repeat(sequences[None], models, 0))

    # ---- grades --------------------------------------------------------------------------------------

    def grade_heads(self) -> Graded:
        """Draw and grade heads until `heads_wanted` are good and as many bad, or `heads_drawn` are drawn.

        Heads are drawn 20 at a time, and all of them are graded and kept, so there may be more than wanted.
        A head that is already known to be neither good nor bad has no further runs.
        """
        tables: list[pd.DataFrame] = []
        graded = self._graded(tables)
        while self.heads_wanted and not self.enough(graded) and len(graded.heads) < self.heads_drawn:
            first = len(graded.heads)
            still = list(range(first, min(first + DRAWN_AT_ONCE, self.heads_drawn)))
            for order in range(ORDERS):
                if still:
                    tables.append(self._graded_once(still, order))
                    graded = self._graded(tables)
                    still = graded.of("open")
        return graded

    def enough(self, graded: Graded) -> bool:
        """Whether there are as many good and bad heads as wanted."""
        return min(len(graded.of("good")), len(graded.of("bad"))) >= self.heads_wanted

    def _graded(self, tables: Sequence[pd.DataFrame]) -> Graded:
        nothing = pd.DataFrame(columns=["head", "order", "step", "accuracy"])
        curves = pd.concat(tables, ignore_index=True) if tables else nothing
        runs = run_grades(curves)
        return Graded(curves, runs, head_grades(runs))

    def _graded_once(self, heads: Sequence[int], order: int) -> pd.DataFrame:
        name = f"heads {heads[0]} to {heads[-1]}, order {order}"
        seeds = [(_GRADED_FROM + head,) for head in heads]
        found = self._train(name, seeds, [order] * len(heads), self.heads_steps)
        return _curves(found, heads, "head").assign(order=order)

    def _train(
        self, name: str, heads: Sequence[tuple[int, ...]], orders: Sequence[int], steps: int
    ) -> list[Trained]:
        stacks, runs = chunks(len(heads), self.heads_stacked), []
        for part in stacks:
            some, of_them = tuple(heads[part]), tuple(orders[part])
            which = f", {part.start} to {part.start + len(some) - 1}" if len(stacks) > 1 else ""
            runs.append(HeadRun(f"{name}{which}", self.heads_base, some, of_them, steps))
        if (n := processes()) > 1 and len(runs) > 1:
            train_side_by_side(self, runs, n)
        return [self.train(run) for run in runs]

    # ---- before training -----------------------------------------------------------------------------

    def preferences(self, graded: Graded) -> pd.DataFrame:
        """The attention of graded heads before training: see `measures.initial_preference`."""
        heads, tables = graded.heads["head"].tolist(), []
        for part in chunks(len(heads), self.heads_stacked):
            some = heads[part]
            model = copier_of(self._head_config, self.heads_base, [(_GRADED_FROM + head,) for head in some])
            model.to(self.torch_device)
            tables.append(initial_preference(model, self._unseen(len(some)), some))
        return pd.concat(tables or [pd.DataFrame(columns=["head", *PREFERENCES])], ignore_index=True)

    # ---- several heads -------------------------------------------------------------------------------

    def combinations(self, graded: Graded) -> dict[str, list[tuple[int, ...]]]:
        """The heads' seeds for models with several heads, by kind; a kind with too few heads is left out."""
        n, rng = self.heads_together, np.random.default_rng([self.heads_base, UNSEEN])
        bad, good = (
            np.array(graded.of(grade)[: self.heads_wanted], int) + _GRADED_FROM for grade in ("bad", "good")
        )
        others = np.arange(NOT_GRADED) + _NOT_GRADED_FROM
        kinds = {
            f"{n} bad": [(bad, n)],
            f"{n - 1} bad, 1 good": [(bad, n - 1), (good, 1)],
            f"{n} not graded": [(others, n)],
        }
        found = {}
        for kind, parts in kinds.items():
            if self.heads_wanted and all(len(pool) >= count for pool, count in parts):
                drawn = [
                    [rng.choice(pool, count, replace=False) for pool, count in parts]
                    for _ in range(self.heads_models)
                ]
                found[kind] = [tuple(np.concatenate(each).tolist()) for each in drawn]
        return found

    def train_together(self, graded: Graded) -> pd.DataFrame:
        """Train models with several heads, each on an order of the data that was not used for grading."""
        tables = []
        for place, (kind, heads) in enumerate(self.combinations(graded).items()):
            first = ORDERS + place * self.heads_models
            found = self._train(kind, heads, range(first, first + len(heads)), self.together_steps)
            tables.append(_curves(found, range(len(heads)), "seed").assign(task=kind))
        return pd.concat(tables or [pd.DataFrame(columns=["task"])], ignore_index=True)

    def found_by_good(self, times: pd.DataFrame) -> stats.Estimate | None:
        """The share of models with one good head, among those that learned, in which the good head leads.

        The good head leads if, at the end, its largest attention is on the right place more often than that
        of any bad head. `None` if no such model learned.
        """
        name = f"{self.heads_together - 1} bad, 1 good"
        learned = times.loc[(times["task"] == name) & times["learned"], "seed"].tolist()
        if not learned:
            return None
        stacks = [each for run, each in self.trained.items() if run == name or run.startswith(f"{name}, ")]
        last = np.concatenate([each.hooks[0].at(self.together_steps)["on it"].numpy() for each in stacks])
        leads = last[learned, -1] > last[learned, :-1].max(1)
        return stats.proportion(int(leads.sum()), len(leads), method="exact")

    # ---- in words and numbers ------------------------------------------------------------------------

    def said_of(self, graded: Graded) -> str:
        """How many heads were found, in words, and advice if they are too few."""
        if not self.heads_wanted:
            return "no heads were wanted: heads_wanted is 0"
        said, wanted = str(graded), self.heads_wanted
        if not self.enough(graded):
            said += (
                f". That is less than the {wanted} good and {wanted} bad ones wanted, within heads_drawn = "
                f"{self.heads_drawn}: draw more, train longer (heads_steps) for more good ones, shorter for "
                "more bad ones, or want fewer"
            )
        if len(possible := self.combinations(graded)) < 3:
            said += f". Models of several heads that can be made: {', '.join(possible) or 'none'}"
        return said

    @property
    def heads_setting(self) -> str:
        """The set-up in words, for tables."""
        said = [
            f"{self.heads_task.name}; GRU",
            f"hidden {self.heads_hidden}, batch {self.heads_batch_size}",
            f"learning rate {self.heads_learning_rate:g}; base {self.heads_base}",
            "bf16" * (self.precision == "bf16"),
        ]
        return "; ".join(part for part in said if part)

    def head_results(self, graded: Graded, together: pd.DataFrame) -> HeadResults:
        """The results on heads."""
        times = learned_at(together, GOOD_ABOVE) if len(together) else pd.DataFrame()
        leads = self.found_by_good(times) if len(times) else None
        return HeadResults(graded, self.preferences(graded), together, times, leads, self.together_steps)


def _curves(found: Iterable[Trained], names: Iterable[int], column: str) -> pd.DataFrame:
    """The accuracy of all models of some stacks of parallel models over training."""
    names, tables = list(names), []
    for each in found:
        here = len(each.model.get_parameter("to_query_weight"))
        tables.append(each.hooks[0].curves(names[:here]).rename(columns={"seed": column}))
        names = names[here:]
    return pd.concat(tables, ignore_index=True)
