r"""The residual stream after each attention block, decomposed by the token that each part comes from.

With `x_i` the input of a layer at token `i`, `A_h` the attention of head `h` (after any changes to it),
`v_h(x_j)` its values and `W_O_h` its slice of the output projection, the stream after attention is a sum,

    m_i = L_i(x_i) + sum_j sum_h A_h[i, j] L_i(v_h(x_j) W_O_h) + c_i

where `L_i` is the norm behind attention, made linear, in models that have one: a norm is `N(u) = s(u) g *
(u - mean(u)) + b` (without the mean in RMSNorm), and with its factor `s(u)` held constant, all but `b` is
linear in `u`. Without such a norm, `L_i` is the identity. `c_i` is the part that no token brings: biases.

`L_i` is a number for each token, `s_i`, times a map `G` that is the same for all tokens. So `G(v_h W_O_h)` is
computed once per key, and `s_i` multiplies rows of attention.

References:
    Kobayashi et al. 2020, *Attention is not only a weight*; and 2021, *Incorporating residual and
    normalization layers into analysis of masked language models*: the decomposition.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attribution.anatomy import Anatomy, anatomies, first
from attnlib.attribution.stream import Hook, hooked
from attnlib.models.attention.call import AttentionCall
from attnlib.models.attention.forward import watched_pass
from attnlib.models.base import evaluating

TOLERANCE = 1e-3
"""The largest relative error of a sum of parts that counts as rounding, in single precision."""


class Linear(NamedTuple):
    """A norm with its statistics held constant, `N(u) = scale G(u) + bias`.

    `G` subtracts the mean, if `centred`, and multiplies by `gain`.
    """

    gain: Float[Tensor, " width"] | float = 1.0
    centred: bool = False
    scale: Float[Tensor, "batch token 1"] | float = 1.0
    bias: Float[Tensor, " width"] | float = 0.0

    @classmethod
    def of(cls, norm: nn.Module | None, at: Float[Tensor, "batch token width"]) -> Linear:
        """The linear form of a norm at `at`; all but LayerNorm count as RMSNorm: see `LayerParts.check`."""
        if norm is None:
            return cls()
        if isinstance(norm, nn.LayerNorm) and type(norm).forward is nn.LayerNorm.forward:
            gain = 1.0 if norm.weight is None else norm.weight
            scale = (at.var(-1, keepdim=True, correction=0) + norm.eps).rsqrt()
            return cls(gain, True, scale, 0.0 if norm.bias is None else norm.bias)
        gain = norm(torch.ones_like(at[0, 0]))  # some norms multiply by the weight, some by 1 + weight
        straight, bent = gain * at, norm(at)
        least = torch.finfo(at.dtype).tiny
        scale = (bent * straight).sum(-1, True) / straight.square().sum(-1, True).clamp(min=least)
        return cls(gain, False, scale)

    def shape(self, parts: Float[Tensor, "*parts width"]) -> Float[Tensor, "*parts width"]:
        """`G`, applied to parts."""
        if self.centred:
            parts = parts - parts.mean(-1, keepdim=True)
        return parts if isinstance(self.gain, float) else parts * self.gain

    def back(self, direction: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
        """A direction in the norm's output, led back to its input by the transpose of `scale G`."""
        direction = direction * self.gain * self.scale
        return direction - direction.mean(-1, keepdim=True) if self.centred else direction


class LayerParts:
    """One layer of one forward pass, decomposed, in float32 or better; symbols as in the module's docstring.

    Attributes:
        stream: `x`.
        attended: the output of attention, before any norm and the residual connection.
        after_attention: `m`.
    """

    def __init__(
        self,
        anatomy: Anatomy,
        call: AttentionCall,
        stream: Float[Tensor, "batch token width"],
        attended: Float[Tensor, "batch token width"],
        output: Float[Tensor, "batch token width"],
    ) -> None:
        self.anatomy, self.call = anatomy, call
        device = call.query.device  # the layer's: a model may be split over several
        stream, attended, output = (each.to(device) for each in (stream, attended, output))
        self.stream, self.attended, self.output = (each.to(call.dtype) for each in (stream, attended, output))
        self.after_attention = anatomy.after_attention(stream, attended).to(call.dtype)
        self._inner = Linear.of(anatomy.on_attention, self.attended)
        between = self.attended if anatomy.on_attention is None else anatomy.on_attention(attended)
        self._outer = Linear.of(anatomy.on_sum, self.stream + between)

    @cached_property
    def carried(self) -> Float[Tensor, "key batch head width"]:
        """`v_h(x_j) W_O_h`: what a query would get if it gave all of its attention to key `j`."""
        value, heads = self.call.value.to(self.call.dtype), self.call.query.shape[1]
        weight = self.anatomy.weight.to(value).unflatten(0, (value.shape[1], heads // value.shape[1], -1))
        return torch.einsum("bgkc,grcd->kbgrd", value, weight).flatten(2, 3).contiguous()

    @cached_property
    def through_norm(self) -> Float[Tensor, "key batch head width"]:
        """`G(v_h(x_j) W_O_h)`."""
        return self._shape(self.carried)

    @cached_property
    def residual(self) -> Float[Tensor, "batch token width"]:
        """`L_i(x_i)`."""
        return self._outer.scale * self._outer.shape(self.stream)

    @cached_property
    def constant(self) -> Float[Tensor, "#batch #token width"]:
        """`c_i`."""
        bias = self.anatomy.bias
        inner = self.stream.new_zeros(1, 1, self.stream.shape[-1]) if bias is None else bias[None, None]
        inner = self._inner.scale * self._inner.shape(inner) + self._inner.bias
        return self._outer.scale * self._outer.shape(inner) + self._outer.bias

    def keys(self, queries: slice) -> slice:
        """The slice that holds all keys that these queries may look at, and the queries themselves."""
        first, stop = self.call.keys_of(queries.start, queries.stop)
        return slice(min(first, queries.start), max(stop, queries.stop))

    def attention(self, queries: slice) -> Float[Tensor, "batch head query key"]:
        """`A_h` of these queries over the keys `keys(queries)`; errors as in `AttentionCall.changed_rows`."""
        (first, stop), keys = self.call.keys_of(queries.start, queries.stop), self.keys(queries)
        return nn.functional.pad(self.call.changed_rows(queries), (first - keys.start, keys.stop - stop))

    def scaled(
        self, attention: Float[Tensor, "batch head query key"], queries: slice
    ) -> Float[Tensor, "batch head query key"]:
        """`s_i A_h`."""
        scale = self._inner.scale * self._outer.scale
        return attention if isinstance(scale, float) else attention * scale[:, None, queries]

    def _shape(self, parts: Float[Tensor, "*parts width"]) -> Float[Tensor, "*parts width"]:
        """`G` of the norms behind attention, applied to parts."""
        return self._outer.shape(self._inner.shape(parts))

    def led_down(
        self, direction: Float[Tensor, "batch 1 width"], token: int
    ) -> tuple[Float[Tensor, "batch 1 width"], Float[Tensor, "batch 1 width"]]:
        """A direction in a token's output, led back to its `m` and its `x` along the residual connection."""
        here = slice(token, token + 1)
        after, dtype = self.after_attention[:, here], self.anatomy.weight.dtype
        summed = after + self.anatomy.feed_forward(after.to(dtype)).to(after)
        direction = Linear.of(self.anatomy.on_output, summed).back(direction.to(after))
        outer, scale = self._outer, self._outer.scale
        at_token = outer if isinstance(scale, float) else outer._replace(scale=scale[:, here])
        return direction, at_token.back(direction)

    def check(self, token: int) -> None:
        """Raise a `ValueError` unless the parts of a token sum to what the layer computed."""
        here = slice(token, token + 1)
        m, y = self.after_attention[:, here], self.output[:, here]
        attention, value = self.attention(here), self.call.value[:, :, self.keys(here)].to(self.call.dtype)
        by_group = attention.unflatten(1, (value.shape[1], -1))  # heads that share values
        attended = (by_group @ value[:, :, None]).flatten(1)[:, None] @ self.anatomy.weight.to(value)
        found = self.residual[:, here] + self.scaled(self._shape(attended)[:, None], here)[:, 0]
        found = found + self.constant.expand_as(self.stream)[:, here]
        after = self.anatomy.output(m.to(self.anatomy.weight.dtype))
        kind, attention_kind = type(self.anatomy.layer).__name__, type(self.anatomy.attention).__name__
        allowed = max(TOLERANCE, torch.finfo(self.anatomy.weight.dtype).eps ** 0.5)
        for sum_of_parts, whole, message in (
            (found, m, f"{attention_kind} is not the sum of what its heads carry"),
            (after, y, f"{kind} is not the sum of what enters and what its blocks add"),
        ):
            if not bool(((sum_of_parts - whole).norm(dim=-1) <= allowed * whole.norm(dim=-1)).all()):
                raise ValueError(
                    f"The output of a {message}, so it is computed in a way not understood here."
                )


def head_contributions(
    attention: Float[Tensor, "batch head query key"],
    carried: Float[Tensor, "key batch head width"],
    room: Float[Tensor, " number"] | None = None,
) -> Float[Tensor, "key batch query width"]:
    """`sum_h A_h[i, j] u_h(j)`: what each key brings to each query, summed over these heads.

    The result is written to the buffer `room`, if given: reused memory is in the cache, so this is faster.
    """
    batch, _, queries, keys = attention.shape
    weights, vectors = attention.permute(3, 0, 2, 1).contiguous().flatten(0, 1), carried.flatten(0, 1)
    shape = keys * batch, queries, carried.shape[-1]
    out = None if room is None else room[: shape[0] * shape[1] * shape[2]].view(shape)
    return torch.bmm(weights, vectors, out=out).unflatten(0, (keys, batch))


@torch.no_grad()
def parts_of(model: nn.Module, input_ids: Int[Tensor, "batch token"], *, check: int = -1) -> list[LayerParts]:
    """Run a model once, without its language-model head, and return the parts of every layer, first to last.

    Attention is taken after the changes of any open `changing` block. Prompts have no padding. A `ValueError`
    is raised unless, at token `check`, the parts of one layer of each type sum to what the layer computed.
    """
    layers = anatomies(model)
    seen: list[dict[str, Any]] = [{} for _ in layers]
    hooks = [hook for layer, found in zip(layers, seen, strict=True) for hook in _recorded(layer, found)]
    with evaluating(model), hooked(hooks):
        calls = list[AttentionCall]()
        watched_pass(model, [calls.append], input_ids)
        parts = [
            LayerParts(layer, call, **found) for layer, call, found in zip(layers, calls, seen, strict=True)
        ]
        for one in {type(one.anatomy.layer): one for one in parts}.values():  # layers of a type compute alike
            one.check(check % input_ids.shape[1])
    return parts


def _recorded(anatomy: Anatomy, found: dict[str, Any]) -> list[Hook]:
    """The hooks that record a layer's input and output, and the output of its attention, in `found`."""

    def enters(module: nn.Module, given: tuple, named: dict[str, Any]) -> None:
        found["stream"] = given[0] if given else named["hidden_states"]

    def leaves(name: str, module: nn.Module, given: tuple, output: Any) -> None:
        found[name] = first(output)

    return [
        Hook(anatomy.layer, enters, before=True),
        Hook(anatomy.layer, partial(leaves, "output")),
        Hook(anatomy.attention, partial(leaves, "attended")),
    ]
