"""A hash of what something holds: tensors by their numbers, dataclasses by their fields, in any process."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import types
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

from attnlib.training.definitions import Unreadable


def digest(value: Any) -> str:
    """The SHA-256 of what a value holds, the same in every process.

    Args:
        value: tensors, arrays, plain values, and dataclasses, mappings, sequences and functions of them.
            Functions count by name and by what they enclose; their code, `definitions.reached` reads.

    Raises:
        Unreadable: it holds something else.
    """
    total = hashlib.sha256()
    for part in _parts(value):
        total.update(part)
    return total.hexdigest()


def _parts(value: Any) -> Iterator[Any]:
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, PurePath)):
        yield f"{type(value).__name__} {value!r};".encode()
    elif isinstance(value, torch.Tensor):
        value = value.detach().cpu().contiguous()
        yield f"tensor {value.dtype} {tuple(value.shape)};".encode()
        yield value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b""
    elif isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
        yield f"array {value.dtype} {value.shape};".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, (torch.device, torch.dtype)):
        yield f"{value};".encode()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield f"{named(type(value))}(".encode()
        for field in dataclasses.fields(value):
            yield f"{field.name}=".encode()
            yield from _parts(getattr(value, field.name))
        yield b")"
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}(".encode()
        yield from (part for pair in value.items() for each in pair for part in _parts(each))
        yield b")"
    elif isinstance(value, (list, tuple)):
        yield f"sequence {len(value)}(".encode()
        yield from (part for each in value for part in _parts(each))
        yield b")"
    elif isinstance(value, (set, frozenset)):
        yield from _parts(sorted(digest(each) for each in value))
    elif isinstance(value, type | types.BuiltinFunctionType):
        yield f"{named(value)};".encode()
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, value.keywords))
    elif isinstance(value, types.MethodType):
        yield from _parts((value.__func__, value.__self__))
    elif isinstance(value, types.FunctionType):
        value = inspect.unwrap(value)
        yield f"function {named(value)};".encode()
        try:
            enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
        except ValueError as error:
            raise Unreadable(f"{named(value)} encloses something not yet defined") from error
        yield from _parts((value.__defaults__, value.__kwdefaults__, *enclosed))
    else:
        raise Unreadable(f"there is no telling by content what a {named(type(value))} holds")


def named(thing: Any) -> str:
    """The module and name of a function or class."""
    return f"{thing.__module__}.{thing.__qualname__}"


def types_within(value: Any) -> Iterator[Any]:
    """The functions and classes whose code a value brings along: its own, and those of what it holds."""
    if isinstance(value, (types.FunctionType, type)):
        value = inspect.unwrap(value)
        yield value
        for cell in getattr(value, "__closure__", None) or ():
            yield from types_within(cell.cell_contents)
    elif isinstance(value, functools.partial):
        yield from types_within([value.func, *value.args, *value.keywords.values()])
    elif isinstance(value, types.MethodType):
        yield from types_within([value.__func__, value.__self__])
    elif isinstance(value, Mapping):
        yield from types_within(list(value.values()))
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from types_within(each)
    elif dataclasses.is_dataclass(value):
        yield type(value)
        for field in dataclasses.fields(value):
            yield from types_within(getattr(value, field.name))
