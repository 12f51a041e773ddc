r"""Measures of what attention carries, not only of where it looks, multiplied down through the layers.

In the terms of `attnlib.attribution.parts`, the stream of token `i` after attention is a sum, `m_i =
L_i(x_i) + sum_j sum_h A_h[i, j] L_i(u_h(j)) + c_i`, with `u_h(j) = v_h(x_j) W_O_h` what head `h` brings
from token `j`, and `L_i` the norm behind attention made linear, or the identity. A large weight on a small
vector carries little, and heads may cancel each other. With `near(z, m) = max(0, |m|_1 - |m - z|_1)`, the
length that `m` loses without its part `z`, `y_i` the output of a layer, and `y_i(-j)` this output if the
value of token `j` is set to zero in this layer's attention, whose weights stay as they are,

    value-weighted attention    |sum_h A_h[q, j] u_h(j)|_2,  and its rollout
    ALTI                        C[i, j] ~ near(T_i(j), m_i),
    with                        T_i(j) = sum_h A_h[i, j] L_i(u_h(j)) + [i = j] L_i(x_i)
    information flow routes     C[i, j] ~ near(sum_h A_h[i, j] L_i(u_h(j)), m_i) + [i = j] near(L_i(x_i), m_i)
    value zeroing               C[i, j] ~ 1 - cos(y_i, y_i(-j))

where `~` means that rows are divided by their sums. What a token keeps and what it gets from itself are one
part in ALTI, and two in information flow routes. The biases `c_i` are in `m_i` but are no part, so that they
get no share. If all parts of a token point away from `m_i`, the whole share is the token's own. For value
zeroing, a layer is evaluated again for every token that may be zeroed, from after the attention weights on.

With `C_l[i, j]` the share of token `j` in what token `i` is made of after layer `l`,

    scores = C_L[q] C_(L-1) ... C_1

which is `attnlib.rollout.rollout` with `residual=False` (the residual connection is in `C` already), computed
from the top: the last layer needs one row only, and a causal model no row after the query's.

ALTI-Logit also measures the effect on the logit. With `d_l` the direction of `m_q` in layer `l` in which the
target's logit (or its margin over a foil) grows along the residual connection, every norm made linear,

    ALTI-Logit    sum_l D_l C_(l-1) ... C_1,        D_l[j] = d_l . sum_h A_h[q, j] L_q(u_h(j))

What the query's own embedding and feed-forward blocks add to the logit is not shared out among tokens.

References:
    Kobayashi et al. 2020, *Attention is not only a weight: analyzing transformers with vector norms*,
    section 3. Ferrando, Gallego and Costa-jussa 2022, *Measuring the mixing of contextual information in the
    transformer*, section 3; for pre-norm decoders, and ALTI-Logit, Ferrando et al. 2023, *Explaining how
    transformers use context to build predictions*, section 3. Ferrando and Voita 2024, *Information flow
    routes: automatically interpreting language models at scale*, section 2. Mohebbi et al. 2023, *Quantifying
    context mixing in transformers*, section 3; rolled out as in section 5, without another residual
    connection, which is in `y` already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from attnlib.attribution.lrp import rules
from attnlib.attribution.parts import LayerParts, head_contributions, parts_of
from attnlib.attribution.prompts import Prompts, measure
from attnlib.attribution.stream import slope
from attnlib.models.attention import evaluating

ROOM = 2**18
"""How many elements of `[key query width]` are processed at a time: what fits into a core's own cache."""

ATTENTION_ROOM = 2**22
"""How many elements of `[head query key]` are processed at a time."""

Rows = Callable[[LayerParts, Float[Tensor, "batch head query key"], slice], Float[Tensor, "batch query key"]]
"""A function of a layer, the `A_h` of some queries and their positions: the rows of `C`, not normalised."""

Weights = Float[Tensor, "batch head query key"]
Vectors = Float[Tensor, "key batch query width"]


@measure
@torch.no_grad()
def value_weighted(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """Value-weighted attention of the last layer: lengths, in units of the residual stream.

    The residual connection, norms behind attention, the output bias, and feed-forward blocks are left out;
    the bias of values is included.
    """
    return lengths(parts_of(model, prompts.ids, check=prompts.query)[-1], prompts.query)


@measure
@torch.no_grad()
def mean_value_weighted(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """The mean over layers of value-weighted attention; see `value_weighted`."""
    layers = parts_of(model, prompts.ids, check=prompts.query)
    found = [lengths(layer, prompts.query).to(prompts.ids.device) for layer in layers]
    return torch.stack(found).mean(0)


@measure
@torch.no_grad()
def value_weighted_rollout(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """Rollout of value-weighted attention, each row of which is divided by its sum; scores sum to 1.

    The residual connection counts as much as attention does, as in `attnlib.rollout.rollout`.
    """
    return followed_down(parts_of(model, prompts.ids, check=prompts.query), prompts.query, length_rows)


def lengths(layer: LayerParts, query: int) -> Float[Tensor, "batch key"]:
    """`|sum_h A_h[q, j] u_h(j)|_2` of one query `q` and all keys `j`."""
    at = slice(query, query + 1)
    keys, found = layer.keys(at), layer.stream.new_zeros(layer.stream.shape[:2])
    weights = layer.attention(at)[:, :, 0].permute(2, 0, 1)[..., None]  # [key batch head 1]
    found[:, keys] = (weights * layer.carried[keys]).sum(2).norm(dim=-1).mT
    return found


def length_rows(layer: LayerParts, attention: Weights, queries: slice) -> Float[Tensor, "batch query key"]:
    """`C` of `value_weighted_rollout`, not normalised: shares of lengths, plus the identity."""

    def length(vectors: Vectors, some: slice) -> Tensor:
        return vectors.square_().sum(-1).sqrt_().permute(1, 2, 0)

    found = _of_keys(layer, attention, layer.carried, queries, length)
    total = found.sum(-1, keepdim=True)
    found.div_(total.where(total > 0, 1)).diagonal(queries.start - layer.keys(queries).start, -2, -1).add_(1)
    return found


def _of_keys(
    layer: LayerParts,
    weights: Weights,
    vectors: Float[Tensor, "token batch head width"],
    queries: slice,
    number: Callable[[Vectors, slice], Tensor],
) -> Float[Tensor, "batch query key"]:
    """The `number` of the vectors that keys bring to some queries, for a block of queries at a time."""
    keys, numbers = layer.keys(queries), layer.stream.numel()
    found, room = torch.zeros_like(weights[:, 0]), _room(numbers, layer.stream)
    for some in blocks(queries, numbers, ROOM):
        at, to = within(some, queries), within(layer.keys(some), keys)
        found[:, at, to] = number(
            head_contributions(weights[:, :, at, to], vectors[layer.keys(some)], room), some
        )
    return found


@measure
@torch.no_grad()
def alti(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """ALTI, aggregation of layer-wise token-to-token interactions; scores sum to 1."""
    return followed_down(parts_of(model, prompts.ids, check=prompts.query), prompts.query, alti_rows)


@measure
@torch.no_grad()
def information_flow_routes(
    model: nn.Module, prompts: Prompts, *, by_head: bool = False
) -> Float[Tensor, "batch key"]:
    """Information flow routes: the weight of all routes from the prediction down to each token; sums to 1.

    Every route counts, whereas the paper keeps those above a threshold; so feed-forward blocks shift nothing
    between tokens. With `by_head`, what each head brings is a part of its own, as in the authors' released
    code; this takes about twice as long.
    """
    rows = route_rows_by_head if by_head else route_rows
    return followed_down(parts_of(model, prompts.ids, check=prompts.query), prompts.query, rows)


@measure
def alti_logit(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """ALTI-Logit, in units of the logit; positive for tokens that speak for the target."""
    layers, query = parts_of(model, prompts.ids, check=prompts.query), prompts.query
    with rules(model, len(layers)):
        _, gradient = slope(model, prompts, len(layers), of=Prompts.margin)
    direction, needed, found = gradient[:, [query]], _needed(layers, query), None
    with torch.no_grad(), evaluating(model):
        while layers:
            layer = layers.pop()
            here, direction = layer.led_down(direction.to(layer.stream.device), query)
            to_logit = _along(layer, here, query)
            if found is not None:
                found = found.to(to_logit.device)
                to_logit = to_logit + found[:, :, needed] @ shares(layer, needed, alti_rows)
            found = to_logit
    assert found is not None
    return found[:, 0]


def _along(
    layer: LayerParts, direction: Float[Tensor, "batch 1 width"], query: int
) -> Float[Tensor, "batch 1 key"]:
    """`D` of ALTI-Logit: what each key adds to the logit in one layer."""
    at = slice(query, query + 1)
    keys, found = layer.keys(at), layer.stream.new_zeros(layer.stream.shape[:2])
    weights = layer.scaled(layer.attention(at), at)[:, :, 0]
    vectors = layer.through_norm[keys]
    found[:, keys] = torch.einsum("bhk,kbhw,bw->bk", weights, vectors, direction[:, 0].to(vectors))
    return found[:, None]


def alti_rows(layer: LayerParts, attention: Weights, queries: slice) -> Float[Tensor, "batch query key"]:
    """`C` of ALTI, not normalised."""
    weights, keys = layer.scaled(attention, queries), layer.keys(queries)
    found, diagonal = _near_of_keys(layer, weights, queries), queries.start - keys.start
    to_itself = weights.diagonal(diagonal, -2, -1).permute(2, 0, 1)[..., None]
    own = (to_itself * layer.through_norm[queries]).sum(2).transpose(0, 1) + layer.residual[:, queries]
    found.diagonal(diagonal, -2, -1).copy_(_near(own, layer.after_attention[:, queries]))
    return found


def route_rows(layer: LayerParts, attention: Weights, queries: slice) -> Float[Tensor, "batch query key"]:
    """`C` of information flow routes, not normalised."""
    found = _near_of_keys(layer, layer.scaled(attention, queries), queries)
    return _with_residual(found, layer, queries)


def route_rows_by_head(
    layer: LayerParts, attention: Weights, queries: slice
) -> Float[Tensor, "batch query key"]:
    """As `route_rows`, but every head is a part of its own."""
    weights, keys, whole = layer.scaled(attention, queries), layer.keys(queries), layer.after_attention
    carried = layer.through_norm.permute(1, 2, 0, 3).contiguous()
    found, room = torch.zeros_like(weights[:, 0]), _room(carried.numel(), whole)
    for some in blocks(queries, carried.numel(), ROOM):
        at, to = within(some, queries), within(layer.keys(some), keys)
        part, length = weights[:, :, at, to].transpose(1, 2), whole[:, some].abs().sum(-1)[..., None, None]
        missing = room[: part.numel() * whole.shape[-1]].view(*part.shape, -1)  # [batch query head key width]
        vectors = carried[:, None, :, layer.keys(some)]
        torch.addcmul(whole[:, some, None, None], part[..., None], vectors, value=-1, out=missing)
        found[:, at, to] = ((length - missing.abs_().sum(-1)).clamp_(min=0) * (part != 0)).sum(2)
    return _with_residual(found, layer, queries)


def _near_of_keys(layer: LayerParts, weights: Weights, queries: slice) -> Float[Tensor, "batch query key"]:
    """`near(sum_h A_h[i, j] L_i(u_h(j)), m_i)`."""

    def near(vectors: Vectors, some: slice) -> Tensor:
        whole = layer.after_attention[:, some]
        distance = vectors.sub_(whole).abs_().sum(-1).permute(1, 2, 0)
        return (whole.abs().sum(-1, keepdim=True) - distance).clamp_(min=0)

    found = _of_keys(layer, weights, layer.through_norm, queries, near)
    found *= weights.abs().amax(1) > 0  # no rounding errors at keys that get no attention
    return found


def _with_residual(
    found: Float[Tensor, "batch query key"], layer: LayerParts, queries: slice
) -> Float[Tensor, "batch query key"]:
    own = _near(layer.residual[:, queries], layer.after_attention[:, queries])
    found.diagonal(queries.start - layer.keys(queries).start, -2, -1).add_(own)
    return found


def _near(
    part: Float[Tensor, "*tokens width"], whole: Float[Tensor, "*tokens width"]
) -> Float[Tensor, "*tokens"]:
    return (whole.abs().sum(-1) - (whole - part).abs().sum(-1)).clamp(min=0)


def _room(of_one: int, like: Tensor) -> Float[Tensor, " number"]:
    return like.new_empty(max(ROOM, of_one))


@measure
@torch.no_grad()
def value_zeroing(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """Value zeroing, rolled out; scores sum to 1.

    Every layer takes about the time of its feed-forward block on one token for each pair of a query and a
    key.
    """
    layers = parts_of(model, prompts.ids, check=prompts.query)
    with evaluating(model):
        return followed_down(layers, prompts.query, zeroing_rows)


def zeroing_rows(
    layer: LayerParts, attention: Float[Tensor, "batch head query key"], queries: slice
) -> Float[Tensor, "batch query key"]:
    """`C` of value zeroing, not normalised."""
    keys, dtype = layer.keys(queries), layer.anatomy.weight.dtype
    found = torch.zeros_like(attention[:, 0])
    for some in blocks(queries, layer.stream.numel(), ROOM):
        at, to = within(some, queries), within(layer.keys(some), keys)
        weights = attention[:, :, at, to]
        pairs = (weights != 0).any(1)
        example, query, _ = pairs.nonzero(as_tuple=True)
        x, o, y = (each[example, query + some.start] for each in (layer.stream, layer.attended, layer.output))
        brings = head_contributions(weights, layer.carried[layer.keys(some)]).permute(1, 2, 0, 3)
        less = o - brings[pairs]  # [pair width]
        after = layer.anatomy.after_attention(x.to(dtype)[None], less.to(dtype)[None])
        without = layer.anatomy.output(after)[0].to(y.dtype)
        # half the squared distance of unit vectors is 1 - cos, without its rounding where cos is almost 1
        found[:, at, to][pairs] = (normalize(without, dim=-1) - normalize(y, dim=-1)).square().sum(-1) / 2
    return found


def followed_down(layers: list[LayerParts], query: int, rows: Rows) -> Float[Tensor, "batch key"]:
    """The scores `C_L[q] ... C_1`, from the unnormalised `rows` of each layer; empties the list `layers`."""
    needed = _needed(layers, query)
    found = shares(layers.pop(), slice(query, query + 1), rows)
    while layers:
        below = shares(layers.pop(), needed, rows)
        found = found[..., needed].to(below.device) @ below
    return found[:, 0]


def _needed(layers: list[LayerParts], query: int) -> slice:
    """The tokens whose rows are needed in every layer: in a causal model, none after the query."""
    reach, n = max(layer.keys(slice(0, query + 1)).stop for layer in layers), layers[0].stream.shape[1]
    return slice(0, query + 1 if reach <= query + 1 else n)


def shares(layer: LayerParts, queries: slice, rows: Rows) -> Float[Tensor, "batch query key"]:
    """`C`: rows divided by their sums. A query that got nothing has the whole share itself."""
    batch, n, _ = layer.stream.shape
    found = layer.stream.new_zeros(batch, queries.stop - queries.start, n)
    for some in blocks(queries, batch * n * layer.call.query.shape[1], ATTENTION_ROOM):
        keys, at = layer.keys(some), slice(some.start - queries.start, some.stop - queries.start)
        found[:, at, keys] = rows(layer, layer.attention(some), some)
    total = found.sum(-1, keepdim=True)
    found.div_(total.where(total > 0, 1))
    found.diagonal(queries.start, -2, -1).add_(total[..., 0] == 0)
    return found


def blocks(queries: slice, of_one: int, room: int) -> Iterator[slice]:
    """Blocks of queries, of at most `room` numbers (`of_one` for each query), but at least one query."""
    size = max(1, room // of_one)
    for start in range(queries.start, queries.stop, size):
        yield slice(start, min(start + size, queries.stop))


def within(some: slice, all_of: slice) -> slice:
    """The slice `some`, counted from the beginning of `all_of`, which contains it."""
    return slice(some.start - all_of.start, some.stop - all_of.start)
