"""Going back to the best weights so far, where training has brought nothing better for long."""

from __future__ import annotations

import logging
from typing import Any

from attnlib.training.keeping import Keeper, load_own
from attnlib.training.run import LAST, best_of


class ResetToBest(Keeper):
    """A hook that takes the best weights back after more than `patience` evaluations without a better one.

    As in the authors' trainer of "Thinking Like Transformers" (10 of them), but Adam's moving averages go on,
    where theirs begin anew. It goes by the run's own checkpoint and the step alone, so that a killed run goes
    on to the same weights.
    """

    KIND, FOLDER = "last", ""

    def __init__(self, patience: int, every: int) -> None:
        super().__init__(())
        self.patience, self.every = patience, every

    @property
    def cache_key(self) -> Any:
        """What decides the weights, beside the run itself."""
        return self.patience, self.every

    def __call__(self, event: Any) -> None:
        """Take the best weights back, if the last evaluation was one too many."""
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
