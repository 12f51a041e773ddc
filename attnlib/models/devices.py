"""Choose devices by name, and move a model's inputs to the device where the model expects them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.generators.base import moved


def pick_device(name: str | torch.device = "auto", *, here: bool = True) -> torch.device:
    """The device with torch's name `name`; "auto" is the first available of cuda (NVIDIA, AMD), mps and cpu.

    A device that is not available here raises a `ValueError`, unless `here` is False (for another machine).
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
    """The names of available devices, best first."""
    for index in range(torch.cuda.device_count()):
        yield f"cuda:{index}" if index else "cuda"
    if torch.backends.mps.is_available():
        yield "mps"
    yield "cpu"


def device_of(model: nn.Module) -> torch.device | None:
    """The device where a model expects its tokens: that of its embedding, or else of its first weights.

    If the weights are offloaded, this is the device to which they are moved for use. None without weights.
    """
    embedding = getattr(model, "get_input_embeddings", lambda: None)
    try:
        first = [embedding()]
    except NotImplementedError:
        first = []
    for module in [*(each for each in first if isinstance(each, nn.Module)), *model.modules()]:
        # accelerate's hook, which also moves a module's inputs to the device where it computes
        device = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
        if device is not None:
            return torch.device(device)
        for weight in module.parameters(recurse=False):
            if weight.device.type != "meta":
                return weight.device
    return None


def brought(model: nn.Module, *given: Any) -> tuple[Any, ...]:
    """The inputs of a model, with tensors moved to the device where the model expects them."""
    device = device_of(model)
    return tuple(
        moved(each, device) if device is not None and isinstance(each, Tensor) else each for each in given
    )


def brought_by_name(model: nn.Module, given: dict[str, Any]) -> dict[str, Any]:
    """As `brought`, for inputs that are given by name."""
    return dict(zip(given, brought(model, *given.values()), strict=True))
