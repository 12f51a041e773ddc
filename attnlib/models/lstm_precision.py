"""LSTMs under autocast: in its precision where the processor can, in single precision where it cannot."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch


def lstm_precision(device: torch.device) -> AbstractContextManager[object]:
    """What to compute an LSTM in: on a processor without one in autocast's precision, autocast is off.

    oneDNN has LSTMs in bf16 on processors with AVX-512 only, and raises an error on others.
    """
    dtype = torch.get_autocast_dtype(device.type)
    if device.type != "cpu" or not torch.is_autocast_enabled("cpu") or _on_cpu(dtype):
        return nullcontext()
    return torch.autocast("cpu", enabled=False)


@cache
def _on_cpu(dtype: torch.dtype) -> bool:
    """Whether torch has an LSTM in this precision on this processor: asked by trying."""
    # Not by `nn.LSTM`, which would draw weights, and so change all that is drawn after.
    one, gates = torch.zeros(1, 1, 1), torch.zeros(4, 1)
    weights = [gates, gates, gates[:, 0], gates[:, 0]]
    try:
        with torch.autocast("cpu", dtype):
            torch.lstm(one, (one, one), weights, True, 1, 0.0, False, False, False)
    except RuntimeError:
        return False
    return True
