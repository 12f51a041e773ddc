"""Files of a run, also those that hooks keep. The header of each file names its run, and is checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from attnlib.checks import check_at_least
from attnlib.files import CheckpointError, load_tensors, save_tensors
from attnlib.places import make_folder
from attnlib.training.runlog import log


class Foreign(CheckpointError):
    """A file is intact, but belongs to another run or step, or is of another kind."""


def load_own(path: Path, run: str | None, **expected: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """A file's tensors and header; `Foreign` if the header differs from `run` (None: any) or `expected`."""
    try:
        tensors, header = load_tensors(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing") from None
    wanted = expected if run is None else {"run": run, **expected}
    for name, value in wanted.items():
        if header.get(name) != value:
            raise Foreign(f"{path} is of another run: its {name} is {header.get(name)!r}, not {value!r}")
    return tensors, header


def kept(path: Path, whose: Mapping[str, Any], make: Callable[[], Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors of a file; made by `make` and saved if the file is missing, damaged or not of `whose`."""
    try:
        tensors, _ = load_own(path, **{"run": None, **whose})
        return tensors
    except CheckpointError as error:
        if os.path.lexists(path):
            log.warning("%s; it is made again", error)
    made = dict(make())
    make_folder(path.parent)
    save_tensors(path, made, dict(whose))
    return made


class Keeper:
    """A hook for `fit` that writes a file at each of some steps, in a folder inside the folder of the run.

    A step is the number of updates made; 0 is before training. `fit` first calls `join` to name the run. When
    `fit` resumes a run and a file of a step already done is `missing`, the run starts again.
    """

    before = True  # `fit` calls this hook at step 0, too: see `training.also_before`
    KIND: ClassVar[str]
    FOLDER: ClassVar[str]

    def __init__(self, steps: Iterable[int]) -> None:
        self.steps = tuple(sorted(set(steps)))
        self.folder: Path | None = None
        self.run: str | None = None
        self.model_class: Any = None

    @property
    def cache_key(self) -> Any:
        """What the files depend on beside the run itself; part of the run's cache key."""
        return self.steps

    def join(self, folder: Path | None, run: str | None, model: nn.Module) -> None:
        """Set the run that the files belong to, and the folder that they are written to."""
        if folder is None:
            raise ValueError(f"{type(self).__name__} keeps files: call fit with folder=..., or trained()")
        self.folder, self.run, self.model_class = folder / self.FOLDER, run, type(model)

    def paths(self, step: int) -> list[Path]:
        """The files of a step."""
        raise NotImplementedError

    def write(self, step: int, model: nn.Module) -> None:
        """Write the files of a step."""
        raise NotImplementedError

    def __call__(self, event: Any) -> None:
        """Write the files of the step, if it is one of `steps`."""
        if event.step in self.steps:
            make_folder(self.home)
            self.write(event.step, event.model)

    @property
    def home(self) -> Path:
        """The folder of the files; a `CheckpointError` if `fit` or `trained` has not yet set it."""
        if self.folder is None:
            raise CheckpointError(f"this {type(self).__name__} is of no run yet: give it to fit or trained()")
        return self.folder

    def missing(self, done: int) -> str | None:
        """A sentence on what is wrong with the files of the steps up to `done`; `None` if nothing is."""
        for step in (step for step in self.steps if step <= done):
            for path in self.paths(step):
                try:
                    load_own(path, self.run, kind=self.KIND, step=step)
                except CheckpointError as error:
                    return str(error)
        return None


def denser_early(steps: int, n: int = 12) -> list[int]:
    """About `n` steps from 0 to `steps`; gaps grow linearly, since models change fastest at first."""
    check_at_least(1, steps=steps)
    check_at_least(2, n=n)
    return sorted({round(steps * (place / (n - 1)) ** 2) for place in range(n)})


class Snapshots(Keeper):
    """A hook that keeps the model's weights at chosen steps, and reads them back as models.

    The model's class must have `save` and `built`. Each snapshot is a file such as
    `step-00000400.safetensors` in the folder `snapshots` of the run.
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
        """The models by step, for all steps that training has reached, in evaluation mode on the CPU."""
        models = {step: self.at(step) for step in self.steps if self.paths(step)[0].exists()}
        if not models:
            raise CheckpointError(f"{self.home} holds no snapshot of steps {list(self.steps)}")
        return models

    def at(self, step: int) -> Any:
        """The model of one step, in evaluation mode on the CPU."""
        path = self.paths(step)[0]
        return self.model_class.built(path, *load_own(path, self.run, kind=self.KIND, step=step))
