r"""Gradient measures: how the score of a prediction changes with the input embeddings.

With `e_k` the input embedding of token `k`, `b_k` that of a baseline and `s` the prediction's score as a
function of the embeddings (`attnlib.attribution.prompts`; positions stay as they are):

    gradient x embedding    e_k . d s / d e_k
    gradient norm           || d s / d e_k ||_2
    integrated gradients    (e_k - b_k) . integral_0^1 d s / d e_k (b + a (e - b)) da

The first is the first-order estimate of how much `s` would fall if `e_k` went to zero; the second is the
steepest slope of `s` at `e_k`, in any direction. Each takes one forward and one backward pass. The third sums
to `s(e) - s(b)` over tokens (completeness). Its integral is computed by Gauss-Legendre quadrature, which is
exact for polynomials up to degree `2 steps - 1` in `a`. Norms before every block make `s` turn again and
again near a baseline of zero, at scales that shrink with every layer: in SmolLM2, of 30 layers, neither the
sum nor the ranking has settled at 300 steps. Compare the sum with `s(e) - s(b)` before reading the scores.

References:
    Shrikumar et al. 2016, *Not just a black box*: gradient x input. Denil et al. 2014, *Extraction of salient
    sentences from labelled documents*: for words. Simonyan et al. 2014, *Deep inside convolutional networks*:
    the size of the gradient; the measure that Abnar and Zuidema 2020 compare rollout with. Sundararajan, Taly
    and Yan 2017, *Axiomatic attribution for deep networks*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attribution.assumptions import check_assumption, hands_gradients_on
from attnlib.attribution.prompts import Prompts, check_token, measure
from attnlib.attribution.stream import (
    Stream,
    differentiating,
    embedding_of,
    gradient_of,
    passing,
    slopes,
    stream_of,
)
from attnlib.checks import check_at_least
from attnlib.models.attention.forward import logits_of

Scores = Float[Tensor, "batch key"]


@measure
def gradient_x_embedding(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """Gradient x embedding, in nats; positive for tokens that speak for the target."""
    return _slopes(model, prompts.ids, [prompts], _along)[0]


@measure
def gradient_norm(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """The Euclidean norm of the gradient, in nats per unit of embedding; never negative.

    (The gradient's sum over channels would be 0 in a model whose first layer takes the mean off.)
    """
    return _slopes(model, prompts.ids, [prompts], _size)[0]


def _along(embedded: Stream, gradient: Stream) -> Scores:
    return (gradient * embedded).sum(-1)


def _size(embedded: Stream, gradient: Stream) -> Scores:
    return gradient.norm(dim=-1)


def _slopes(
    model: nn.Module,
    ids: Int[Tensor, "batch token"],
    asked: Sequence[Prompts],
    read: Callable[[Stream, Stream], Scores],
) -> list[Scores]:
    check_assumption(model, hands_gradients_on)
    return [read(*found) for found in slopes(model, ids, asked)]


gradient_x_embedding.of_text = partial(_slopes, read=_along)  # type: ignore[attr-defined]
gradient_norm.of_text = partial(_slopes, read=_size)  # type: ignore[attr-defined]


@measure
@torch.inference_mode(False)  # inference mode rules out differentiation
def integrated_gradients(
    model: nn.Module,
    prompts: Prompts,
    *,
    steps: int = 20,
    baseline: int | None = None,
    batch_size: int = 10,
) -> Float[Tensor, "batch key"]:
    """Integrated gradients, in nats; positive for tokens that speak for the target.

    The `baseline` is a token that stands at every position; embeddings of zero by default.
    """
    check_at_least(1, steps=steps)
    check_assumption(model, hands_gradients_on)
    ids, count = prompts.ids.clone(), len(prompts.ids)
    embedded, logits = stream_of(model, ids, prompts.query)
    start = torch.zeros_like(embedded[:1, :1])
    if baseline is not None:
        check_token(model, "baseline", baseline)
        start = embedding_of(model)(torch.full_like(ids[:1, :1], baseline)).detach()
    away, aimed = embedded - start, prompts.aimed(logits)
    exact = torch.promote_types(away.dtype, torch.float32)  # half precision has no node close to the baseline
    nodes, weights = (
        torch.as_tensor(each, dtype=exact, device=away.device)
        for each in np.polynomial.legendre.leggauss(steps)
    )
    nodes, weights = (1 + nodes) / 2, weights / 2  # from [-1, 1] to [0, 1]
    mean = torch.zeros_like(away, dtype=exact)
    points = torch.arange(steps * count, device=away.device)  # on the lines of all prompts, step by step
    for some in points.split(batch_size):
        step, row = some // count, some % count
        point = (start + nodes[step, None, None] * away[row]).to(away.dtype).requires_grad_()
        with differentiating(model), passing(model, partial(_instead, point)):
            logits = logits_of(model, ids[row], start=prompts.query)[:, 0]
            score = aimed.rows(row.tolist()).score(logits).sum()
            gradient = gradient_of(model, score, point)
        mean.index_add_(0, row, weights[step, None, None] * gradient.to(mean.dtype))
    return (mean * away).sum(-1)


def _instead(point: Tensor, embedded: Tensor) -> Tensor:
    return point.clone()  # some models change it in place
