r"""Rollout of a model that never forms an attention matrix.

A fused attention kernel (SDPA, flash) gives no attention weights to read, and where a kernel does, the
`batch x layers x heads x N x N` weights do not fit into memory. But a layer of rollout needs only
`sum_h w_h A_h R`. There are three ways to compute it, of which `rollout_of` chooses one by shape:

- Long texts on CPUs: attention is formed once, by head and in blocks of queries, for the layer's output and
  for `sum_h w_h A_h`, which is multiplied with `R` (`attnlib.models.attention.once` says when). For a few
  rows, the model runs unchanged, and the product for these rows is taken from the last layer down
  (`attnlib.rollout.recursion`).
- Few columns: "attention times a matrix" is what the kernel computes from queries, keys and values, so it is
  called once more per layer with `R` in the value slot.
- Else, in blocks of queries beside the kernel (`attnlib.models.attention.call` decides between these two).

See `attnlib.rollout.recursion` for the equations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.checks import check, unknown
from attnlib.models.attention.call import AttentionCall, Observer, Product, Wanted
from attnlib.models.attention.forward import Mask, check_prompt, model_dtype, read_names, watched_pass
from attnlib.models.devices import brought_by_name
from attnlib.options import plain_options
from attnlib.rollout.dense import non_sink_mask, token_indices
from attnlib.rollout.recursion import Recursion, TopDownRecursion, one_hot

FEW_KEYS = 256
"""With at most this many more columns than rows, going up with all columns costs less than going down."""

OnLayer = Callable[[int, Float[Tensor, "batch query key"]], None]


class Pass(NamedTuple):
    """The result of `follow_layers`; entries of `rollout` in rows and columns of padding are meaningless."""

    logits: Float[Tensor, "batch position vocabulary"]
    rollout: Float[Tensor, "batch query key"] | None
    layers: int


@plain_options
@torch.inference_mode(False)  # inference mode rules out gradients, by which `rows` are computed
def rollout_of(
    model: nn.Module,
    input_ids: Int[Tensor, "batch token"] | None = None,
    attention_mask: Mask = None,
    keys: Sequence[int] | Int[Tensor, " key"] | None = None,
    *,
    rows: Sequence[int] | Int[Tensor, " query"] | None = None,
    cumulative: bool = False,
    sink: Sequence[int] | None = None,
    **model_inputs: Any,
) -> Float[Tensor, "batch query key"] | Float[Tensor, "batch layer query key"]:
    r"""Rollout of one forward pass: what `rollout` gives for the model's attention, without that attention.

    Runs the model once, without its language-model head. Memory beyond that of the forward pass is
    `batch x N x keys`. How it is computed is chosen by shape:

    - On CPUs, from 128 tokens on, each block of attention is formed once, for the layer's output and for
      rollout. With 64 keys and 4,096 tokens, that takes about a tenth more time than the forward pass alone;
      with 16,384 tokens, a quarter more. If `rows` are requested, fewer than `keys` by more than `FEW_KEYS`,
      the model runs unchanged; then their product is taken from the last layer down (8 rows: a third more).
    - Elsewhere (GPUs, half precision, attention that is changed from outside, other kernels), up to
      `FUSED_PASSES` times as many columns as a head has channels: the kernel is called again with them as
      values. With more (a full `N x N` rollout), blocks of attention rows are formed beside the kernel and
      averaged over heads before they are multiplied: fewer operations. Models on "eager" attention (Gemma 2,
      whose scores are soft-capped; GPT-OSS, whose softmax has sinks of its own) are run in such blocks
      altogether. For few `rows` the product is taken backwards, as a vector-Jacobian product: time and memory
      then go by the number of rows.

    The matrix is multiplied in float32 (float64 for such models) also where the model computes in half
    precision; but kernels other than torch's own (`flash_attention_2`, say) only in the model's precision.

    Args:
        model: a Hugging Face decoder or encoder whose attention goes through transformers'
            `AttentionInterface` (grouped-query attention and sliding windows included), or an `attnlib`
            `Transformer`. It is run in evaluation mode; its attention implementation is never changed.
            Threads may share a model. The first call also runs it twice on four tokens, to see whether
            anything but attention mixes tokens.
        input_ids: the tokens.
        attention_mask: 1 for tokens, 0 for padding, on either side. Rows and columns of padding are zero.
            Padding on the left shifts no positions, except in models with a table of positions that take no
            `position_ids` (BART's decoder and its kin): there, rollout is of the padded prompt, as the model
            reads it.
        keys: key positions to return (columns), the same for all of the batch; all by default.
        rows: query positions to return; all by default. Negative positions count from the end, here as
            everywhere.
        cumulative: as in `rollout`: `[batch layer query key]`.
        sink: as in `rollout`. It costs the fused kernel one more column.
        **model_inputs: handed to the model (`token_type_ids`, `position_ids`).

    Returns:
        `[batch query key]`, or `[batch layer query key]` if `cumulative`. Without `keys`, rows sum to 1.

    Raises:
        ValueError: there are no tokens, or more than the model's context; the model is an encoder-decoder
            (its encoder alone is accepted), reads a learned prompt (PEFT), mixes tokens by more than
            attention (recurrence, convolution), or computes attention outside of the interface; its kernel
            does not leave out padding, or the mask has gaps between tokens; shapes do not fit; the model's
            forward has no such option; the model computes NaN.
    """
    read = read_names(model) if model_inputs else []
    if "input_ids" in read and (swallowed := [name for name in model_inputs if name not in read]):
        own = [*inspect.signature(rollout_of).parameters][1:-1]
        what = f"an option of rollout_of, or of {type(model).__name__}.forward,"
        raise unknown(what, swallowed[0], dict.fromkeys([*own, *read]))
    input_ids, attention_mask = check_prompt(model, input_ids, attention_mask)
    model_inputs = brought_by_name(model, model_inputs)
    batch, n, device = *input_ids.shape, input_ids.device
    columns = torch.arange(n, device=device) if keys is None else token_indices(keys, n, "keys", device)
    queries = None if rows is None else token_indices(rows, n, "rows", device)
    dtype = model_dtype(model)
    real = None if attention_mask is None or bool(attention_mask.all()) else attention_mask.bool().clone()

    options: dict[str, Any] = {
        "real": real,
        "cumulative": cumulative,
        "non_sink": None if sink is None else non_sink_mask(sink, n, device),
    }
    if queries is None or not len(queries) or len(queries) + FEW_KEYS >= len(columns):
        start = one_hot(columns, (batch, n), dtype)
        recursion = Recursion(start, once=True, identity=keys is None, **options)
        watched_pass(model, [recursion], input_ids, attention_mask, **model_inputs)
        states = recursion.history if cumulative else [recursion.state]
        states = [state.to(device) for state in states]
        states = states if queries is None else [state[:, queries] for state in states]
    else:
        descent = TopDownRecursion(queries, (batch, n), dtype, **options)
        if descent.read(model, input_ids, attention_mask, **model_inputs):
            states = descent.down()
        else:  # a column per requested row; only its gradient matters
            start = torch.zeros(batch, n, len(queries), dtype=dtype, device=device).requires_grad_()
            recursion = Recursion(start, **options)
            watched_pass(model, [recursion], input_ids, attention_mask, gradients=True, **model_inputs)
            above = recursion.history if cumulative else [recursion.state]
            states = [_backwards(start, state.to(device), queries) for state in above]
        states = [state[..., columns] for state in states]
    result = torch.stack(states, 1) if cumulative else states[0]
    if real is not None:
        result = _blank_padding(result, real, queries, columns)
    if not bool(torch.isfinite(result).all()):
        bad = (~torch.isfinite(result)).flatten(1).any(1).nonzero().flatten().tolist()
        raise ValueError(f"the model's attention must be finite; got NaN or infinity in batch elements {bad}")
    return result


def _backwards(start: Tensor, state: Tensor, queries: Tensor) -> Float[Tensor, "batch query key"]:
    """Rows of `M` in `R_l = M R_0`: column `i` of the gradient of `sum_i R_l[q_i, i]` is `M[q_i]`."""
    with torch.enable_grad():
        picked = state[:, queries, torch.arange(len(queries), device=state.device)].sum()
    return torch.autograd.grad(picked, start, retain_graph=True)[0].mT


def _blank_padding(result: Tensor, real: Tensor, queries: Tensor | None, columns: Tensor) -> Tensor:
    seen = (real if queries is None else real[:, queries])[:, :, None] & real[:, None, columns]
    return result * (seen if result.ndim == 3 else seen[:, None])


@torch.no_grad()
def follow_layers(
    model: nn.Module,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Bool[Tensor, "batch token"] | None = None,
    *,
    on_layer: OnLayer,
    rollout: bool = True,
    logits_from: int = 0,
) -> Pass:
    """Run a causal language model once, on any kernel, and hand each layer's attention to `on_layer`.

    `on_layer` gets each layer's number, from 0, and its head-mean attention. Padding stands on the right.
    Memory beyond the forward pass is `batch x N x N` for the average, and for rollout, whatever the number of
    layers and heads.
    """
    if attention_mask is not None:
        padded = bool((attention_mask[:, 1:] & ~attention_mask[:, :-1]).any())
        check(not padded, "attention_mask must be padding on the right only", attention_mask)
    input_ids, attention_mask = check_prompt(model, input_ids, attention_mask)
    columns = torch.arange(input_ids.shape[1], device=input_ids.device)
    start = one_hot(columns, (len(input_ids), len(columns)), model_dtype(model))
    recursion, seen = Recursion(start, real=attention_mask), 0

    def mean(call: AttentionCall) -> Generator[Wanted, Product, None]:
        nonlocal seen
        product, _ = yield Wanted()
        on_layer(seen, product)
        seen += 1

    observers: list[Observer] = [mean, recursion] if rollout else [mean]
    logits = watched_pass(model, observers, input_ids, attention_mask, logits_from=logits_from)
    assert logits is not None
    return Pass(logits, recursion.state if rollout else None, seen)


@torch.no_grad()
def check_causal(model: nn.Module, input_ids: Int[Tensor, "batch token"]) -> None:
    """Raise a `ValueError` if the model is not causal: if tokens of the first prompt look at its last."""
    tokens = input_ids[:1] if input_ids.shape[1] > 1 else input_ids[:1].expand(1, 2)
    ahead: list[Tensor] = []

    def last_key(call: AttentionCall) -> Generator[Wanted, Product, None]:
        n = call.query.shape[2]
        last = one_hot(torch.tensor([n - 1], device=tokens.device), (1, n), model_dtype(model))
        product, _ = yield Wanted(last)
        ahead.append(product[:, :-1].abs().amax())

    tokens, _ = check_prompt(model, tokens, None)
    watched_pass(model, [last_key], tokens, logits_from=0)
    if bool(torch.stack(ahead).amax() > 0):
        raise ValueError(
            f"{type(model).__name__} is not causal: its attention looks at tokens that come later, so it "
            "reads the answer that it should predict. Give a causal language model (for an attnlib "
            "Transformer, causal=True)."
        )
