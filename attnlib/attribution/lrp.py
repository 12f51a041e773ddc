r"""Layer-wise relevance propagation through transformers, as gradient x embedding with another backward pass.

Relevance starts as the explained logit and is handed back from each operation's output to its inputs, so that
it is shared out, not created. Of a linear map `y = W x + b` input `i` gets what it contributed, `R_i = x_i
sum_j W_ji R_j / y_j`: with `R = x g` that is the chain rule, `g_i = sum_j W_ji g_j`. What is not linear is
taken as linear, each in its own way:

    norm              y = w (x - mean x) / c + b, with c, the deviation or root mean square, a constant
    activation        y = c x, with c = f(x) / x a constant
    product of two    y = u v: half of the gradient to each of `u` and `v`
    softmax           its gradient (a Taylor expansion whose bias is left out)

(products of two: a gate and what it gates, attention and values, queries and keys), and token `k` gets
`e_k . g_k`. This is "AttnLRP". With the softmax's output taken as a constant instead,
queries and keys get nothing, values all: "LRP, attention held constant" (the attention part of CP-LRP).

With attention held constant all is linear, and a model without biases hands on everything: its tokens' scores
sum to the logit. Where there are biases, or position embeddings, they get their share, and AttnLRP's softmax
keeps or adds some. What a model computes beside these operations is differentiated as it is.

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

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.utils.hooks import RemovableHandle

from attnlib.attribution.prompts import Prompts, measure
from attnlib.attribution.stream import in_this_thread, slope
from attnlib.models.attention.forward import n_layers
from attnlib.models.attention.inputs import Inputs, inputs_changed
from attnlib.models.transformer import Layer

Scores = Float[Tensor, "batch key"]


@measure
def attn_lrp(model: nn.Module, prompts: Prompts) -> Scores:
    """AttnLRP, in units of the logit; positive for tokens that speak for the target.

    Raises:
        ValueError: the model's attention or activations are not found where the rules need them; or as in
            `gradient_x_embedding`.
    """
    return _relevance(model, prompts, _products)


@measure
def attention_constant_lrp(model: nn.Module, prompts: Prompts) -> Scores:
    """LRP with attention held constant; as `attn_lrp`."""
    return _relevance(model, prompts, _weighted_sum)


def _relevance(model: nn.Module, prompts: Prompts, attention: Callable[..., Inputs]) -> Scores:
    with rules(model), inputs_changed(model, attention):
        embedded, gradient = slope(model, prompts, of=Prompts.margin)
    return (embedded * gradient).sum(-1)


def _products(query: Tensor, key: Tensor, value: Tensor) -> Inputs:
    """Attention as two products: `A V` hands half to `A`, and `Q K^T` half of that to each."""
    return _scaled(query, 1 / 4), _scaled(key, 1 / 4), _scaled(value, 1 / 2)


def _weighted_sum(query: Tensor, key: Tensor, value: Tensor) -> Inputs:
    """Attention as a sum of values with constant weights."""
    return query.detach(), key.detach(), value


def _scaled(x: Tensor, share: float) -> Tensor:
    """`x`, to which a share of the gradient goes back."""
    if x.requires_grad:
        x.register_hook(lambda gradient: share * gradient)
    return x


class _InProportion(Function):
    """`y`, as a constant times `x`, element by element."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward((y / x).nan_to_num_())  # f(0) = 0: what is 0 has no relevance to hand on
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[Tensor, None]:
        return gradient[0] * ctx.saved_tensors[0], None


class _LayerNorm(Function):
    """`y = w (x - mean x) / c + b`, with `c` a constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, norm: Any) -> Tensor:
        y, _, inverse = torch.native_layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
        ctx.save_for_backward(inverse if norm.weight is None else inverse * norm.weight.detach())
        return y

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[Tensor, None]:
        scaled = gradient[0] * ctx.saved_tensors[0]
        return scaled - scaled.mean(-1, keepdim=True), None


@contextmanager
def rules(model: nn.Module) -> Iterator[None]:
    """This thread's passes of the model have the backward pass of norms, activations and gates."""
    activations = 0
    with ExitStack() as hooks:
        for module in model.modules():
            activations += isinstance(module, Layer) or _is_activation(module)
            if isinstance(module, Layer):
                for handle in _own_activation(module):
                    hooks.enter_context(handle)
            elif isinstance(module, nn.LayerNorm):
                hooks.enter_context(_hooked(module, lambda norm, x, y: _LayerNorm.apply(x, norm)))
            elif _is_activation(module) or "RMSNorm" in type(module).__name__:
                # x by a constant, channel by channel
                hooks.enter_context(_hooked(module, lambda _, x, y: _InProportion.apply(x, y)))
            for factor in _gate(module):
                hooks.enter_context(_hooked(factor, lambda _, x, y: _scaled(y, 1 / 2)))
        if activations < (n_layers(model) or 1):
            raise ValueError(
                f"{type(model).__name__} has {n_layers(model)} layers, but {activations} activation "
                "functions that are modules of torch.nn or transformers.activations: LRP knows no others."
            )
        yield


def _is_activation(module: nn.Module) -> bool:
    of_torch = isinstance(module, nn.ReLU | nn.GELU | nn.SiLU | nn.Tanh)
    return of_torch or type(module).__module__ == "transformers.activations"


def _gate(module: Any) -> list[nn.Module]:
    """The projections whose outputs are multiplied (with an activation between, which changes nothing)."""
    names = ["gate_up_proj"] if hasattr(module, "gate_up_proj") else ["gate_proj", "up_proj"]
    factors = [getattr(module, name) for name in names if hasattr(module, name)]
    if not all(isinstance(factor, nn.Module) for factor in factors):
        raise ValueError(
            f"{type(module).__name__} multiplies with weights of its own (those of experts, say): LRP's rule "
            "for gates knows projections that are modules."
        )
    return factors if len(factors) == len(names) else []


def _own_activation(layer: Layer) -> tuple[RemovableHandle, RemovableHandle]:
    """A `Layer`'s activation is a function: what goes into it and what comes out is seen beside it."""
    given = list[Tensor]()

    def before(up: nn.Module, x: Any, y: Tensor) -> None:
        given.append(y)

    def after(down: nn.Module, x: tuple[Tensor]) -> Tensor:
        return _InProportion.apply(given.pop(), x[0])

    return (
        layer.up.register_forward_hook(in_this_thread(before)),
        layer.down.register_forward_pre_hook(in_this_thread(after)),
    )


def _hooked(module: nn.Module, rule: Callable[[Any, Tensor, Tensor], Tensor]) -> RemovableHandle:
    """In this thread, `rule(module, input, output)` in place of the module's output."""
    hook = in_this_thread(lambda module, given, output: rule(module, given[0], output))
    return module.register_forward_hook(hook)
