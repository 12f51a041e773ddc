"""The cache key of a training run: a hash of all that the trained weights depend on.

Tensors, plain values, fields of dataclasses and attributes of a model's modules are hashed by their content;
other objects by their attribute `cache_key`. All code of `generators`, `models` and `training` is hashed as
source text. Any other function, such as a user's loss, is hashed as bytecode, with its closure and the
globals that it names: its text alone would miss a constant of another cell, and edits since the import.
A value that cannot be hashed raises `Unreadable`: nothing is guessed.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import importlib
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from torch import nn

from attnlib.training.plan import Plan

ROOMS = ("generators", "models", "training")
"""Packages of `attnlib` whose source text is part of every cache key."""


def source_of(attnlib: Path) -> str:
    """The SHA-256 of the source text of all packages in `ROOMS`."""
    files = [file for room in ROOMS for file in sorted((attnlib / room).rglob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


SOURCE = source_of(Path(__file__).parents[1])
"""Read at import: later edits of the files are not the code that runs."""

COMPILED = ("co_code", "co_exceptiontable", "co_names", "co_varnames", "co_argcount", "co_flags")


class Unreadable(ValueError):
    """A value that the weights depend on cannot be hashed, so that the run has no cache key."""


def key_parts(
    model: nn.Module,
    batches: Callable[[int], Any],
    loss: Callable[..., Any],
    plan: Plan,
    *,
    valid: Sequence[Any] | None = None,
    score: Callable[..., Any] | None = None,
    hooks: Iterable[Any] = (),
) -> dict[str, str]:
    """The hash of each part that the trained weights depend on; arguments are those of `trained`."""
    kinds = {type(part) for part in model.modules()}
    packages = sorted({"torch", "numpy", *(kind.__module__.partition(".")[0] for kind in kinds)})
    asked = {
        "model": model,
        "data": batches,
        "valid": valid,
        "plan": plan.settings(),
        "loss": loss,
        "score": score,
        "hooks": [hook for hook in hooks if hasattr(hook, "cache_key")],
        "versions": [getattr(sys.modules.get(each), "__version__", None) for each in packages],
    }
    parts = {"code": SOURCE}
    for name, value in asked.items():
        try:
            parts[name] = digest(value)
        except Unreadable as error:
            raise Unreadable(f"{name}: {error}") from error
    return parts


def digest(value: Any) -> str:
    """The SHA-256 of the content of a value, the same in every process."""
    reading = _Reading()
    try:
        total, found = reading.digest(value), list[tuple[str, str]]()
        for name, each in reading.used:  # the list grows meanwhile
            found.append((name, reading.digest(each)))
    except RecursionError as error:
        raise Unreadable("something holds itself") from error
    return reading.digest([total, *sorted(found)]) if found else total


class _Reading:
    """Hashes values, and collects the objects that their code names, each once (code may be recursive)."""

    def __init__(self) -> None:
        self.used: list[tuple[str, Any]] = []
        self._seen: set[Any] = set()

    def use(self, key: Any, name: str, value: Any) -> None:
        if key not in self._seen:
            self._seen.add(key)
            self.used.append((name, value))

    def digest(self, value: Any) -> str:
        total = hashlib.sha256()
        self.add(total, value)
        return total.hexdigest()

    def add(self, total: Any, value: Any) -> None:
        """Update a hash with the content of a value."""
        value = _unwrapped(value)
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | PurePath):
            total.update(f"{type(value).__name__} {value!r};".encode())
        elif isinstance(value, torch.Tensor):
            value = value.detach().cpu().contiguous()
            total.update(f"tensor {value.dtype} {tuple(value.shape)};".encode())
            total.update(value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b"")
        elif isinstance(value, np.ndarray | np.generic) and value.dtype != object:
            total.update(f"array {value.dtype} {value.shape};".encode())
            total.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, torch.device | torch.dtype | types.EllipsisType):
            total.update(f"{value};".encode())
        elif isinstance(value, Mapping):
            pairs = sorted((self.digest(key), self.digest(each)) for key, each in value.items())
            total.update(f"mapping {pairs};".encode())
        elif isinstance(value, list | tuple):
            total.update(f"sequence {len(value)}(".encode())
            for each in value:
                self.add(total, each)
            total.update(b")")
        elif isinstance(value, set | frozenset):
            self.add(total, sorted(self.digest(each) for each in value))
        elif isinstance(value, functools.partial | functools.partialmethod):
            self.add(total, (value.func, value.args, value.keywords))
        elif isinstance(value, types.MethodType):
            self.add(total, (value.__func__, value.__self__))
        elif isinstance(value, types.FunctionType):
            self.add_function(total, value)
        elif isinstance(value, types.BuiltinFunctionType) and not _of_module(value):
            self.add(total, (value.__name__, value.__self__))
        elif isinstance(value, type | types.BuiltinFunctionType | np.ufunc):
            total.update(f"{_named(value)};".encode())
            if isinstance(value, type) and _is_followed(value.__module__):
                self.use(id(value), _named(value), _members(value))
        elif isinstance(value, nn.Module):
            self.add(total, _of_model(value))
        elif hasattr(value, "cache_key"):
            self.add(total, (type(value), value.cache_key))
        elif hasattr(value, "to_dict"):  # a Hugging Face configuration
            kernel = getattr(value, "_attn_implementation", None)
            self.add(total, (type(value), {**value.to_dict(), "_name_or_path": None}, kernel))
        elif dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            self.add(total, (type(value), names, [getattr(value, name) for name in names]))
        else:
            raise Unreadable(f"a {_named(type(value))} has no content that a cache key could be made of")

    def add_function(self, total: Any, value: types.FunctionType) -> None:
        """Hash a function by its name and closure, and by its bytecode unless it belongs to a library."""
        try:
            enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
        except ValueError as error:
            raise Unreadable(f"{_named(value)} encloses something not yet defined") from error
        self.add(total, (_named(value), enclosed))
        if not _is_library(home := value.__globals__.get("__name__", "__main__")):
            self.add(total, (value.__defaults__, value.__kwdefaults__))
            self.add_code(total, value.__code__, value.__globals__ if _is_followed(home) else {})

    def add_code(self, total: Any, code: types.CodeType, around: dict[str, Any]) -> None:
        """Hash bytecode, and collect the objects that it names in `around`, the globals of its module."""
        self.add(total, [getattr(code, name) for name in COMPILED])
        for each in code.co_consts:
            if isinstance(each, types.CodeType):
                self.add_code(total, each, around)
            else:
                self.add(total, each)
        for step in dis.get_instructions(code) if around else ():
            if step.opname == "IMPORT_NAME" and step.argval and _is_followed(step.argval):
                self.use_named(step.argval, importlib.import_module(step.argval), code.co_names)
            elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in around:
                self.use_named((id(around), step.argval), around[step.argval], code.co_names)

    def use_named(self, key: Any, value: Any, names: Sequence[str], inside: tuple[Any, ...] = ()) -> None:
        """Collect an object that code names; of a user's module, the attributes that the code names."""
        if not isinstance(value, types.ModuleType):
            self.use(key, str(key[-1]), value)
        elif value not in inside and _is_followed(value.__name__):
            for each in names:
                if hasattr(value, each):
                    self.use_named((id(value), each), getattr(value, each), names, (*inside, value))


def _of_model(model: nn.Module) -> list[Any]:
    """The hashed parts of a model: weights, which are trained, buffers, its modules' attributes and hooks."""
    learns = [(name, weight.requires_grad) for name, weight in model.named_parameters()]
    held = [(name, type(part), _held(part)) for name, part in model.named_modules()]
    return [held, learns, dict(model.state_dict()), dict(model.named_buffers())]


_NOT_HELD = {*vars(nn.Module()), "name_or_path", "_flat_weights", "_flat_weight_refs"}
"""Attributes not hashed: those of every module, the path of a Hugging Face model, references to weights."""


def _held(part: nn.Module) -> list[Any]:
    """The attributes (such as settings) and hooks of a module, without its weights and submodules."""
    hidden = "_" if _is_library(type(part).__module__) else ()  # caches, such as references to weights
    attributes = {
        name: value
        for name, value in vars(part).items()
        if name not in _NOT_HELD and not name.startswith(hidden)
    }
    hooks = [list(value.values()) for name, value in vars(part).items() if name.endswith("_hooks")]
    return [attributes, hooks]


def _members(kind: type) -> list[Any]:
    """The hashed parts of a class: its base classes and its members, without those that Python generates."""
    found: list[Any] = [*kind.__mro__[1:]]
    for name, member in vars(kind).items():
        inner: Any = member
        if isinstance(inner, property):
            inner = (inner.fget, inner.fset)
        elif isinstance(inner, functools.cached_property):
            inner = inner.func
        elif isinstance(inner, classmethod | staticmethod):
            inner = inner.__func__
        made = name.startswith("__") and (
            not isinstance(inner, types.FunctionType) or inner.__code__.co_filename == "<string>"
        )
        if not (made or name == "_abc_impl" or isinstance(inner, types.MemberDescriptorType)):
            found.append((name, inner))
    return found


def _named(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}" if hasattr(thing, "__qualname__") else thing.__name__


def _of_module(function: types.BuiltinFunctionType) -> bool:
    return isinstance(function.__self__, types.ModuleType | None)


def _unwrapped(value: Any) -> Any:
    """The function inside decorators of libraries, which only check or cache; a user's decorators stay."""

    def stays(each: Any) -> bool:
        return isinstance(each, types.FunctionType) and not _is_library(each.__globals__.get("__name__", ""))

    return inspect.unwrap(value, stop=stays) if callable(value) and not isinstance(value, type) else value


def _is_followed(module: str) -> bool:
    """Whether a module belongs neither to a library nor to `ROOMS`, whose source is hashed anyway."""
    rooms = tuple(f"attnlib.{room}." for room in ROOMS)
    return not _is_library(module) and not f"{module}.".startswith(rooms)


@functools.cache
def _is_library(module: str) -> bool:
    """Whether a module is of the standard library, or lies in a folder of installed packages."""
    name = module.partition(".")[0]
    if name in ("__main__", "attnlib") or name in sys.stdlib_module_names:
        return name in sys.stdlib_module_names
    top = sys.modules.get(name)
    place = getattr(top, "__file__", None) or next(iter(getattr(top, "__path__", ())), None)
    return place is not None and any(Path(place).resolve().is_relative_to(each) for each in _installed())


@functools.cache
def _installed() -> tuple[Path, ...]:
    return tuple(Path(each).resolve() for each in sys.path if any(Path(each).glob("*.dist-info")))
