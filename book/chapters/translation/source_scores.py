r"""What each source token meant for each target token: attention, keyword relevance, gradient influence.

Of a target token $y_t$, which the model is to predict, and a source token $s$:

* `alpha`, attention: $\alpha_{ts}$, the share of the head's attention on the source token;
* `beta`, keyword relevance: $\log p(y_t)$ as the model would have it if all attention were on the source
  token, that is if the context were $W_c h_s + b_c$; of a model trained with uniform attention, the study's
  $\beta^{\mathrm{uf}}$. Where context is added, the original leaves the decoder's state out, and so do we;
* `delta`, gradient influence: $\Delta_{ts} = \partial \log p(y_t) / \partial g_s$ at $g_s = 1$, where $g_s$
  multiplies the source token's vector. Positive if more of it makes the target token more likely. (The sign
  is the original's: the slip that turns it round is in its half on classification.)

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns*, and the
authors' code.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlib.generators.translation import PairBatch, Pairs
from attnlib.models.attention import evaluating
from attnlib.models.base import without_cudnn
from attnlib.models.seq2seq import Decoded, Encoded, Seq2Seq

CELLS = 4_000_000
"""Logits that are computed at a time: so many fit into a processor's cache, or nearly."""


@dataclass(frozen=True)
class SourceScores:
    """What each source token meant for each target token to one model; ragged like `Pairs`.

    Attributes:
        alpha: attention.
        beta: keyword relevance.
        log_probability: of each target token, as the model has it.
        right: whether each target token was the most probable one.
        delta: gradient influence; `None` if it was not asked for.
    """

    alpha: Float[Tensor, " pairs"]
    beta: Float[Tensor, " pairs"]
    log_probability: Float[Tensor, " targets"]
    right: Bool[Tensor, " targets"]
    delta: Float[Tensor, " pairs"] | None = None

    @property
    def accuracy(self) -> float:
        """The share of target tokens that were the most probable ones, given those before."""
        return float(self.right.double().mean())

    @property
    def perplexity(self) -> float:
        r"""$\exp(-\frac{1}{T} \sum_t \log p(y_t))$ over all target tokens."""
        return float(self.log_probability.double().mean().neg().exp())


def source_scores(
    model: Seq2Seq, pairs: Pairs, *, beta: bool = True, delta: bool = True, batch_size: int = 64
) -> SourceScores:
    """What each source token means to a model for each target token, given the target tokens before it.

    Args:
        model: left in the mode it had, with no gradients.
        pairs: any, evaluated in order of length, returned in their own order.
        beta: whether to compute the keyword relevance; else it is NaN.
        delta: whether to compute the gradient influence, which costs a pass backwards for each place in the
            longest target sentence.
        batch_size: sentences at a time; changes nothing but speed and memory.

    Raises:
        ValueError: there are no pairs.
    """
    if not len(pairs):
        raise ValueError("there should be pairs of sentences; there are none")
    device = next(model.parameters()).device
    n_pairs, n_targets = int(pairs.pair_counts.sum()), len(pairs.predicted)
    flat = {"alpha": torch.empty(n_pairs), "beta": torch.full((n_pairs,), float("nan"))}
    flat |= {"delta": torch.empty(n_pairs)} if delta else {}
    log_probability, right = torch.empty(n_targets), torch.empty(n_targets, dtype=torch.bool)
    with evaluating(model):
        for batch in pairs.in_batches(batch_size):
            places, targets = pairs.positions(batch.rows), pairs.target_positions(batch.rows)
            batch = batch.to(device)
            with torch.no_grad():
                encoded = model.encode(batch.source, batch.source_lengths)
                decoded = model.decode(batch.target[:, :-1], encoded)
                found = {"alpha": decoded.alpha[batch.pairs]}
                if beta:
                    found["beta"] = keyword_relevance(model, batch, encoded, decoded)
                logits = model.to_vocabulary(decoded.joined[batch.real])
            gold = batch.predicted[batch.real]
            log_probability[targets] = logits.log_softmax(-1).gather(1, gold[:, None])[:, 0].float().cpu()
            right[targets] = (logits.argmax(-1) == gold).cpu()
            if delta:
                found["delta"] = gradient_influence(model, batch)[batch.pairs]
            for name, values in found.items():
                flat[name][places] = values.float().cpu()
    return SourceScores(flat["alpha"], flat["beta"], log_probability, right, flat.get("delta"))


@torch.no_grad()
def keyword_relevance(
    model: Seq2Seq, batch: PairBatch, encoded: Encoded, decoded: Decoded
) -> Float[Tensor, " pairs"]:
    """Keyword relevance of every target token with every source token of a batch; see the module."""
    weights, bias = model.to_vocabulary.weight, model.to_vocabulary.bias
    if model.config.context == "added":  # without the decoder's state: the same for all target tokens
        lines = model.to_vocabulary(encoded.context).log_softmax(-1)
        gold = batch.predicted[:, None].expand(-1, lines.shape[1], -1)
        return lines.gather(2, gold).transpose(1, 2)[batch.pairs]
    joined = model.join(decoded.states[:, :, None], encoded.context[:, None])[batch.pairs]
    gold = batch.predicted[..., None].expand(-1, -1, batch.source.shape[1])[batch.pairs]
    found = joined.new_empty(len(joined))
    size = max(1, CELLS // len(weights))
    for start in range(0, len(joined), size):
        part, line = joined[start : start + size], gold[start : start + size]
        logits = torch.addmm(bias, part, weights.T)
        chosen, highest = logits.gather(1, line[:, None])[:, 0], logits.amax(1)
        # By hand, in place: torch's logsumexp takes three times as long.
        total = logits.sub_(highest[:, None]).exp_().sum(1).log_().add_(highest)
        found[start : start + size] = chosen - total
    return found


def gradient_influence(model: Seq2Seq, batch: PairBatch) -> Float[Tensor, "batch target source"]:
    """Delta of every target token with every source token of a batch; see the module.

    One pass forwards, and one backwards for each place in the target sentences, of all sentences at once.
    """
    needed = {weight: weight.requires_grad for weight in model.parameters()}
    try:
        for weight in needed:
            weight.requires_grad_(False)
        with torch.enable_grad(), without_cudnn():
            scale = torch.ones(batch.source.shape, device=batch.source.device, requires_grad=True)
            encoded = model.encode(batch.source, batch.source_lengths, scale)
            decoded = model.decode(batch.target[:, :-1], encoded)
            found = []
            for place in range(decoded.joined.shape[1]):
                lines = model.to_vocabulary(decoded.joined[:, place]).log_softmax(-1)
                gold = lines.gather(1, batch.predicted[:, place, None]).sum()
                found.append(torch.autograd.grad(gold, scale, retain_graph=True)[0])
    finally:
        for weight, need in needed.items():
            weight.requires_grad_(need)
    return torch.stack(found, 1)


def word_translation_scores(
    log_probabilities: Float[Tensor, "word word"], pairs: Pairs
) -> Float[Tensor, " pairs"]:
    r"""$\beta^{\mathrm{px}}$: the log-probability of each target token given each source token alone.

    Args:
        log_probabilities: of a target token (column) given a source token (row).
        pairs: any, of the same vocabulary.
    """
    return log_probabilities[pairs.source_of_pair, pairs.target_of_pair]
