"""Accuracy and cross entropy of a model, one row per sample."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn

from attnlib.checks import check_some
from attnlib.generators.base import IGNORE, Batch
from attnlib.measures.returned import in_turn, returned


@torch.no_grad()
def sample_scores(model: nn.Module, batches: Iterable[Batch]) -> pd.DataFrame:
    """The numbers of right tokens and of targets, and the cross entropy, for every sample.

    Args:
        model: any model that returns `logits` at every token.
        batches: batches of samples; a sample without targets counts as 0 of 0.

    Returns:
        A row per sample: `sample`, `right` (tokens), `asked` (targets), and `loss`, the sum of the targets'
        cross entropy in nats. `stats.answer_accuracy` takes these rows; the cross entropy per token is
        `stats.summarise(rows, value="loss", whole="asked", bounds=None)`.
    """
    parts = []
    for batch, _ in in_turn(model, batches):
        logits = returned(model, batch).logits.float()
        asked = batch.target_ids != IGNORE
        losses = F.cross_entropy(logits.mT, batch.target_ids, ignore_index=IGNORE, reduction="none")
        right = (logits.argmax(-1) == batch.target_ids) & asked
        parts.append(torch.stack([right.sum(1), asked.sum(1), losses.sum(1)], dim=1).cpu().double())
    check_some(batches=parts)
    table = pd.DataFrame(torch.cat(parts).numpy(), columns=["right", "asked", "loss"])
    return table.astype({"right": int, "asked": int}).rename_axis("sample").reset_index()
