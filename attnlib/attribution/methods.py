r"""Other answers to "which prompt tokens did this prediction draw on?", to compare rollout with.

With `A_lh` the attention of head `h` of layer `l`, `e_k` the input embedding of token `k`, and `y` the token
predicted by the query `q`, which stands at the end of the prompt `x_1 ... x_n`:

    raw attention, last layer   mean_h A_Lh[q, k]
    mean attention              mean_l mean_h A_lh[q, k]
    gradient x embedding        e_k . d log p(y | x) / d e_k
    blank-out                   log p(y | x) - log p(y | x without x_k)

The last is the costly gold standard: it changes the input and looks what happens, for one forward pass per
token. The third is its first-order estimate, for one forward and one backward pass: the change of `log p` if
`e_k` went to zero.

References:
    1) Abnar and Zuidema 2020, *Quantifying attention flow in transformers*, section 4: raw attention, rollout
       and gradients, compared with blank-out (there, tokens are replaced; see `blank_out`).
    2) Shrikumar et al. 2016, *Not just a black box*: gradient x input. Denil et al. 2014, *Extraction of
       salient sentences from labelled documents*: for words.
    3) Zeiler and Fergus 2014, *Visualizing and understanding convolutional networks*: leaving parts out.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.models.attention import evaluating
from attnlib.models.attention.call import AttentionCall, Product, Wanted
from attnlib.models.attention.forward import Mask, check_prompt, model_dtype, watched_pass
from attnlib.rollout.inputs import sink_mask, token_indices
from attnlib.rollout.recursion import Recursion, one_hot


class Followed(NamedTuple):
    """What one forward pass of a causal language model tells, all of it of the same computation.

    Attributes:
        logits: of the positions from `logits_from` on.
        last: head-mean attention of the last layer.
        mean: the same, averaged over layers.
        rollout: as `rollout_of`.
        sink_free: as `rollout_of` with `sink`.
    """

    logits: Float[Tensor, "batch position vocabulary"]
    last: Float[Tensor, "batch query key"]
    mean: Float[Tensor, "batch query key"]
    rollout: Float[Tensor, "batch query key"]
    sink_free: Float[Tensor, "batch query key"]


def raw_attention(
    model: nn.Module,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Mask = None,
    *,
    rows: Sequence[int] | None = None,
    **model_inputs: Any,
) -> tuple[Float[Tensor, "batch query key"], Float[Tensor, "batch query key"]]:
    """Head-mean attention of the last layer, and its mean over layers, on any kernel.

    Attention is caught where it is computed, and formed in blocks of rows; one layer's at a time.

    Args:
        model: as in `rollout_of`.
        input_ids: the tokens.
        attention_mask: 1 for tokens, 0 for padding; rows and columns of padding are zero.
        rows: query positions to return, negative ones from the end; all by default.
        **model_inputs: handed to the model.

    Raises:
        ValueError: as in `rollout_of`.
    """
    n, device = input_ids.shape[1], input_ids.device
    queries = token_indices(range(n) if rows is None else rows, n, "rows", device)
    raw = _Raw(queries)
    watched_pass(model, [raw], input_ids, attention_mask, **model_inputs)
    if attention_mask is None:
        return raw.last, raw.total / raw.layer
    real = attention_mask.bool()
    seen = real[:, queries, None] & real[:, None]
    return raw.last * seen, raw.total / raw.layer * seen


def follow(
    model: nn.Module,
    input_ids: Int[Tensor, "batch token"],
    *,
    rows: Sequence[int] | None = None,
    sink: Sequence[int] = (0,),
    logits_from: int = -1,
) -> Followed:
    """Raw attention, rollout with and without sinks, and logits, from one forward pass without padding.

    Args:
        model: a causal Hugging Face language model that `rollout_of` can follow.
        input_ids: the tokens, of one length.
        rows: query positions to return; all by default.
        sink: as in `rollout`.
        logits_from: the first position to give logits of (a vocabulary's worth each); the last by default.

    Raises:
        ValueError: as in `rollout_of`.
    """
    (batch, n), device = input_ids.shape, input_ids.device
    queries = token_indices(range(n) if rows is None else rows, n, "rows", device)
    start = one_hot(torch.arange(n, device=device), (batch, n), model_dtype(model))
    raw, plain = _Raw(queries), Recursion(start)
    free = Recursion(start, stays=sink_mask(sink, n, device))
    first = int(token_indices([logits_from], n, "logits_from", device))
    logits = watched_pass(model, [raw, plain, free], input_ids, logits_from=first)
    assert logits is not None
    return Followed(logits, raw.last, raw.total / raw.layer, plain.state[:, queries], free.state[:, queries])


class _Raw:
    """Head-mean attention of some rows: the last layer's, and the sum over layers."""

    def __init__(self, queries: Tensor) -> None:
        self.queries, self.layer = queries, 0
        self.last: Any = None
        self.total: Any = 0.0

    def __call__(self, call: AttentionCall) -> Generator[Wanted, Product, None]:
        mean, _ = yield Wanted()
        self.last = mean[:, self.queries]
        self.total = self.total + self.last
        self.layer += 1


def input_gradient_x_embedding(
    model: Any,
    input_ids: Int[Tensor, "batch token"],
    targets: Int[Tensor, " batch"] | None = None,
    **model_inputs: Any,
) -> Float[Tensor, "batch token"]:
    """Gradient x embedding for the token predicted at the end of each prompt (no padding).

    Args:
        model: a Hugging Face causal language model.
        input_ids: prompts of one length.
        targets: the predicted tokens `y`; the most probable ones by default.
        **model_inputs: handed to the model.

    Returns:
        Nats, in float32 or better; positive for tokens that speak for `y`.

    Raises:
        ValueError: there are no tokens, or more than the model's context.
    """
    check_prompt(model, input_ids, None)
    embedded = model.get_input_embeddings()(input_ids).detach().requires_grad_()
    with torch.enable_grad(), evaluating(model):
        logits = _logits(model, 1, inputs_embeds=embedded, **model_inputs)[:, -1]
        chosen = logits.argmax(-1) if targets is None else targets
        score = logits.to(model_dtype(model)).log_softmax(-1).gather(1, chosen[:, None]).sum()
        gradient = torch.autograd.grad(score, embedded)[0]
    return (gradient.to(model_dtype(model)) * embedded.detach()).sum(-1)


@torch.no_grad()
def blank_out(
    model: Any,
    input_ids: Int[Tensor, " token"],
    target: int | None = None,
    *,
    replacement: int | None = None,
    batch_size: int = 8,
) -> Float[Tensor, " token"]:
    r"""How much less likely the prediction gets when one prompt token is missing.

    Token `k` is left out, and the others keep their positions: what is left is what a mask on key `k` in
    every layer would leave. (Abnar and Zuidema put an "unknown" token there: a `replacement`. Today's
    language models have no token for that which they have seen in training.) The last token is where the
    prediction is made; its score is NaN if tokens are left out.

    `batch_size` prompts run at once, from the keys and values of the tokens before the first of them that
    differs, which are computed once: about half the operations of `n` forward passes.

    Args:
        model: a Hugging Face causal language model.
        input_ids: one prompt of at least 2 tokens.
        target: the predicted token `y`; the most probable one by default.
        replacement: put this token in `k`'s place instead of leaving it out.
        batch_size: how many prompts at once; memory goes with it.

    Returns:
        Nats, in float32 or better; positive for tokens that speak for `y`.

    Raises:
        ValueError: fewer than 2 tokens, or more than the model's context.
    """
    check_prompt(model, input_ids[None], None)
    n, device = len(input_ids), input_ids.device
    if n < 2:
        raise ValueError("blank_out needs a prompt of at least 2 tokens, one to leave out and one to ask at.")
    left_out = n - 1 if replacement is None else n
    with evaluating(model):
        score = _logits(model, 1, input_ids=input_ids[None])[0, -1].to(model_dtype(model)).log_softmax(-1)
        chosen = int(score.argmax()) if target is None else target
        drop = torch.full((n,), torch.nan, dtype=score.dtype, device=device)
        past = None
        for first in range(0, left_out, batch_size):
            blanked = torch.arange(first, min(first + batch_size, left_out), device=device)
            place = torch.arange(n, device=device).expand(len(blanked), -1)
            ids = input_ids.expand(len(blanked), -1)
            if replacement is None:
                kept = place != blanked[:, None]
                ids, place = (x[kept].view(len(blanked), -1) for x in (ids, place))
            else:
                ids = ids.scatter(1, blanked[:, None], replacement)
            logits = _continue(model, past, first, ids, place)
            drop[blanked] = score[chosen] - logits.to(score.dtype).log_softmax(-1)[:, chosen]
            block = input_ids[None, first : first + batch_size]
            past = model(input_ids=block, past_key_values=past, use_cache=True).past_key_values
    return drop


def _continue(
    model: Any,
    past: Any,
    shared: int,
    ids: Int[Tensor, "batch token"],
    place: Int[Tensor, "batch token"],
) -> Float[Tensor, "batch vocabulary"]:
    """Logits at the end of prompts whose first `shared` tokens are those of which `past` has the cache."""
    past = copy.deepcopy(past)
    if past is not None:
        past.batch_repeat_interleave(len(ids))
    # with a mask given, a gap in the positions is not taken for the border of two packed prompts
    logits = _logits(
        model,
        1,
        input_ids=ids[:, shared:],
        position_ids=place[:, shared:],
        attention_mask=torch.ones_like(ids),
        past_key_values=past,
    )
    return logits[:, -1]


def _logits(model: Any, keep: int, **inputs: Any) -> Float[Tensor, "batch position vocabulary"]:
    """The logits of the last `keep` positions."""
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        inputs["logits_to_keep"] = keep
    return model(**inputs).logits[:, -keep:]
