r"""Which module of a layer does what, as far as it is needed to decompose the layer's output.

With `x` the input of a layer, `o` the output of its attention, `f` its feed-forward block, and the norms `N`,
`N'` and `M`, each of which is the identity except in the kinds of model that are listed with it,

    m = N(x + N'(o))        y = M(m + f(m))

    attnlib, post-norm    N, M        f the feed-forward network
    attnlib, pre-norm     none        f with the norm before it
    GPT-2, Llama          none        f with the norm before it
    Gemma 2               N'          f with the norms before and after it

The norm before attention does not appear: attention mixes values, which are computed after that norm.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlib.models.attention.interface import attention_modules
from attnlib.models.devices import device_of
from attnlib.models.transformer import Layer, Transformer

Stream = Float[Tensor, "batch token width"]
"""Vectors of the residual stream."""


class Anatomy(NamedTuple):
    """One layer; symbols as in the module's docstring.

    Attributes:
        weight: the weight of the projection from the heads' outputs to `o`.
        on_attention: `N'`.
        on_sum: `N`.
        on_output: `M`.
    """

    layer: nn.Module
    attention: nn.Module
    weight: Float[Tensor, "head_channel width"]
    bias: Float[Tensor, " width"] | None
    feed_forward: Callable[[Tensor], Tensor]
    on_attention: nn.Module | None = None
    on_sum: nn.Module | None = None
    on_output: nn.Module | None = None

    def after_attention(self, x: Stream, o: Stream) -> Stream:
        """`m`."""
        attended = x + (o if self.on_attention is None else self.on_attention(o))
        return attended if self.on_sum is None else self.on_sum(attended)

    def output(self, m: Stream) -> Stream:
        """`y`."""
        y = m + self.feed_forward(m)
        return y if self.on_output is None else self.on_output(y)


class Names(NamedTuple):
    """The names of the modules of a Hugging Face layer."""

    attention: str
    projection: str
    before_attention: str
    on_attention: str | None
    feed_forward: tuple[str, ...]


KINDS = {
    "GPT-2": Names("attn", "c_proj", "ln_1", None, ("ln_2", "mlp")),
    "Llama": Names("self_attn", "o_proj", "input_layernorm", None, ("post_attention_layernorm", "mlp")),
    "Gemma 2": Names(
        "self_attn",
        "o_proj",
        "input_layernorm",
        "post_attention_layernorm",
        ("pre_feedforward_layernorm", "mlp", "post_feedforward_layernorm"),
    ),
}
"""The kinds of Hugging Face layer that are understood; many other models name their modules the same."""


def anatomies(model: nn.Module) -> list[Anatomy]:
    """The anatomy of every layer, first to last; a `ValueError` names the parts that are not understood."""
    if isinstance(model, Transformer):
        return [_own(layer) for layer in model.layers]  # type: ignore[arg-type]
    parents = {id(child): module for module in model.modules() for child in module.children()}
    return [_hugging_face(parents[id(attention)], attention) for attention in attention_modules(model)]


def _own(layer: Layer) -> Anatomy:
    attention, (weight, bias) = layer.attention, _matrix(layer, layer.attention.out)
    if layer.pre:
        inner = _chain(layer.ff_norm, layer.feed_forward)
        return Anatomy(layer, attention, weight, bias, inner)
    norms = {"on_sum": layer.attention_norm, "on_output": layer.ff_norm}
    return Anatomy(layer, attention, weight, bias, layer.feed_forward, **norms)


def _hugging_face(layer: Any, attention: Any) -> Anatomy:
    has = {name for name, _ in layer.named_children()}
    for names in KINDS.values():
        used = {names.attention, names.before_attention, names.on_attention, *names.feed_forward} - {None}
        if has == used and hasattr(attention, names.projection):
            break
    else:
        raise ValueError(
            f"The model's layers, of type {type(layer).__name__}, are made of parts that are not understood "
            f"({', '.join(sorted(has))}). Those of {', '.join(KINDS)} and of an attnlib Transformer are."
        )
    weight, bias = _matrix(layer, getattr(attention, names.projection))
    return Anatomy(
        layer,
        attention,
        weight,
        bias,
        _chain(*(getattr(layer, name) for name in names.feed_forward)),
        on_attention=None if names.on_attention is None else getattr(layer, names.on_attention),
    )


@torch.no_grad()
def _matrix(
    layer: nn.Module, out: Any
) -> tuple[Float[Tensor, "head_channel width"], Float[Tensor, " width"] | None]:
    """The output projection (weight, bias); if offloaded or quantised, from outputs at 0 and unit vectors."""
    transposed = type(out).__name__ == "Conv1D"  # of transformers.pytorch_utils
    if not (transposed or isinstance(out, nn.Linear)):
        raise ValueError(
            f"The output projection of the model's attention, of type {type(out).__module__}."
            f"{type(out).__name__}, is not understood. It should be a torch.nn.Linear, or a Conv1D of "
            "transformers."
        )
    if out.weight.is_floating_point() and out.weight.device.type != "meta":
        return out.weight if transposed else out.weight.T, out.bias
    dtype = next((each.dtype for each in layer.parameters() if each.is_floating_point()), torch.float32)
    units = torch.eye(out.nx if transposed else out.in_features, dtype=dtype, device=device_of(out))
    bias = out(torch.zeros_like(units[:1]))[0]
    return out(units) - bias, None if out.bias is None else bias


def _chain(*modules: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: reduce(lambda value, module: first(module(value)), modules, x)


def first(output: Any) -> Any:
    """A module's main output: attention may return weights after it, and a router of experts its choice."""
    return output[0] if isinstance(output, tuple) else output
