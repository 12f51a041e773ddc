"""Helpers that all models share: evaluation mode in a block, seeded random numbers, and checkpoint files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from attnlib.files import CheckpointError, load_tensors, save_tensors
from attnlib.undoing import scope, undone

M = TypeVar("M", bound=nn.Module)

Ways = tuple[Callable[[], Any], Callable[[], Any]]
"""Two functions: one does something, the other undoes it."""


class Shared:
    """Changes that blocks in several threads share: the first block makes a change, the last undoes it."""

    def __init__(self) -> None:
        self._lock, self.users = RLock(), dict[Any, tuple[set[object], Callable[[], Any]]]()

    @scope
    def needed(self, things: Sequence[Any], ways: Callable[[Any], Ways]) -> Iterator[None]:
        """Keep all `things` done inside a `with` block; `ways` maps a thing to its do and undo functions."""
        user = object()
        with undone(partial(self._leave, user, things)):
            with self._lock:
                for thing in things:
                    if thing in self.users:
                        self.users[thing][0].add(user)
                    else:
                        do, undo = ways(thing)
                        self.users[thing] = {user}, undo
                        do()
            yield

    def _leave(self, user: object, things: Sequence[Any]) -> None:
        with self._lock:
            for thing in things:
                if thing not in self.users or user not in self.users[thing][0]:
                    continue
                users, undo = self.users[thing]
                if len(users) > 1:
                    users.discard(user)
                else:
                    undo()
                    del self.users[thing]


_evaluated, _without_cudnn = Shared(), Shared()


@scope
def evaluating(model: M) -> Iterator[M]:
    """The model in evaluation mode inside a `with` block; after it, every module is in the mode it had.

    Blocks may be nested, and open in several threads at once: the mode is restored when the last of them
    ends.

    Example:
        >>> model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5).eval())
        >>> with evaluating(model):
        ...     model[0].training
        False
        >>> model[0].training, model[1].training
        (True, False)
    """
    modules = list(model.modules())
    with _evaluated.needed(modules, partial(_set, name="training", value=False)):
        for module in modules:
            module.training = False
        yield model


@scope
def seeded(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed torch's generators inside a `with` block; after it, those of the CPU and CUDA are restored.

    With `device` "cpu", where initial weights are drawn, the generators of GPUs are not touched.
    """
    on_cpu = torch.device(device).type == "cpu"
    gpus = [] if on_cpu else range(torch.cuda.device_count())
    with torch.random.fork_rng(gpus):
        (torch.default_generator if on_cpu else torch).manual_seed(seed)
        yield


@scope
def without_cudnn() -> Iterator[None]:
    """Compute recurrent layers with torch's own kernels, not cuDNN's, inside a `with` block.

    The switch applies to the whole process; it is restored when the last of several open blocks ends.
    """
    with _without_cudnn.needed([torch.backends.cudnn], partial(_set, name="enabled", value=False)):
        yield


def _set(thing: Any, name: str, value: Any) -> Ways:
    return partial(setattr, thing, name, value), partial(setattr, thing, name, getattr(thing, name))


def exact_sum(numbers: Iterable[Tensor]) -> Float64[Tensor, ""]:
    """The sum of scalars in double precision, computed on the CPU: some GPUs have no double precision."""
    return sum((each.cpu().double() for each in numbers), torch.zeros((), dtype=torch.float64))


S = TypeVar("S", bound="Saved")


MOST_POSITIONS = 2**17
"""A `max_length` up to this is accepted from a file with few weights (positions may need none)."""


class Saved(nn.Module):
    """A model that can be written to a file and read back: one with a `config`, from which it is built."""

    CONFIG: ClassVar[type]

    def save(self, path: str | Path, **header: Any) -> None:
        """Write weights, settings and the further entries of `header` to one safetensors file, atomically.

        Raises:
            ValueError: `header` has an entry "config" or "format".
        """
        if taken := {"config", "format"} & header.keys():
            raise ValueError(
                f"config and format are said by the model itself; got {sorted(taken)}: rename them"
            )
        save_tensors(Path(path), self.state_dict(), {"config": config_of(self), **header})

    @classmethod
    def load(cls: type[S], path: str | Path, device: torch.device | str = "cpu") -> S:
        """The model that `save` (or `fit`, as best.safetensors) wrote, in evaluation mode and saved dtype."""
        if not Path(path).is_file():
            raise CheckpointError(
                f"there is no checkpoint {path}. Train the model first (fit with folder=... writes "
                f"best.safetensors into it), or name the file of one that was."
            )
        return cls.built(path, *load_tensors(Path(path))).to(device)

    @classmethod
    def built(cls: type[S], path: str | Path, weights: dict[str, torch.Tensor], header: dict[str, Any]) -> S:
        """The model of a file; a `CheckpointError`, before allocation, if settings do not fit the tensors."""
        try:
            _check_sizes(cls, header["config"], weights)
            kinds = {weight.dtype for weight in weights.values() if weight.is_floating_point()}
            model = cls(cls.CONFIG(**header["config"]))
            if len(kinds) == 1:
                model.to(kinds.pop())
            model.load_state_dict(weights)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{path} is not the checkpoint of a {cls.__name__}: {error}") from error
        return model.eval()


def _check_sizes(kind: Any, settings: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> None:
    """Raise a `ValueError` if the settings do not fit the weights, or if a weight is not finite.

    Every layer has at least one tensor; everything else costs nothing on torch's `meta` device.
    """
    numbers = sum(weight.numel() for weight in weights.values())
    for name, value in settings.items():
        size = len(value) if isinstance(value, list) else value
        most = len(weights) if name.endswith("layers") else numbers
        if isinstance(size, int) and size > max(most, MOST_POSITIONS * (name == "max_length")):
            raise ValueError(
                f"{name} is {size:,}, and the file has {len(weights)} tensors with {numbers:,} numbers"
            )
    with torch.device("meta"):
        state = kind(kind.CONFIG(**settings)).state_dict()
    expected, found = ({name: tuple(each.shape) for name, each in of.items()} for of in (state, weights))
    if wrong := sorted(dict(expected.items() ^ found.items())):
        name = wrong[0]
        raise ValueError(
            f"{name} should be {expected.get(name, 'absent')}, and is {found.get(name, 'absent')}; "
            f"{len(wrong)} of {len(expected)} tensors are wrong"
        )
    if bad := [name for name, weight in weights.items() if not weight.isfinite().all()]:
        raise ValueError(f"{bad[0]} holds what is no finite number")


def config_of(model: nn.Module) -> dict[str, Any]:
    """A model's `config` (a dataclass, or Hugging Face's) as JSON values; empty if it has none."""
    config: Any = getattr(model, "config", None)
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        settings = dataclasses.asdict(config)
    else:
        settings = config.to_dict() if hasattr(config, "to_dict") else {}
    return as_json(settings)


def as_json(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings as they would be read back from a JSON file: tuples as lists, unknown types as text."""
    return json.loads(json.dumps(settings, default=str))
