"""Sizes of models and their training: steps, learning rates, ablations, and resets to the best weights."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnlib.generators.base import Head
from attnlib.training.keeping import Keeper, load_own
from attnlib.training.run import LAST, best_of


@dataclass(frozen=True)
class Recipe:
    """How a small model of a language is trained (width 64, sequences of up to 30 out of 10 symbols).

    Attributes:
        steps: training steps.
        batch_size: sequences per step.
        learning_rate: the peak.
    """

    steps: int = 2500
    batch_size: int = 16
    learning_rate: float = 0.002


RECIPES = {
    "hist2": Recipe(8000, batch_size=32),
    "sort_by_freq": Recipe(12000),
    "dyck1_ptf": Recipe(8000),
    **{f"dyck{n}_ptf": Recipe(12000, learning_rate=0.0015) for n in range(2, 9)},
}
"""The recipes of languages that need longer training than the others."""


@dataclass(frozen=True)
class Size:
    """How many layers and heads per layer a model has, and how wide it is."""

    n_layers: int
    n_heads: int
    width: int

    def has(self, head: Head) -> bool:
        """Whether a model of this size has such a head."""
        return head[0] < self.n_layers and head[1] < self.n_heads


ABLATIONS: dict[str, Callable[[Size], Size]] = {
    "one head fewer": lambda size: Size(size.n_layers, size.n_heads - 1, size.width),
    "one layer fewer": lambda size: Size(size.n_layers - 1, size.n_heads, size.width),
    "one layer fewer, twice as wide": lambda size: Size(size.n_layers - 1, 2 * size.n_heads, 2 * size.width),
}
"""The paper's ablations of the size that a program needs. The last one also has twice the heads."""


class ResetToBest(Keeper):
    """A hook that restores the best weights after more than `patience` evaluations without an improvement.

    The authors' trainer of "Thinking Like Transformers" does the same (`patience` 10), but also resets Adam's
    moving averages, which are kept here. The hook depends only on the run's checkpoint and the step, so that
    a resumed run reaches the same weights.
    """

    KIND, FOLDER = "last", ""

    def __init__(self, patience: int, every: int) -> None:
        super().__init__(())
        self.patience, self.every = patience, every

    @property
    def cache_key(self) -> Any:
        """The parameters that determine the weights, apart from the run itself."""
        return self.patience, self.every

    def __call__(self, event: Any) -> None:
        """Restore the best weights if the last evaluation exceeded the patience."""
        evaluated = event.step - 1
        if evaluated <= 0 or evaluated % self.every:
            return
        state, header = load_own(self.home / LAST, self.run, kind=self.KIND)
        best, best_step = best_of(state, header), header["best_step"]
        if best is None:
            return
        fruitless = (evaluated - best_step) // self.every
        if fruitless and fruitless % (self.patience + 1) == 0:
            event.model.load_state_dict(best)
            logging.getLogger("attnlib.training").info(
                "nothing better since step %d: its weights are taken back", best_step
            )
