"""Sequence packing: a `Transformer` on texts of mixed lengths, without most of their padding.

The rows of a batch are sorted by length and cut into groups, each padded to its longest row. Operations on
single tokens (embedding, linear layers, norms, feed-forward blocks) run once, on all groups laid end to end;
attention runs group by group. The rows of a batch do not interact, so logits and gradients equal those of the
plain pass. For 50 texts of 1 to 100 tokens, about 54 % of the tokens of the padded batch remain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor, nn

from attnlib.checks import check, check_at_least
from attnlib.generators.base import IGNORE, Batch
from attnlib.models.attention import replacing
from attnlib.models.transformer import Transformer
from attnlib.training.objectives import attention_error

GROUP = 4
"""Rows per group, chosen by timing: smaller groups have less padding, but more calls of attention."""


@dataclass(frozen=True, eq=False)
class Packing:
    """How the rows of a padded batch are laid end to end.

    Attributes:
        rows: which rows of the batch each group holds, shortest first.
        masks: for each group [row token], True for tokens, False for the remaining padding.
        laid: the index in the flattened batch of each packed token (remaining padding included).
        places: the position of each packed token in its text.
    """

    rows: list[Int64[Tensor, " _"]]
    masks: list[Bool[Tensor, "_ _"]]
    laid: Int64[Tensor, " laid"]
    places: Int64[Tensor, " laid"]

    @classmethod
    def of(cls, attention_mask: Bool[Tensor, "batch token"], group: int = GROUP) -> Packing:
        """The packing of a batch that is padded on the right; its last group may have fewer rows."""
        check_at_least(1, group=group)
        fits = not (attention_mask[:, 1:] & ~attention_mask[:, :-1]).any()
        check(fits, "attention_mask must be padding on the right only", attention_mask)
        lengths, width = attention_mask.sum(1), attention_mask.shape[1]
        rows = list(lengths.argsort(stable=True).split(group))
        masks = [attention_mask[some, : int(lengths[some[-1]])] for some in rows]
        position = torch.arange(width, device=attention_mask.device)
        places = [position[: mask.shape[1]].expand_as(mask).flatten() for mask in masks]
        row_of = [some[:, None].expand_as(mask).flatten() for some, mask in zip(rows, masks, strict=True)]
        return cls(rows, masks, torch.cat(row_of) * width + torch.cat(places), torch.cat(places))

    def lay(self, padded: Shaped[Tensor, "batch token ..."]) -> Shaped[Tensor, "laid ..."]:
        """The values of a padded batch at the packed tokens."""
        return padded.flatten(0, 1)[self.laid]


@dataclass(frozen=True, eq=False)
class PackedOutput:
    """The output of a packed pass.

    Attributes:
        logits: the scores of all classes at each packed token.
        attentions: for each group, softmax weights before dropout, [row layer head query key].
    """

    logits: Float[Tensor, "laid class"]
    attentions: list[Float[Tensor, "_ layer head _ _"]] | None = None


def packed_pass(
    model: Transformer,
    input_ids: Int64[Tensor, "batch token"],
    packing: Packing,
    *,
    output_attentions: bool = False,
) -> PackedOutput:
    """Score every class at every packed token, with the same result as the plain pass, causal or not.

    Dropout draws other random numbers than in the plain pass. In bf16 (under torch's autocast) on a CPU, the
    attention matrix is computed explicitly: the fused kernel is slower there.
    """
    longest = packing.masks[-1].shape[1]
    most = model.config.max_length
    check(longest <= most, f"texts must have at most max_length={most} tokens", longest)
    n_laid, places = len(packing.laid), packing.places[None]
    x = model.embedding(packing.lay(input_ids)[None]) + model._position_vectors(n_laid, places)
    x, angle = model.dropout(x), model._angles(n_laid, places)
    by_group = _ByGroup(packing.masks)
    with replacing(model, by_group):
        for layer in model.layers:
            x, _ = layer(x, None, output_attentions, angle)
    attentions = None
    if output_attentions:
        attentions = [torch.stack(of_layers, dim=1) for of_layers in zip(*by_group.kept, strict=True)]
    return PackedOutput(model.classify(model.norm(x))[0], attentions)


class _ByGroup:
    """Replaces a model's attention function: attention of the packed tokens, one group after another.

    Groups are split and joined, not sliced: the backward pass of a slice fills a whole tensor with zeros.
    """

    def __init__(self, masks: list[Bool[Tensor, "_ _"]]) -> None:
        self.masks, self.kept = masks, list[list[Tensor]]()

    def __call__(
        self,
        attend: Callable[..., tuple[Tensor, Tensor | None]],
        q: Float[Tensor, "1 head laid channel"],
        k: Float[Tensor, "1 head laid channel"],
        v: Float[Tensor, "1 head laid channel"],
        allowed: None = None,
        *,
        causal: bool = False,
        dropout: float = 0.0,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "1 head laid channel"], None]:
        form = need_weights or (q.device.type == "cpu" and q.dtype == torch.bfloat16)
        counts = [mask.numel() for mask in self.masks]
        parts = (each[0].split(counts, dim=1) for each in (q, k, v))
        mixed, kept = list[Tensor](), list[Tensor]()
        for mask, *part in zip(self.masks, *parts, strict=True):
            seen = mask[:, None, None, :]
            if causal:
                seen = seen & torch.ones(mask.shape[1:] * 2, dtype=torch.bool, device=mask.device).tril()
            q, k, v = (each.unflatten(1, mask.shape).transpose(0, 1) for each in part)
            of_group, weights = attend(q, k, v, seen, dropout=dropout, need_weights=form)
            mixed.append(of_group.transpose(0, 1).flatten(1, 2))
            if need_weights and weights is not None:
                kept.append(weights)
        self.kept.append(kept)
        return torch.cat(mixed, dim=1)[None], None


@dataclass(frozen=True)
class PackedLoss:
    """`TokenLoss` of a `Transformer`, computed on packed tokens; equal to `TokenLoss` up to rounding.

    (Batches of texts of similar length would save padding too, but models learn less from as many batches.)
    """

    attention_weight: float | int = 0.0
    group: int = GROUP
    as_published: bool = field(default=False, kw_only=True)

    def __call__(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The same losses as `TokenLoss`."""
        kind = type(model)
        check(
            issubclass(kind, Transformer), "model must be a Transformer (else take token_loss)", kind.__name__
        )
        assert isinstance(model, Transformer)
        supervised = bool(batch.target_attention) and self.attention_weight > 0
        packing = Packing.of(batch.attention_mask, self.group)
        output = packed_pass(model, batch.input_ids, packing, output_attentions=supervised)
        targets = packing.lay(batch.target_ids)
        cross_entropy = F.cross_entropy(output.logits, targets, ignore_index=IGNORE)
        if output.attentions is None:
            return {"loss": cross_entropy, "cross_entropy": cross_entropy}
        error = self._error(batch, packing, output.attentions)
        total = cross_entropy + self.attention_weight * error
        return {"loss": total, "cross_entropy": cross_entropy, "attention": error}

    def _error(self, batch: Batch, packing: Packing, attentions: list[Tensor]) -> Tensor:
        """`attention_error` of the batch: the mean over samples if `as_published`, else over tokens."""
        counted, errors = list[Any](), list[Tensor]()
        for rows, mask, of_group in zip(packing.rows, packing.masks, attentions, strict=True):
            n = mask.shape[1]
            targets = {head: target[rows, :n, :n] for head, target in batch.target_attention.items()}
            counted.append(len(mask) if self.as_published else mask.sum())
            error = attention_error(of_group, targets, mask, as_published=self.as_published)
            errors.append(counted[-1] * error)
        return torch.stack(errors).sum() / sum(counted)
