"""LSTMs under autocast: in autocast's precision if the device supports it, else in single precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch


def lstm_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context for computing an LSTM: autocast is off on a CPU without LSTMs in autocast's precision.

    oneDNN has LSTMs in bf16 on CPUs with AVX-512 only, and raises an error on others.
    """
    dtype = torch.get_autocast_dtype(device.type)
    if device.type != "cpu" or not torch.is_autocast_enabled("cpu") or _on_cpu(dtype):
        return nullcontext()
    return torch.autocast("cpu", enabled=False)


@cache
def _on_cpu(dtype: torch.dtype) -> bool:
    """Whether torch has an LSTM in this precision on this CPU, determined by trying one."""
    # Not by `nn.LSTM`, which would draw weights, and so change all random numbers drawn later.
    one, gates = torch.zeros(1, 1, 1), torch.zeros(4, 1)
    weights = [gates, gates, gates[:, 0], gates[:, 0]]
    try:
        with torch.autocast("cpu", dtype):
            torch.lstm(one, (one, one), weights, True, 1, 0.0, False, False, False)
    except RuntimeError:
        return False
    return True
