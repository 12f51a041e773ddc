"""The least memory and time that parameters need: errors and warnings before anything is computed.

No result depends on this module: only the checks of parameters use it, and records do not include them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

log = logging.getLogger(__name__)

SPEED = 5e10
"""Approximate operations per second of one core of a laptop, with matrices of a few hundred rows."""

LONG = 24 * 3600
"""Seconds of training per model above which a warning is logged."""

LONG_STEP = 60
"""Seconds per step above which a warning is logged: the progress bar does not move during a step."""

MANY = 1_000_000
"""Number of samples of one kind above which a warning is logged: ten times the largest profile's."""

WITHOUT_BF16 = ("NO AVX", "AVX2")
"""Torch's names of processors without matrix products in bf16: torch computes these one by one, 20 to 70
times slower than in float32 (copying at the study's size: 24 times, 11.6 seconds a step instead of .49)."""

_SAMPLES = ("samples", "problems", "sentences", "documents", "sequences", "questions")


def refuse_too_large(p: Any, memory: int | None = None) -> None:
    """Raise a ValueError for parameters that cannot fit into memory, and warn where a run takes long."""
    if not is_here():
        return
    memory = memory or memory_here(p.torch_device)
    parts = bytes_of(p)
    if p.torch_device.type != "cpu":
        del parts["for samples"]  # samples stay in the machine's memory
    if sum(parts.values()) > memory:
        listed = ", ".join(
            f"{what} {size / 1e9:,.0f} GB" for what, size in parts.items() if size > memory / 10
        )
        raise ValueError(
            f"these sizes should fit into {memory / 1e9:,.0f} GB of memory; got, at the least, {listed}. "
            f"Make smaller what they come from: {', '.join(_asked_for(p))}"
        )
    seconds, steps = operations(p) / SPEED, _first(p, "steps") or 1
    if seconds > LONG and p.torch_device.type == "cpu":
        log.warning("each model takes about %.1f days on one core; a GPU is faster", seconds / 86_400)
    elif seconds / steps > LONG_STEP and p.torch_device.type == "cpu":
        log.warning("each step takes about %.0f minutes on one core; a GPU is faster", seconds / steps / 60)
    if _in_bf16_without(p):
        log.warning("this processor has no bf16: it multiplies 20 times faster with -p precision float32")
    if many := [f"{name} {value:,}" for name, value in _samples(p).items() if value > MANY]:
        log.warning("%s: to draw so many takes minutes, before training begins", ", ".join(many))


@contextmanager
def unsaid() -> Iterator[None]:
    """Silence this module's warnings in a `with` block, for parameters that will not run (as of records)."""
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False


_HERE = True


@contextmanager
def of_another_machine() -> Iterator[None]:
    """Skip the checks of this machine's memory, speed and GPU inside a `with` block."""
    global _HERE
    _HERE = False
    try:
        yield
    finally:
        _HERE = True


def is_here() -> bool:
    """Whether parameters are checked for a run on this machine."""
    return _HERE


def bytes_of(p: Any) -> dict[str, int]:
    """The least memory that a chapter needs, in bytes by purpose; sizes that its recipes set do not count."""
    samples = sum(_samples(p).values())
    heads, length = _first(p, "n_heads"), _first(p, "length") or 1
    rows = _first(p, "batch_size") * length
    return {
        # 4 bytes each, for a weight, its gradient and the two moments of Adam
        "for weights": 16 * weights(p),
        # activations that the backward pass needs
        "for the attention of a batch": 4 * _first(p, "n_layers") * heads * rows * length,
        "for the vectors of a batch": 4 * _depth(p) * rows * _width(p),
        "for samples": 8 * samples * length,
    }


def _in_bf16_without(p: Any) -> bool:
    """Whether bf16 is requested on a processor without bf16."""
    asked = getattr(p, "precision", "") == "bf16" and p.torch_device.type == "cpu"
    return asked and torch.backends.cpu.get_cpu_capability() in WITHOUT_BF16


def _samples(p: Any) -> dict[str, int]:
    return {name: value for name, value in p if name.endswith(_SAMPLES) and isinstance(value, int)}


def weights(p: Any) -> int:
    """A lower bound of the number of weights in the layers of a chapter's model."""
    width = _width(p)
    return _depth(p) * width * (4 * width + 2 * (_first(p, "ff_width") or 2 * width))


def operations(p: Any) -> int:
    """The operations of one training: per weight and row of a batch two forwards and four backwards."""
    return 6 * weights(p) * _first(p, "batch_size") * (_first(p, "length") or 1) * _first(p, "steps")


def memory_here(device: torch.device) -> int:
    """The memory of a device in bytes; a processor and Apple's GPU have the memory of the machine."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _width(p: Any) -> int:
    return _first(p, "width", "hidden")


def _depth(p: Any) -> int:
    return _first(p, "n_layers", "layers") or 1


def _first(p: Any, *names: str) -> int:
    """The value of the first of these parameters that the chapter has; 0 if it has none."""
    return next((getattr(p, name) for name in names if name in type(p).model_fields), 0)


def _asked_for(p: Any) -> list[str]:
    """The parameters that determine the sizes, with their values."""
    known = ("n_layers", "layers", "n_heads", "width", "hidden", "ff_width", "length", "batch_size")
    names = [name for name in type(p).model_fields if name in known or name.endswith(_SAMPLES)]
    return [f"{name} {getattr(p, name):,}" for name in names if isinstance(getattr(p, name), int)]
