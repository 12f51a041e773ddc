"""The loss of `objectives.token_loss`, with a pass that leaves out most of a batch's padding."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.generators.base import IGNORE, Batch
from attnlib.models.packed import GROUP, Packing, packed_pass
from attnlib.models.transformer import Transformer
from attnlib.training.objectives import attention_error


@dataclass(frozen=True)
class PackedLoss:
    """`TokenLoss` of a `Transformer`, computed on the batch's tokens laid end to end: see `models.packed`.

    The same numbers, but for rounding, from the same random batch. (Batches *drawn* of like length leave out
    padding too, but models learn less from as many of them.)

    Attributes:
        attention_weight: as in `TokenLoss`.
        group: rows of a group.
        as_published: as in `attention_error`.
    """

    attention_weight: float | int = 0.0
    group: int = GROUP
    as_published: bool = field(default=False, kw_only=True)

    def __call__(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The same losses as `TokenLoss`.

        Raises:
            ValueError: the model is not a `Transformer`, or does not take the batch in a packed pass.
        """
        if not isinstance(model, Transformer):
            raise ValueError(
                f"only a Transformer takes a packed pass, not {type(model).__name__}: use token_loss"
            )
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
        """`attention_error` of the batch: a mean over samples as published, else over tokens."""
        counted = [len(mask) if self.as_published else mask.sum() for mask in packing.masks]
        errors = [
            count
            * attention_error(
                of_group,
                {
                    head: t[rows, : mask.shape[1], : mask.shape[1]]
                    for head, t in batch.target_attention.items()
                },
                mask,
                as_published=self.as_published,
            )
            for count, rows, mask, of_group in zip(
                counted, packing.rows, packing.masks, attentions, strict=True
            )
        ]
        return torch.stack(errors).sum() / sum(counted)
