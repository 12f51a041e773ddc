"""Random numbers of a seed, which touch no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Inside a `with` block torch draws from this seed; after it, all of its generators are as they were.

    Args:
        seed: what `torch.manual_seed` takes: the numbers are those that it would give.
        device: where is drawn. For "cpu", as initial weights are, no GPU's generator is touched.

    Example:
        >>> with seeded(0):
        ...     drawn = torch.rand(3)
        >>> bool((drawn == torch.rand(3, generator=torch.Generator().manual_seed(0))).all())
        True
    """
    on_cpu = torch.device(device).type == "cpu"
    gpus = [] if on_cpu else range(torch.cuda.device_count())
    with torch.random.fork_rng(gpus):
        (torch.default_generator if on_cpu else torch).manual_seed(seed)
        yield
