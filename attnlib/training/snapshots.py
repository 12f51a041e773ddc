"""A model at chosen moments of its training, to look at how it came about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from attnlib.files import CheckpointError
from attnlib.training.keeping import Keeper, load_own


def denser_early(steps: int, n: int = 12) -> list[int]:
    """About `n` steps from 0 to the last, the gaps growing evenly: early changes are the quick ones.

    Raises:
        ValueError: there are fewer than 1 step or 2 moments.
    """
    if steps < 1 or n < 2:
        raise ValueError(f"there should be at least 1 step and 2 moments; got {steps} and {n}")
    return sorted({round(steps * (place / (n - 1)) ** 2) for place in range(n)})


class Snapshots(Keeper):
    """A hook that keeps the model's weights at chosen steps, and reads them back as models.

    For every class of models with `save` and `load`. Each is a file `step-00000400.safetensors` in the folder
    `snapshots` of the run: one that was killed and goes on writes those that it had not come to; a finished
    one that is loaded finds them there, and a missing, damaged or foreign one starts the run again.

    Args:
        steps: when, as updates made; 0 is before training.
    """

    KIND, FOLDER = "snapshot", "snapshots"

    def paths(self, step: int) -> list[Path]:
        """The file of a step."""
        return [self.home / f"step-{step:08d}.safetensors"]

    def write(self, step: int, model: nn.Module) -> None:
        """Write the model."""
        save: Any = getattr(model, "save")  # noqa: B009 (not every module has it)
        save(self.paths(step)[0], kind=self.KIND, run=self.run, step=step)

    def load(self) -> dict[int, Any]:
        """The model of every step that training came to, in evaluation mode on the CPU.

        Raises:
            CheckpointError: there are none, or one is damaged or of another run.
        """
        models = {step: self.at(step) for step in self.steps if self.paths(step)[0].exists()}
        if not models:
            raise CheckpointError(f"{self.home} holds no snapshot of steps {list(self.steps)}")
        return models

    def at(self, step: int) -> Any:
        """The model of one step, in evaluation mode on the CPU.

        Raises:
            CheckpointError: it is missing, damaged, or of another run or step.
        """
        path = self.paths(step)[0]
        return self.model_class.built(path, *load_own(path, self.run, kind=self.KIND, step=step))
