r"""Layer-wise relevance propagation through transformers, as gradient x embedding with another backward pass.

Relevance starts as the explained logit and is handed back from each operation's output to its inputs, so that
it is shared out, not created. Of a linear map `y = W x + b` input `i` gets what it contributed, `R_i = x_i
sum_j W_ji R_j / y_j`: with `R = x g` that is the chain rule, `g_i = sum_j W_ji g_j`. What is not linear is
taken as linear, each in its own way:

    norm              y = w (x - mean x) / c + b, with c, the deviation or root mean square, a constant
    activation        y = c x, with c = f(x) / x a constant
    product of two    y = u v: half of the gradient to each of `u` and `v`
    share             a constant: a sigmoid, the weights of chosen experts
    softmax           its gradient (a Taylor expansion whose bias is left out)

(products of two: a gate and what it gates, attention and values, queries and keys), and token `k` gets
`e_k . g_k`. This is "AttnLRP". With the softmax's output taken as a constant instead,
queries and keys get nothing, values all: "LRP, attention held constant" (the attention part of CP-LRP).

With attention held constant all is linear, and a model without biases hands on everything: its tokens' scores
sum to the logit. Where biases, position embeddings or other constants are added, they get their share, and
AttnLRP's softmax keeps or adds some. What a model computes beside these operations is differentiated as it
is. Whether everything is handed on is tried once per model, on a short text, the share of constants counted.

LRP is defined of logits: without a foil, the target's logit is explained, not its log probability. With one
the two are the same.

The license of the authors' library grants no patent rights; who builds a product on LRP should look into
that.

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

from attnlib.attribution.linearised import linearised, scaled
from attnlib.attribution.promises import (
    alike,
    half_of_digits,
    hands_gradients_on,
    hold,
    predicting,
    reads_nothing_else,
)
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
    """LRP with attention held constant; as `attn_lrp`."""
    return _relevance(model, prompts.ids, [prompts], _weighted_sum)[0]


def _relevance(
    model: nn.Module,
    ids: Int[Tensor, "batch token"],
    asked: Sequence[Prompts],
    attention: Callable[..., Inputs],
) -> list[Scores]:
    hold(model, reads_nothing_else)
    with rules(model), inputs_changed(model, attention):
        found = slopes(model, ids, asked, of=Prompts.margin)
    return [(embedded * gradient).sum(-1) for embedded, gradient in found]


def _products(query: Tensor, key: Tensor, value: Tensor) -> Inputs:
    """Attention as two products: `A V` hands half to `A`, and `Q K^T` half of that to each."""
    return scaled(query, 1 / 4), scaled(key, 1 / 4), scaled(value, 1 / 2)


def _weighted_sum(query: Tensor, key: Tensor, value: Tensor) -> Inputs:
    """Attention as a sum of values with constant weights."""
    return query.detach(), key.detach(), value


attn_lrp.of_text = partial(_relevance, attention=_products)  # type: ignore[attr-defined]
attention_constant_lrp.of_text = partial(_relevance, attention=_weighted_sum)  # type: ignore[attr-defined]


@scope
def rules(model: nn.Module, layer: int = 0) -> Iterator[None]:
    """This thread's passes of the model have the backward pass of norms, activations and gates.

    A `ValueError` where, on a short text, they change the logits, or do not hand all of a logit on to place
    `layer` of the stream and to what is added on the way.
    """
    hold(model, hands_gradients_on)
    hold(model, partial(_lost, layer), (_lost, layer))
    with linearised(model):
        yield


def _lost(layer: int, model: nn.Module, texts: Int[Tensor, "2 token"]) -> str | None:
    """What is wrong with the relevance of a text's last logit, with attention held constant."""
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
