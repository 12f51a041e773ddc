"""What a measure of attribution has to beat: rankings of tokens that know nothing of the model.

They have the signature of the measures, so that they stand in the same tables.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlib.attribution.prompts import Method, Prompts, measure


@measure
def even(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """The same for every token: what is ranked by it gets what chance gets."""
    return torch.ones_like(prompts.ids, dtype=torch.float32)


@measure
def nearest(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """The nearer to the query, the more."""
    places = torch.arange(prompts.ids.shape[1], device=prompts.ids.device)
    return (prompts.ids.shape[1] - (places - prompts.query).abs()).float().expand(prompts.ids.shape)


@measure
def earliest(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """The nearer to the beginning, the more."""
    n = prompts.ids.shape[1]
    return torch.arange(n, 0, -1, device=prompts.ids.device).float().expand(prompts.ids.shape)


@measure
def random(model: nn.Module, prompts: Prompts, *, seed: int = 0) -> Float[Tensor, "batch key"]:
    """Numbers from 0 to 1, the same whenever prompts of the same tokens, in any order, are asked about."""
    generator = torch.Generator().manual_seed(seed + int(prompts.ids.sum()) + prompts.query)
    return torch.rand(prompts.ids.shape, generator=generator).to(prompts.ids.device)


BASELINES: dict[str, Method] = {
    "even attention": even,
    "random order": random,
    "nearest first": nearest,
    "earliest first": earliest,
}
"""By name."""
