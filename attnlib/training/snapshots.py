"""A model at chosen moments of its training, to look at how it came about."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attnlib.files import CheckpointError
from attnlib.models.transformer import Transformer


def denser_early(steps: int, n: int = 12) -> list[int]:
    """About `n` steps from 0 to the last, the gaps growing evenly: early changes are the quick ones.

    Raises:
        ValueError: there are fewer than 1 step or 2 moments.
    """
    if steps < 1 or n < 2:
        raise ValueError(f"there should be at least 1 step and 2 moments; got {steps} and {n}")
    return sorted({round(steps * (place / (n - 1)) ** 2) for place in range(n)})


class Snapshots:
    """A hook for `fit` that writes the model's weights at chosen steps, and reads them back as models.

    Each is a file `step-00000400.safetensors` of the folder, written as it comes: a run that was killed and
    goes on writes those that it had not come to. Put `folder` inside the folder of `fit`, and both are of the
    same run; a finished run that is loaded from there finds its snapshots too.

    Args:
        folder: where the files go.
        steps: when, as updates made; 0 is before training.
    """

    before = True  # of the hooks that want to see step 0: see `training.also_before`

    def __init__(self, folder: str | Path, steps: Iterable[int]) -> None:
        self.folder, self.steps = Path(folder), frozenset(steps)

    def __call__(self, event: Any) -> None:
        """Write the model, if this is one of the steps."""
        if event.step in self.steps:
            self.folder.mkdir(parents=True, exist_ok=True)
            event.model.save(self._path(event.step))

    def load(self) -> dict[int, Transformer]:
        """The model of every step that training came to, in evaluation mode on the CPU.

        Raises:
            CheckpointError: there are none, or one is damaged.
        """
        found = {step: self._path(step) for step in sorted(self.steps)}
        models = {step: Transformer.load(path) for step, path in found.items() if path.exists()}
        if not models:
            raise CheckpointError(
                f"{self.folder} holds no snapshot of steps {sorted(self.steps)}. If the run beside it is "
                "finished, delete its folder and train it again with this hook."
            )
        return models

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}.safetensors"
