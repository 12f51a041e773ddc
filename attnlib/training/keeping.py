"""Files of a run, those that hooks keep among them: whose each is stands in its header, and is checked."""

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
    """A file is whole, but not of this run, step or kind."""


def load_own(path: Path, run: str | None, **expected: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """A file's tensors and header; `Foreign` if it is not of `run` (None: any), or not what is `expected`."""
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
    """The tensors of a file; if it is not there, damaged or another one, they are made and put there."""
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
    """A hook for `fit` that keeps a file at each of some steps, in a folder inside that of the run.

    Steps are updates made; 0 is before training. `fit` says which run it is in (`join`) before anything else;
    if a file is `missing` of the steps that an earlier call has come to, the run starts again.
    """

    before = True  # of the hooks that want to see step 0: see `training.also_before`
    KIND: ClassVar[str]
    FOLDER: ClassVar[str]

    def __init__(self, steps: Iterable[int]) -> None:
        self.steps = tuple(sorted(set(steps)))
        self.folder: Path | None = None
        self.run: str | None = None
        self.model_class: Any = None

    @property
    def cache_key(self) -> Any:
        """What decides its files, beside the run itself; part of the run's cache key."""
        return self.steps

    def join(self, folder: Path | None, run: str | None, model: nn.Module) -> None:
        """Say which run it is in: whose files it writes, and where."""
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
        """Write the files of the step, if it is one of those chosen."""
        if event.step in self.steps:
            make_folder(self.home)
            self.write(event.step, event.model)

    @property
    def home(self) -> Path:
        """Its folder; a `CheckpointError` before it was given to `fit` or `trained`."""
        if self.folder is None:
            raise CheckpointError(f"this {type(self).__name__} is of no run yet: give it to fit or trained()")
        return self.folder

    def missing(self, done: int) -> str | None:
        """What is wrong with the files of the steps up to `done`, in words; `None` if nothing is."""
        for step in (step for step in self.steps if step <= done):
            for path in self.paths(step):
                try:
                    load_own(path, self.run, kind=self.KIND, step=step)
                except CheckpointError as error:
                    return str(error)
        return None


def denser_early(steps: int, n: int = 12) -> list[int]:
    """About `n` steps from 0 to the last, the gaps growing evenly: early changes are the quick ones."""
    check_at_least(1, steps=steps)
    check_at_least(2, n=n)
    return sorted({round(steps * (place / (n - 1)) ** 2) for place in range(n)})


class Snapshots(Keeper):
    """A hook that keeps the model's weights at chosen steps, and reads them back as models.

    For every class of models with `save` and `built`. Each is a file `step-00000400.safetensors` in the
    folder `snapshots` of the run.
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
        """The model of every step that training came to, in evaluation mode on the CPU."""
        models = {step: self.at(step) for step in self.steps if self.paths(step)[0].exists()}
        if not models:
            raise CheckpointError(f"{self.home} holds no snapshot of steps {list(self.steps)}")
        return models

    def at(self, step: int) -> Any:
        """The model of one step, in evaluation mode on the CPU."""
        path = self.paths(step)[0]
        return self.model_class.built(path, *load_own(path, self.run, kind=self.KIND, step=step))
