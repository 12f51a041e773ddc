r"""Perturbation measures: change what a model reads or sees, one token at a time, and compare predictions.

They are costly, but the gold standard. With `s` the score of the prediction (`attnlib.attribution.prompts`),
`z_hqk` the scores before the softmax of head `h`, query `q` and key `k`, `x_k` the stream of token `k` (its
input embedding, or a layer's output) and `x'_k` that of a counterfactual prompt at the same position:

    blank-out               s - s(without x_k)
    AtMan                   s - s(z_hqk -> (1 - f) z_hqk for all h and q)
    attention knockout      s - s(z_hqk -> -infinity for all h, q the query)
    activation patching     s - s(x_k -> x'_k)
    attribution patching    (x_k - x'_k) . d s / d x_k

All are positive for tokens that speak for the target. AtMan measures the change of the target's loss, `-s`.
Where scores are negative, its factor brings them *up* to 0: that is how the method is published. The
suppression of tokens with similar embeddings, which its authors add for images, is left out. (A bias of the
scores, such as that of relative positions, is not multiplied.) Activation patching is the causal standard: it
only uses vectors that real prompts produce, and is 0 for tokens up to which the two prompts are the same.
At the input embeddings, it replaces that one token of the prompt. Attribution patching is its first-order
estimate, for the cost of one forward and one backward pass and a forward pass of the counterfactual.

References:
    Zeiler and Fergus 2014, *Visualizing and understanding convolutional networks*: leaving parts out. Abnar
    and Zuidema 2020, *Quantifying attention flow in transformers*, section 2 (there, tokens are replaced).
    Deiseroth et al. 2023, *AtMan: understanding transformer predictions through memory efficient attention
    manipulation*, section 3. Geva et al. 2023, *Dissecting recall of factual associations in auto-
    regressive language models*, section 5: there in a window of layers. Vig et al. 2020, *Causal mediation
    analysis for interpreting neural NLP*, and Meng et al. 2022, *Locating and editing factual associations
    in GPT*: patching. Nanda 2023, *Attribution patching*; Syed et al. 2023, *Attribution patching
    outperforms automated circuit discovery*: its estimate.
"""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.attribution.assumptions import (
    alike,
    check_assumption,
    hands_gradients_on,
    hides_nothing_else,
    reads_nothing_else,
)
from attnlib.attribution.perturbation_engine import PerturbedBatch, Run, places, score_drops, scores_under
from attnlib.attribution.prompts import MUST_READ_ANOTHER, Prompts, check_token, measure
from attnlib.attribution.stream import passing, slope, stream_of
from attnlib.checks import check, check_between, check_one_of
from attnlib.models.attention import AttentionCall, evaluating
from attnlib.models.attention.forward import first_position, logits_of, taken_by
from attnlib.models.attention.inputs import Inputs, inputs_changed, keys_hidden
from attnlib.models.causal import is_causal
from attnlib.models.transformer import Transformer

Scores = Float[Tensor, "batch key"]


@measure
@torch.no_grad()
def blank_out(
    model: nn.Module, prompts: Prompts, *, replacement: int | None = None, batch_size: int = 8
) -> Float[Tensor, "batch key"]:
    """How much less likely the prediction gets when one token is missing, in nats; NaN at the query.

    Token `k` is left out, and the others keep their positions, as if `k` were masked in every layer. This is
    not so for an attention window shorter than the prompt, nor for a model that takes no positions (MPT):
    use `attention_knockout` of "all" there. With a `replacement` in `k`'s place, the query has a score, too.
    """
    if replacement is not None:
        check_token(model, "replacement", replacement)
    causal = is_causal(model)
    ids = prompts.ids[:, : prompts.query + 1] if causal else prompts.ids
    check(ids.shape[1] >= 2, MUST_READ_ANOTHER, f"{ids.shape[1]} token")
    with evaluating(model):
        logits = logits_of(model, ids, start=prompts.query)[:, 0]
        aimed = prompts._replace(ids=ids).aimed(logits)
        whole = aimed.score(logits)
        cached = causal and _goes_on_from_its_cache(model, ids[:1], prompts.query, logits[:1])
        run, n = _without(model, cached, aimed, replacement), ids.shape[1]
        left_out = [place for place in range(n) if replacement is not None or place != prompts.query]
        changes = [torch.tensor(left_out, device=ids.device)] * len(ids)
        scores = whole.new_zeros(prompts.ids.shape)
        scores[:, :n] = torch.nan
        scores[:, left_out] = whole[:, None] - torch.stack(scores_under(aimed, changes, run, batch_size))
    return scores


def _without(model: Any, cached: bool, prompts: Prompts, replacement: int | None) -> Run:
    """The function that runs a prompt without each of some tokens, which have to come in ascending order."""
    known = taken_by(model)
    n, device = prompts.ids.shape[1], prompts.ids.device
    # if no token is left out or cached, the model's own positions are right
    first = first_position(model) if "position_ids" in known and (cached or replacement is None) else None
    asked, past, shared = -1, None, 0  # `past`: the cache of the first `shared` tokens of prompt `asked`

    def run(one: int, some: Tensor) -> Tensor:
        nonlocal asked, past, shared
        if one != asked:
            asked, past, shared = one, None, 0
        if cached and (before := int(some[0])):
            block = prompts.ids[[one], shared:before]
            past = model(input_ids=block, past_key_values=past, use_cache=True).past_key_values
            shared = before
        ids, place = prompts.ids[[one] * len(some)], torch.arange(n, device=device).expand(len(some), -1)
        at: int | Tensor = prompts.query - n
        if replacement is None:
            kept = place != some[:, None]
            ids, place = (each[kept].view(len(some), -1) for each in (ids, place))
            at = at + (some > prompts.query).long()  # a gap behind it moves the query up
        else:
            ids = ids.scatter(1, some[:, None], replacement)
        inputs: dict[str, Any] = {} if first is None else {"position_ids": first + place[:, shared:]}
        if past is not None:
            inputs["past_key_values"] = _copies(past, len(ids))
        # with a mask given, a gap in the positions is not taken for the border of two packed prompts
        mask = None if isinstance(model, Transformer) else torch.ones_like(ids)
        logits = logits_of(model, ids[:, shared:], mask, max(0, prompts.query - 1 - shared), **inputs)
        return logits[torch.arange(len(some), device=device), at]

    return run


def _copies(past: Any, count: int) -> Any:
    """A copy of one prompt's cache, repeated `count` times; it may grow without changing the original."""
    past = copy.deepcopy(past)
    past.batch_repeat_interleave(count)
    return past


def _goes_on_from_its_cache(
    model: Any, ids: Int[Tensor, "1 token"], query: int, logits: Float[Tensor, "1 vocabulary"]
) -> bool:
    """Whether continuing a prompt from copies of its own cache gives the logits of the whole pass."""
    known, n = taken_by(model), ids.shape[1]
    if "past_key_values" not in known:
        return False
    for start in {(query + 1) // 2, query} - {0}:
        inputs: dict[str, Any] = {}
        if "position_ids" in known:
            places = torch.arange(start, n, device=ids.device) + first_position(model)
            inputs["position_ids"] = places.expand(2, -1)
        try:
            past = model(input_ids=ids[:, :start], use_cache=True).past_key_values
            inputs["past_key_values"] = _copies(past, 2)
            mask = torch.ones_like(ids).expand(2, -1)
            found = logits_of(model, ids[:, start:].expand(2, -1), mask, query - start, **inputs)[:, 0]
        except Exception:  # a model whose cache is no keys and values may raise anything
            return False
        if not alike(found, logits.expand_as(found)):
            return False
    return True


@measure
def atman(model: nn.Module, prompts: Prompts, *, suppression: float = 0.9, batch_size: int = 8) -> Scores:
    """AtMan: the rise of the loss, in nats, when attention to a token is weakened; `suppression` is `f`."""
    check_between(0, 1, suppression=suppression)

    def perturb(copies: PerturbedBatch) -> AbstractContextManager[None]:
        def weaker(query: Tensor, key: Tensor, value: Tensor) -> Inputs:  # q . (1 - f) k = (1 - f) q . k
            there = places(copies.tokens, key.shape[2], copies.stop).to(key)
            return query, key * (1 - suppression * there)[:, None, :, None], value

        return inputs_changed(model, weaker)

    return score_drops(model, prompts, perturb, batch_size)


@measure
def attention_knockout(
    model: nn.Module, prompts: Prompts, *, queries: str = "query", batch_size: int = 8
) -> Scores:
    """Attention knockout: how much less likely the prediction gets when a token is hidden, in nats.

    Token `k` is hidden from the predicting "query" (which may still read of `k` in other tokens), or from
    "all" but `k`: in a causal model that is `blank_out`, unless a window is shorter than the prompt. A model
    that selects keys by the text (DeepSeek V3.2) may have selected `k` all the same, and sees a key less.
    """
    check_one_of(("query", "all"), queries=queries)
    causal = is_causal(model)
    some = prompts.ids.shape[1] >= 2 and (prompts.query or not causal)
    check(some, MUST_READ_ANOTHER, "1 token")
    check_assumption(model, hides_nothing_else)
    asking = prompts.ids.new_tensor([prompts.query])

    def perturb(copies: PerturbedBatch) -> AbstractContextManager[None]:
        def hidden(call: AttentionCall) -> Bool[Tensor, "copy 1 query key"]:
            key = places(copies.tokens, call.key.shape[2], copies.stop)
            who = places(asking if queries == "query" else copies.tokens, call.query.shape[2], copies.stop)
            who = who if queries == "query" else ~who
            return (who[:, :, None] & key[:, None, :])[:, None]

        return keys_hidden(model, hidden)

    if queries == "all" or not causal:
        return score_drops(model, prompts, perturb, batch_size)
    # only the query of each copy is computed again, so more copies fit into a batch
    return score_drops(model, prompts, perturb, 8 * batch_size, changes_from=prompts.query)


@measure
def activation_patching(model: nn.Module, prompts: Prompts, *, layer: int = 0, batch_size: int = 8) -> Scores:
    """Activation patching, in nats, of input embeddings (`layer` 0) or of a layer's output (from 1)."""
    other = prompts.otherwise("activation patching")
    if not layer:
        check_assumption(model, reads_nothing_else)
    there, _ = stream_of(model, torch.cat([prompts.ids, other]), prompts.query, layer)
    clean, patch = there.chunk(2)

    def perturb(copies: PerturbedBatch) -> AbstractContextManager[None]:
        def patched(stream: Tensor) -> Tensor:
            tokens = copies.tokens.to(stream.device)
            at = torch.arange(len(stream), device=stream.device), tokens - copies.start
            return stream.index_put(at, patch[copies.prompt, tokens])

        return passing(model, patched, layer)

    return score_drops(model, prompts, perturb, batch_size, tokens=(clean != patch).any(-1))


@measure
def attribution_patching(model: nn.Module, prompts: Prompts, *, layer: int = 0) -> Scores:
    """Attribution patching, in nats; `layer` as in `activation_patching`."""
    other = prompts.otherwise("attribution patching")
    check_assumption(model, hands_gradients_on)
    if not layer:
        check_assumption(model, reads_nothing_else)
    clean, gradient = slope(model, prompts, layer)
    patch, _ = stream_of(model, other, prompts.query, layer)
    return (gradient * (clean - patch)).sum(-1)
