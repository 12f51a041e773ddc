"""Position encodings: sines and cosines that are added, or angles that queries and keys are rotated by.

References:
    1) Vaswani et al. 2017, *Attention Is All You Need*, 3.5: sinusoidal positions.
    2) Su et al. 2021, *RoFormer: Enhanced Transformer with Rotary Position Embedding*, 3.2: rotary positions;
       scores depend only on the distance between query and key.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

BASE = 10000.0
"""The base of the geometric series of wavelengths, as in both papers and in Llama."""


def sinusoids(length: int, width: int) -> Float[Tensor, "length width"]:
    r"""Positions as sines and cosines of geometrically growing wavelengths (Vaswani et al. 2017, 3.5).

    $$P_{p,2i} = \sin(p / 10000^{2i/d}), \quad P_{p,2i+1} = \cos(p / 10000^{2i/d})$$

    with $p$ the position, counted from 0, $d$ the width and $i$ the pair of channels.
    """
    wavelengths = BASE ** (torch.arange(0, width, 2) / width)
    turns = torch.arange(length)[:, None] / wavelengths
    return torch.stack((turns.sin(), turns.cos()), dim=-1).flatten(1)


def angles(
    places: Int64[Tensor, "#batch token"], channels: int
) -> Float[Tensor, "#batch 1 token {channels//2}"]:
    r"""The angle of pair $i$ of $c$ channels at position $p$: $p\,\theta_i$, $\theta_i = 10000^{-2i/c}$."""
    pair = torch.arange(0, channels, 2, device=places.device).float()
    return places[:, None, :, None].float() * (1.0 / BASE ** (pair / channels))


def turned(
    x: Float[Tensor, "batch head token channel"], angle: Float[Tensor, "#batch 1 token pair"]
) -> Float[Tensor, "batch head token channel"]:
    r"""Queries or keys, each rotated by the angles of its position (Su et al. 2021, equation 34).

    $$\tilde x_i = x_i \cos p\theta_i - x_{i+c/2} \sin p\theta_i, \qquad
      \tilde x_{i+c/2} = x_{i+c/2} \cos p\theta_i + x_i \sin p\theta_i, \qquad i < c/2$$

    so that $\tilde q_m \cdot \tilde k_n$ depends on positions only by $m - n$. The channels of a pair are
    half a head apart, as in Llama; in the paper they are neighbours, which is another order of the channels.
    """
    first, second = x.chunk(2, dim=-1)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
