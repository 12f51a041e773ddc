"""What a trained model is kept under: a hash of all that went into it, taken from the things themselves."""

from __future__ import annotations

import ast
import dataclasses
import dis
import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import decode_source
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from torch import nn

from attnlib.models.base import config_of
from attnlib.training.closure import PACKAGES, is_library, modules_reached
from attnlib.training.plan import Plan

ROOMS = ("attnlib.generators", "attnlib.models", "attnlib.training")
"""Code of these counts by the module, with what it imports of them; any other by the function or class."""

LOOP = "attnlib.training.loop"

_PLAIN = (bool, int, float, str, type(None))

_TOLD = (*_PLAIN, tuple, types.FunctionType, types.BuiltinFunctionType)
"""What of a library's module is a setting, and no cache or reference of its own."""

_HELD = (
    str
    | bytes
    | list
    | dict
    | set
    | frozenset
    | np.ndarray
    | torch.Tensor
    | functools.partial
    | type
    | types.BuiltinFunctionType
    | torch.dtype
    | torch.device
)
"""What a class may hold under a name of its own, beside its methods and numbers."""


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
        try:
            self.add(total, value)
        except RecursionError as error:
            raise Unreadable("something holds itself: an inner function that calls itself, say") from error
        return total.hexdigest()

    def add(self, total: Any, value: Any) -> None:
        """Update a hash by what a value holds."""
        value = _unwrapped(value)
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, PurePath)):
            total.update(f"{type(value).__name__} {value!r};".encode())
        elif isinstance(value, torch.Tensor):
            value = value.detach().cpu().contiguous()
            total.update(f"tensor {value.dtype} {tuple(value.shape)};".encode())
            total.update(value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b"")
        elif isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
            total.update(f"array {value.dtype} {value.shape};".encode())
            total.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, (torch.device, torch.dtype, types.EllipsisType)):
            total.update(f"{value};".encode())
        elif isinstance(value, Mapping):
            pairs = sorted((self.digest(key), self.digest(each)) for key, each in value.items())
            total.update(f"mapping {pairs};".encode())
        elif isinstance(value, (list, tuple)) and all(type(each) in _PLAIN for each in value):
            total.update(f"plain {list(value)!r};".encode())
        elif isinstance(value, (list, tuple)):
            total.update(f"sequence {len(value)}(".encode())
            for each in value:
                self.add(total, each)
            total.update(b")")
        elif isinstance(value, (set, frozenset)):
            self.add(total, sorted(self.digest(each) for each in value))
        elif isinstance(value, functools.partial):
            self.add(total, (value.func, value.args, value.keywords))
        elif isinstance(value, types.MethodType):
            self.add(total, (value.__func__, value.__self__))
        elif isinstance(value, types.BuiltinFunctionType) and not isinstance(
            value.__self__, types.ModuleType | None
        ):
            self.add(total, (value.__name__, value.__self__))
        elif isinstance(value, type | types.BuiltinFunctionType):
            self.add_code(total, value)
        elif isinstance(value, types.FunctionType):
            try:
                enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
            except ValueError as error:
                raise Unreadable(f"{named(value)} encloses something not yet defined") from error
            self.add(total, (value.__defaults__, value.__kwdefaults__))
            self.add_code(total, value)
            self.add(total, enclosed)
        elif hasattr(value, "asked"):
            self.add(total, (type(value), value.asked))
        elif dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            self.add(total, (type(value), names, [getattr(value, name) for name in names]))
        else:
            raise Unreadable(f"there is no telling by content what a {named(type(value))} holds")

    def add_code(self, total: Any, value: Any) -> None:
        """A function or class by its name, and by its code: by its module, or as it stands here."""
        total.update(f"{named(value)};".encode())
        if id(value) in self.seen:
            return
        self.seen.add(id(value))
        if in_rooms := f"{_home(value)}.".startswith(tuple(f"{room}." for room in ROOMS)):
            self.modules.add(_home(value))
        if (in_rooms and "<lambda>" not in value.__qualname__) or not is_own(value):
            return
        if isinstance(value, types.FunctionType):
            self.add_used(total, value.__code__, value.__globals__, value.__doc__)
            return
        self.add(total, [each for each in value.__mro__[1:] if is_own(each)])
        for name, member in sorted(vars(value).items()):
            inner = getattr(member, "fget", None) or member  # of properties
            inner = inner.func if isinstance(inner, functools.cached_property) else inner
            inner = inner.__func__ if isinstance(inner, classmethod | staticmethod) else inner
            if isinstance(inner, functools.partialmethod):
                inner = (inner.func, inner.args, inner.keywords)
            inner = _unwrapped(inner)
            made = isinstance(inner, types.FunctionType) and inner.__code__.co_filename == "<string>"
            told = types.FunctionType | bool | int | float | tuple
            held = isinstance(inner, told if name.startswith("__") else told | _HELD)
            if (held or (dataclasses.is_dataclass(inner) and not name.startswith("__"))) and not made:
                self.add(total, (name, inner))

    def add_used(self, total: Any, code: types.CodeType, around: Mapping[str, Any], doc: str | None) -> None:
        """Code less its docstring, and what it uses that is defined outside of it."""
        total.update(code.co_code)
        constants = [each for each in code.co_consts if doc is None or each != doc]
        self.add(total, [each for each in constants if not isinstance(each, types.CodeType)])
        loaded = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
        for name in code.co_names:
            total.update(f"{name};".encode())
            if name in loaded or name in sys.modules:  # in a function: import name
                value = around.get(name) if name in loaded else sys.modules[name]
                self.add_outside(total, value, code.co_names)
        for each in constants:
            if isinstance(each, types.CodeType):
                self.add_used(total, each, around, None)

    def add_outside(self, total: Any, value: Any, names: Iterable[str]) -> None:
        """What code uses of a name that it has from its module, where it also names `names`."""
        if isinstance(value, types.ModuleType):
            if is_own(value) and id(value) not in self.seen:
                self.seen.add(id(value))
                for each in names:
                    self.add_outside(total, vars(value).get(each), names)
        elif is_own(value) or not isinstance(value, type | types.FunctionType | np.ufunc):
            self.add(total, value)


def named(thing: Any) -> str:
    """The module and name of a function or class."""
    return f"{thing.__module__}.{thing.__qualname__}"


def _home(thing: Any) -> Any:
    """The module that a function or class is from: of a wrapper its own, not that of what it wraps."""
    around = getattr(_unwrapped(thing), "__globals__", {})
    return around.get("__name__", getattr(thing, "__module__", None))


def _unwrapped(value: Any) -> Any:
    """What lies under the wrappers of libraries, which say nothing; a reader's own say something."""
    return inspect.unwrap(value, stop=_says_itself) if callable(value) else value


def _says_itself(value: Any) -> bool:
    file = getattr(getattr(value, "__code__", None), "co_filename", "<")
    return not file.startswith("<") and not is_library(Path(file))


def is_own(thing: Any) -> bool:
    """Whether a function, class or module is ours or the reader's, such as a notebook's, and no library's."""
    name = thing.__name__ if isinstance(thing, types.ModuleType) else _home(thing) or ""
    if name.partition(".")[0] in (*PACKAGES, "__main__"):
        return True
    file = getattr(sys.modules.get(name), "__file__", None) or sys.executable
    return file != sys.executable and not is_library(Path(file))


@functools.cache
def _said(file: Path, changed: int) -> str:
    """What a file says, less docstrings, comments and layout."""
    tree = ast.parse(decode_source(file.read_bytes()))
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return digest(ast.dump(tree))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def _model(model: nn.Module) -> list[Any]:
    """A model by class, settings, weights, and which of them learn.

    Settings do not say all: a Hugging Face model also has its kernel of attention, and some modules of ours
    say some in their `repr` (the probability of dropout). Where a module is a reader's, or the model has no
    settings, all modules are asked what else they hold.
    """
    settings = config_of(model)
    settings.pop("_name_or_path", None)  # where it was read from: the weights themselves count
    kernel = getattr(getattr(model, "config", None), "_attn_implementation", None)
    learns = [(name, weight.requires_grad) for name, weight in model.named_parameters()]
    told = settings and not any(_is_readers(type(part)) for part in model.modules())
    held = [] if told else [[(name, _holds(part)) for name, part in model.named_modules()]]
    return [settings, kernel, repr(model), *held, learns, dict(model.state_dict())]


def _is_readers(kind: type) -> bool:
    """Whether a class is a reader's own. The settings of ours are in their `config`."""
    return is_own(kind) and not f"{_home(kind)}.".startswith(tuple(f"{room}." for room in ROOMS))


def _holds(part: nn.Module) -> list[Any]:
    """What a module holds beside parameters and modules: settings, buffers that no file keeps, attributes.

    Of a reader's own every attribute (a scale, a function, a width); of others the plain ones and functions,
    which a `repr` need not say (of torch's attention the number of heads, say).
    """
    settings, readers = config_of(part), _is_readers(type(part))
    not_said = {*vars(nn.Module()), *(["config"] if settings else [])}
    attributes = {
        name: value
        for name, value in vars(part).items()
        if name not in not_said and (readers or isinstance(value, _TOLD))
    }
    kept_nowhere = {name: part.get_buffer(name) for name in sorted(part._non_persistent_buffers_set)}
    return [settings, attributes, kept_nowhere]


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
