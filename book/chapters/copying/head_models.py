"""Attention heads as initial weights, and copiers put together from them.

Source: Snell, Zhong, Klein and Steinhardt 2021, section 5.2, and the authors' multihead.py: a head is a map
from a decoder's state to its query, and one from what attention finds to the context. Everything else (ids'
vectors, encoder, decoder, output) is the base, and begins alike in all models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from attnlib.models.base import seeded
from attnlib.models.copier import Copier, CopierConfig


def initial_head(config: CopierConfig, seed: int) -> dict[str, Tensor]:
    """The weights that one head begins with, by the names that `Copier` has for them.

    Args:
        config: settings of the models that it is for.
        seed: what it is drawn by, alone: in every model the same.
    """
    with seeded(seed):
        maps = {
            "to_query": nn.Linear(config.hidden, config.both),
            "to_context": nn.Linear(config.both, config.hidden),
        }
    return {
        f"{name}_{kind}": weight for name, each in maps.items() for kind, weight in each.state_dict().items()
    }


def copier_of(config: CopierConfig, base: int, heads: Sequence[Sequence[int]]) -> Copier:
    """Models side by side, on the same base, with chosen heads.

    Args:
        config: settings; its seeds and its number of heads do not count.
        base: what all but the heads is drawn by.
        heads: of each model, what its heads are drawn by.

    Raises:
        ValueError: there are no models, or they differ in how many heads they have.
    """
    counts = {len(each) for each in heads}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(
            f"all models should have equally many heads, at least 1; got {[len(each) for each in heads]}"
        )
    model = Copier(replace(config, seeds=(base,) * len(heads), n_heads=counts.pop()))
    drawn = {seed: initial_head(config, seed) for each in heads for seed in each}
    with torch.no_grad():
        for name in next(iter(drawn.values())):
            stacked = [torch.stack([drawn[seed][name] for seed in each]) for each in heads]
            getattr(model, name).copy_(torch.stack(stacked))
    return model
