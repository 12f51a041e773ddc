"""Losses and scores of models that predict a class at every token."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from attnlib.generators.base import IGNORE, Batch, Head, moved
from attnlib.models.base import evaluating


@dataclass(frozen=True)
class TokenLoss:
    r"""A loss for `fit`: cross entropy of the targets, plus the error of supervised attention.

    $$L = -\tfrac{1}{|T|} \sum_{t \in T} \log p(y_t) + w \, E$$

    with $T$ the tokens of the batch whose target is not `IGNORE`, $y_t$ their targets, $w$ the
    `attention_weight`, and $E$ the `attention_error`, left out where a batch has no target attention.

    Attributes:
        attention_weight: $w$; with 0 the model does not compute attention weights for the loss.
        as_published: see `attention_error`.
    """

    attention_weight: float | int = 0.0
    as_published: bool = field(default=False, kw_only=True)

    def __call__(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The scalars `loss` (L), `cross_entropy`, and `attention` (E), if E is part of the loss."""
        supervised = bool(batch.target_attention) and self.attention_weight > 0
        output, cross_entropy = _called(model, batch, attention=supervised)
        if not supervised:
            return {"loss": cross_entropy, "cross_entropy": cross_entropy}
        found, real = stacked_attentions(output), batch.attention_mask
        error = attention_error(found, batch.target_attention, real, as_published=self.as_published)
        total = cross_entropy + self.attention_weight * error
        return {"loss": total, "cross_entropy": cross_entropy, "attention": error}


token_loss = TokenLoss


@dataclass(frozen=True)
class ReferenceLoss:
    r"""A loss for `fit`: cross entropy, plus the negative log attention mass on the reference keys.

    $$L = -\tfrac{1}{|T|} \sum_{t \in T} \log p(y_t)
          - \tfrac{w}{|R|} \sum_{r \in R} \log \sum_k S_{rk} \bar A_{rk}$$

    with $w$ the `weight`, $T$ the tokens whose target is not `IGNORE`, $R$ the rows (queries) of all samples
    with at least one reference key, $S$ the batch's 0/1 `reference` and $\bar A$ the mean attention of
    `heads` (None: all heads). The loss does not say how a row divides this mass among its reference keys.
    """

    weight: float | int
    heads: Sequence[Head] | None = None

    def __call__(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The scalars `loss` (L), `cross_entropy`; with a reference and w > 0, `attention` (mean over R)."""
        reference = batch.reference if self.weight > 0 else None
        output, cross_entropy = _called(model, batch, attention=reference is not None)
        if reference is None:
            return {"loss": cross_entropy, "cross_entropy": cross_entropy}
        attentions = stacked_attentions(output)
        mean = attentions.mean((1, 2)) if self.heads is None else _of_heads(self.heads, attentions).mean(1)
        rows = reference.any(-1)
        asked = rows.flatten().nonzero()[:, 0]  # a mask as index would make the backward pass wait, too
        mass = (mean * reference).sum(-1).flatten()[asked]
        error = -mass.clamp(min=torch.finfo(mass.dtype).tiny).log().sum() / rows.sum().clamp(min=1)
        total = cross_entropy + self.weight * error
        return {"loss": total, "cross_entropy": cross_entropy, "attention": error}


reference_loss = ReferenceLoss


def _called(model: nn.Module, batch: Batch, attention: bool) -> tuple[Any, Tensor]:
    """The output of a model, with attention if requested, and the cross entropy of the targets."""
    output = model(**batch.inputs, **({"output_attentions": True} if attention else {}))
    logits, targets = output.logits.flatten(0, 1), batch.target_ids.flatten()
    return output, F.cross_entropy(logits, targets, ignore_index=IGNORE)


def stacked_attentions(output: Any) -> Float[Tensor, "batch layer head query key"]:
    """The attention in a model's output, as one tensor; Hugging Face models return a tuple of layers."""
    attentions = getattr(output, "attentions", None)
    if attentions is None or (not torch.is_tensor(attentions) and any(a is None for a in attentions)):
        raise ValueError(
            "the model returned no attention: call it with output_attentions=True, and have a Hugging Face "
            'model compute it with model.set_attn_implementation("eager")'
        )
    return attentions if torch.is_tensor(attentions) else torch.stack(tuple(attentions), dim=1)


def _of_heads(
    heads: Collection[Head], attentions: Float[Tensor, "batch layer head query key"]
) -> Float[Tensor, "batch some query key"]:
    """The attention of some heads. Does not wait for the device, as indexing by lists would."""
    _, n_layers, n_heads, _, _ = attentions.shape
    for layer, head in heads:
        if not (0 <= layer < n_layers and 0 <= head < n_heads):
            raise ValueError(f"heads must be of {n_layers} layers of {n_heads} heads; got L{layer}H{head}")
    places = torch.tensor([layer * n_heads + head for layer, head in heads])
    return attentions.flatten(1, 2).index_select(1, moved(places, attentions.device))


def attention_error(
    attentions: Float[Tensor, "batch layer head token token"],
    targets: dict[Head, Bool[Tensor, "batch token token"]],
    real: Bool[Tensor, "batch token"],
    *,
    as_published: bool = False,
) -> Float[Tensor, ""]:
    r"""Squared error of attention from its target (Weiss et al. 2021, *Thinking Like Transformers*).

    $$E = \tfrac{1}{|R|} \sum_{r \in R} \sum_k (A_{rk} - P_{rk})^2, \quad
      P_{rk} = \frac{S_{rk} + \epsilon}{\sum_j (S_{rj} + \epsilon)}, \quad \epsilon = 10^{-8}$$

    with $R$ the rows (queries) of all samples and supervised heads, $A$ the attention and $S$ the 0/1 target;
    rows and keys $k$, $j$ are real tokens only, and the target of a row of $S$ without a 1 is uniform
    attention. $E$ is between 0 and 2 at any length.

    Args:
        attentions: $A$, before dropout (the authors' code takes it after dropout, which adds noise).
        targets: $S$ of each supervised head.
        real: True for tokens, False for padding.
        as_published: the mean over the $n^2$ entries of each head of each sample, as in the authors' code.
            This divides a sample's error by its length $n$ once more, so that long samples count less.
    """
    pairs = (real[:, None, :] & real[:, :, None])[:, None]  # batch, head, query, key
    wanted = (torch.stack(list(targets.values()), dim=1) + 1e-8) * pairs
    wanted = wanted / wanted.sum(-1, keepdim=True).clamp(min=1e-30)
    squares = ((_of_heads(targets, attentions) - wanted) ** 2 * pairs).sum(-1)
    if as_published:
        return (squares.sum(-1) / real.sum(-1, keepdim=True).clamp(min=1) ** 2).mean()
    return squares.sum() / (real.sum() * len(targets))


@torch.no_grad()
def score_samples(model: nn.Module, batches: Iterable[Any]) -> Int64[Tensor, "sample 2"]:
    """The numbers of right tokens and of tokens with a target, for every sample, on the CPU.

    The model must return `logits` [batch token class]. It is called in evaluation mode, on its own device,
    and then has its former mode again. A sample without targets counts as 0 of 0.
    """
    device = next(model.parameters()).device
    rows = [torch.zeros(0, 2, dtype=torch.int64, device=device)]
    with evaluating(model):
        for batch in batches:
            batch = batch.to(device)
            predicted = model(**batch.inputs).logits.argmax(-1)
            asked = batch.target_ids != IGNORE
            right = asked & (predicted == batch.target_ids)
            rows.append(torch.stack([right.sum(1), asked.sum(1)], dim=1))
    return torch.cat(rows).cpu()


def token_scores(model: nn.Module, batches: Iterable[Any]) -> dict[str, float]:
    """Accuracy over all predicted tokens, and the share of samples that are right at every one of them.

    Args:
        model: see `score_samples`.
        batches: batches of samples; all tokens, and all samples, have equal weight across batches.

    Returns:
        `accuracy` and `exact_match`, in [0, 1]; NaN if no token has a target.
    """
    right, asked = score_samples(model, batches).T
    whole = (right == asked)[asked > 0].cpu().double()
    return {"accuracy": float(right.sum() / asked.sum()), "exact_match": float(whole.mean())}


@torch.no_grad()
def token_scores_and_loss(model: nn.Module, batches: Sequence[Any]) -> dict[str, float]:
    """`token_scores`, and the mean cross entropy of all predicted tokens, in nats, as `valid_loss`."""
    device, totals = next(model.parameters()).device, []
    with evaluating(model):
        for batch in batches:
            batch = batch.to(device)
            logits, targets = model(**batch.inputs).logits.flatten(0, 1), batch.target_ids.flatten()
            loss = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
            totals.append(torch.stack([loss, (targets != IGNORE).sum()]))
    total, asked = torch.stack(totals).cpu().double().sum(0)
    return {**token_scores(model, batches), "valid_loss": float(total / asked)}
