r"""Layer-wise relevance propagation through transformers, as gradient x embedding with another backward pass.

Relevance starts as the explained logit and is handed back from each operation's output to its inputs, so that
it is shared out, not created. In a linear map `y = W x + b`, input `i` gets what it contributed, `R_i = x_i
sum_j W_ji R_j / y_j`: with `R = x g` that is the chain rule, `g_i = sum_j W_ji g_j`. The following
operations are treated as linear, each by a rule of its own:

    norm              y = w (x - mean x) / c + b, with c, the deviation or root mean square, a constant
    activation        y = c x, with c = f(x) / x a constant
    product of two    y = u v: half of the gradient to each of `u` and `v`
    weight            a constant: a sigmoid, the weights of chosen experts
    softmax           its gradient (a Taylor expansion whose bias is left out)

(products of two: a gate and what it gates, attention and values, queries and keys), and token `k` gets
`e_k . g_k`. This is "AttnLRP". If the softmax's output is taken as a constant instead, queries and keys get
nothing, and values everything: "LRP, attention held constant" (the attention part of CP-LRP).

With attention held constant, all is linear, and a model without biases loses no relevance: its tokens' scores
sum to the logit. Biases, position embeddings and other added constants get their share, and AttnLRP's softmax
absorbs or adds some. All other operations of a model are differentiated as they are. Whether all relevance,
with the constants' share, arrives is tested once per model, on a short text.

LRP is defined for logits: without a foil, the target's logit is explained, not its log probability. With a
foil, the difference is the same for both.

The license of the authors' library grants no patent rights; check this before building a product on LRP.

References:
    Achtibat et al. 2024, *AttnLRP: attention-aware layer-wise relevance propagation for transformers*: the
    rules (section 3), and that they are gradients (appendix). Ali et al. 2022, *XAI for transformers: better
    explanations through conservative propagation*: norms and attention as constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attribution.assumptions import (
    alike,
    check_assumption,
    half_of_digits,
    hands_gradients_on,
    predicting,
    reads_nothing_else,
)
from attnlib.attribution.linearised import linearised, scaled
from attnlib.attribution.prompts import Prompts, measure
from attnlib.attribution.stream import differentiating, passing, slopes
from attnlib.models.attention.forward import logits_of
from attnlib.models.attention.inputs import Inputs, inputs_changed
from attnlib.undoing import scope

Scores = Float[Tensor, "batch key"]


@measure
def attn_lrp(model: nn.Module, prompts: Prompts) -> Scores:
    """AttnLRP, in units of the logit; positive for tokens that speak for the target."""
    return _relevance(model, prompts.ids, [prompts], _products)[0]


@measure
def attention_constant_lrp(model: nn.Module, prompts: Prompts) -> Scores:
    """LRP with attention held constant; unit and sign as in `attn_lrp`."""
    return _relevance(model, prompts.ids, [prompts], _weighted_sum)[0]


def _relevance(
    model: nn.Module,
    ids: Int[Tensor, "batch token"],
    asked: Sequence[Prompts],
    attention: Callable[..., Inputs],
) -> list[Scores]:
    check_assumption(model, reads_nothing_else)
    with rules(model), inputs_changed(model, attention):
        found = slopes(model, ids, asked, of=Prompts.margin)
    return [(embedded * gradient).sum(-1) for embedded, gradient in found]


def _products(query: Tensor, key: Tensor, value: Tensor) -> Inputs:
    """Attention as two products: half of the gradient goes to `V`, and a quarter to each of `Q` and `K`."""
    return scaled(query, 1 / 4), scaled(key, 1 / 4), scaled(value, 1 / 2)


def _weighted_sum(query: Tensor, key: Tensor, value: Tensor) -> Inputs:
    """Attention as a sum of values with constant weights."""
    return query.detach(), key.detach(), value


attn_lrp.of_text = partial(_relevance, attention=_products)  # type: ignore[attr-defined]
attention_constant_lrp.of_text = partial(_relevance, attention=_weighted_sum)  # type: ignore[attr-defined]


@scope
def rules(model: nn.Module, layer: int = 0) -> Iterator[None]:
    """Apply LRP's rules for norms, activations and gates to the backward pass of this thread's passes.

    Raises a `ValueError` if, on a short text, the rules change the logits, or do not hand all of a logit's
    relevance on to place `layer` of the stream and to the constants that are added.
    """
    check_assumption(model, hands_gradients_on)
    check_assumption(model, partial(_lost, layer), (_lost, layer))
    with linearised(model):
        yield


def _lost(layer: int, model: nn.Module, texts: Int[Tensor, "2 token"]) -> str | None:
    """The error message if a short text's logit loses relevance, with attention held constant, or None."""
    at, stream, constants = predicting(model, texts.shape[1]), list[Tensor](), list[Tensor]()

    def leaf(x: Tensor) -> Tensor:
        stream.append(x.detach().requires_grad_())
        return stream[0].clone()

    instead = 'Take a measure that differentiates it as it is, such as "gradient x embedding".'
    expected = logits_of(model, texts[:1], start=at)[0, 0]
    try:
        with differentiating(model), passing(model, leaf, layer):
            with linearised(model, constants), inputs_changed(model, _weighted_sum):
                logits = logits_of(model, texts[:1].clone(), start=at)[0, 0]
            leaves = [stream[0], *constants]
            gradients = torch.autograd.grad(logits.max(), leaves, allow_unused=True)
    except RuntimeError as error:
        return f"LRP's rules cannot be applied to {type(model).__name__} ({error}). {instead}"
    if not alike(logits, expected):
        return f"{type(model).__name__} computes other logits inside LRP's rules. {instead}"
    parts = [(x * g)[g != 0] for x, g in zip(leaves, gradients, strict=True) if g is not None]
    relevance = torch.cat([part.cpu().double() for part in parts])
    if abs(relevance.sum() - logits.max().cpu()) <= half_of_digits(logits) * relevance.abs().sum():
        return None
    logit, found = float(logits.max()), float(relevance.sum())
    return (
        f"LRP's rules do not describe {type(model).__name__}: of a logit of {logit:.3g} on a short text they "
        f"hand on {found:.3g} to its tokens and what is added on the way, such as biases. {instead}"
    )
