"""What a trained model is kept under: a hash of all that went into it, taken from the things themselves."""

from __future__ import annotations

import ast
import dataclasses
import dis
import functools
import hashlib
import inspect
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from torch import nn

from attnlib.models.base import config_of
from attnlib.training.closure import PACKAGES, modules_reached
from attnlib.training.plan import Plan

ROOMS = ("attnlib.generators", "attnlib.models", "attnlib.training")
"""Code of these counts by the module, with what it imports of them; any other by the function or class."""

LOOP = "attnlib.training.loop"

_LIBRARIES = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


class Unreadable(ValueError):
    """Something that decides a model cannot be read, so that the model cannot be known again."""


def fingerprint_parts(
    model: nn.Module,
    batches: Callable[[int], Any],
    loss: Callable[..., Any],
    plan: Plan,
    *,
    valid: Sequence[Any] | None = None,
    score: Callable[..., Any] | None = None,
    hooks: Iterable[Any] = (),
) -> dict[str, str]:
    """What decides a trained model, part by part, each as a hash.

    Everything counts by its content (see `digest`), and its code with it.

    Args:
        model: counts by class, settings and weights, also by which of them learn.
        batches: counts by what it holds: settings, seeds, the samples that it draws from. None is drawn.
        loss: counts by what it holds.
        plan: counts by its settings; the device by its type.
        valid: what the model is scored on.
        score: counts as `loss` does.
        hooks: those that keep files count, by what they say of themselves: their attribute `asked`.

    Returns:
        `model`, `data`, `valid`, `plan`, `loss`, `score`, `kept`: what was asked for; `code` and `versions`:
        what carried it out.

    Raises:
        Unreadable: there is no telling what one of them holds.
    """
    classes = sorted({type(part) for part in model.modules()}, key=named)
    modules = {LOOP}
    asked = {
        "model": [_model(model), classes],
        "data": batches,
        "valid": valid,
        "plan": plan.settings(),
        "loss": loss,
        "score": score,
        "kept": [hook for hook in hooks if hasattr(hook, "asked")],
    }
    parts = {name: digest(value, modules) for name, value in asked.items()}
    reached = modules_reached(modules).items()
    code = {name: _said(file, file.stat().st_mtime_ns) for name, file in reached if name.startswith(ROOMS)}
    return parts | {"code": digest(code), "versions": digest(_versions(classes))}


def digest(value: Any, modules: set[str] | None = None) -> str:
    """The SHA-256 of what a value holds, the same in every process.

    Args:
        value: tensors, arrays, plain values, dataclasses, mappings, sequences and functions of them, and
            whatever says by an attribute `asked` what it is. Functions count by what they enclose, and by
            name; those that stand outside of `ROOMS` also by their code, and that of what they use.
        modules: takes up those of `ROOMS` that functions and classes are from, for their code to count too.

    Raises:
        Unreadable: it holds something else.
    """
    return _Reading(modules if modules is not None else set()).digest(value)


@dataclasses.dataclass(frozen=True)
class _Reading:
    modules: set[str]
    seen: set[int] = dataclasses.field(default_factory=set)

    def digest(self, value: Any) -> str:
        total = hashlib.sha256()
        for part in self.parts(value):
            total.update(part)
        return total.hexdigest()

    def parts(self, value: Any) -> Iterator[Any]:
        value = inspect.unwrap(value) if callable(value) else value
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, PurePath)):
            yield f"{type(value).__name__} {value!r};".encode()
        elif isinstance(value, torch.Tensor):
            value = value.detach().cpu().contiguous()
            yield f"tensor {value.dtype} {tuple(value.shape)};".encode()
            yield value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b""
        elif isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
            yield f"array {value.dtype} {value.shape};".encode()
            yield np.ascontiguousarray(value).tobytes()
        elif isinstance(value, (torch.device, torch.dtype, types.EllipsisType)):
            yield f"{value};".encode()
        elif isinstance(value, Mapping):
            pairs = sorted((self.digest(key), self.digest(each)) for key, each in value.items())
            yield f"mapping {pairs};".encode()
        elif isinstance(value, (list, tuple)):
            yield f"sequence {len(value)}(".encode()
            yield from (part for each in value for part in self.parts(each))
            yield b")"
        elif isinstance(value, (set, frozenset)):
            yield from self.parts(sorted(self.digest(each) for each in value))
        elif isinstance(value, functools.partial):
            yield from self.parts((value.func, value.args, value.keywords))
        elif isinstance(value, types.MethodType):
            yield from self.parts((value.__func__, value.__self__))
        elif isinstance(value, type | types.BuiltinFunctionType):
            yield from self.code(value)
        elif isinstance(value, types.FunctionType):
            try:
                enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
            except ValueError as error:
                raise Unreadable(f"{named(value)} encloses something not yet defined") from error
            yield from self.parts((value.__defaults__, value.__kwdefaults__))
            yield from self.code(value)
            yield from self.parts(enclosed)
        elif hasattr(value, "asked"):
            yield from self.parts((type(value), value.asked))
        elif dataclasses.is_dataclass(value):
            fields = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
            yield from self.parts((type(value), fields))
        else:
            raise Unreadable(f"there is no telling by content what a {named(type(value))} holds")

    def code(self, value: Any) -> Iterator[Any]:
        """A function or class by its name, and by its code: by its module, or as it stands here."""
        yield f"{named(value)};".encode()
        if in_rooms := f"{value.__module__}.".startswith(tuple(f"{room}." for room in ROOMS)):
            self.modules.add(value.__module__)
        by_module = in_rooms and "<lambda>" not in value.__qualname__
        if by_module or id(value) in self.seen or not is_own(value):
            return
        self.seen.add(id(value))
        if isinstance(value, types.FunctionType):
            yield from self.used(value.__code__, value.__globals__, value.__doc__)
            return
        yield from self.parts([each for each in value.__mro__[1:] if is_own(each)])
        for name, member in sorted(vars(value).items()):
            inner = getattr(member, "fget", None) or getattr(member, "func", member)  # of properties
            inner = inspect.unwrap(inner) if callable(inner) else inner
            made = isinstance(inner, types.FunctionType) and inner.__code__.co_filename == "<string>"
            if isinstance(inner, types.FunctionType | bool | int | float | tuple) and not made:
                yield from self.parts((name, inner))

    def used(self, code: types.CodeType, around: Mapping[str, Any], docstring: str | None) -> Iterator[Any]:
        """Code less its docstring, and what it uses that is defined outside of it."""
        yield code.co_code
        constants = [each for each in code.co_consts if docstring is None or each != docstring]
        yield from self.parts([each for each in constants if not isinstance(each, types.CodeType)])
        loaded = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
        for name in code.co_names:
            yield f"{name};".encode()
            if name in loaded or name in sys.modules:  # in a function: import name
                value = around.get(name) if name in loaded else sys.modules[name]
                yield from self.outside(value, code.co_names)
        for each in constants:
            if isinstance(each, types.CodeType):
                yield from self.used(each, around, None)

    def outside(self, value: Any, names: Iterable[str]) -> Iterator[Any]:
        """What code uses of a name that it has from its module, where it also names `names`."""
        if isinstance(value, types.ModuleType):
            if is_own(value) and id(value) not in self.seen:
                self.seen.add(id(value))
                for each in names:
                    yield from self.outside(vars(value).get(each), names)
        elif is_own(value) or not isinstance(value, type | types.FunctionType | np.ufunc):
            yield from self.parts(value)


def named(thing: Any) -> str:
    """The module and name of a function or class."""
    return f"{thing.__module__}.{thing.__qualname__}"


def is_own(thing: Any) -> bool:
    """Whether a function, class or module is ours or the reader's, such as a notebook's, and no library's."""
    name = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", None) or ""
    if name.partition(".")[0] in (*PACKAGES, "__main__"):
        return True
    file = getattr(sys.modules.get(name), "__file__", None) or sys.executable
    return file != sys.executable and not any(
        Path(file).resolve().is_relative_to(folder) for folder in _LIBRARIES
    )


@functools.cache
def _said(file: Path, changed: int) -> str:
    """What a file says, less docstrings, comments and layout."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return digest(ast.dump(tree))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def _model(model: nn.Module) -> list[Any]:
    """A model by class, settings, weights, and which of them learn.

    Settings do not say all: a Hugging Face model also has its kernel of attention, and a module without a
    `config` says some of its own in its `repr` (the probability of dropout, say).
    """
    settings = config_of(model)
    settings.pop("_name_or_path", None)  # where it was read from: the weights themselves count
    kernel = getattr(getattr(model, "config", None), "_attn_implementation", None)
    learns = [(name, weight.requires_grad) for name, weight in model.named_parameters()]
    return [settings, kernel, repr(model), learns, dict(model.state_dict())]


_distributions = functools.cache(packages_distributions)  # reads every package's list of files


def _versions(classes: Iterable[type]) -> dict[str, str]:
    """The versions of torch, and of the libraries that a model's classes are from."""
    found = {}
    for library in sorted(
        {"torch"} | {each.__module__.split(".")[0] for each in classes if not is_own(each)}
    ):
        for package in _distributions().get(library, [library]):
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                found[package] = "unknown"
    return found
