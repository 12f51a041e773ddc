"""Where models compute: devices by their names, and what a model reads, brought to where it takes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.generators.base import moved


def pick_device(name: str | torch.device = "auto", *, here: bool = True) -> torch.device:
    """The device of a name of torch's; "auto" is the first of cuda (NVIDIA, AMD), mps (Apple) and cpu.

    It has to be there, unless `here` is False: another machine may be meant.
    """
    there = list(_there())
    if name == "auto":
        return torch.device(there[0])
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise ValueError("it computes no numbers")
        if here:
            torch.empty(0, device=device)
    except Exception as error:  # each kind of device refuses in its own way
        raise ValueError(
            f"device should be auto, or one that is here ({', '.join(there)}); got {name!s:.40}"
        ) from error
    return device


def _there() -> Iterator[str]:
    """The devices that there are, best first."""
    for index in range(torch.cuda.device_count()):
        yield f"cuda:{index}" if index else "cuda"
    if torch.backends.mps.is_available():
        yield "mps"
    yield "cpu"


def device_of(model: nn.Module) -> torch.device | None:
    """Where a model takes its tokens: the device of their embedding, or of its first weights; None if none.

    Of a model whose weights are offloaded, it is the device that they are brought to when they are needed.
    """
    embedding = getattr(model, "get_input_embeddings", lambda: None)
    try:
        first = [embedding()]
    except NotImplementedError:
        first = []
    for module in [*(each for each in first if isinstance(each, nn.Module)), *model.modules()]:
        # accelerate's, which also brings what a module reads to where it computes
        device = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
        if device is not None:
            return torch.device(device)
        for weight in module.parameters(recurse=False):
            if weight.device.type != "meta":
                return weight.device
    return None


def brought(model: nn.Module, *given: Any) -> tuple[Any, ...]:
    """What a model is to read: tensors on the device where it takes them, and the rest as it is."""
    device = device_of(model)
    return tuple(
        moved(each, device) if device is not None and isinstance(each, Tensor) else each for each in given
    )


def brought_by_name(model: nn.Module, given: dict[str, Any]) -> dict[str, Any]:
    """The same of what is given by name."""
    return dict(zip(given, brought(model, *given.values()), strict=True))
