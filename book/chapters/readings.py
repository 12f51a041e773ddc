"""Examples for the attention explorer: a model's attention on a sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from attnlib.generators.base import Batch, Sample
from attnlib.measures.returned import returned
from attnlib.rollout import rollout
from attnlib.training.objectives import stacked_attentions

MOST = 1_000_000
"""Most attention weights of one example in a page; beyond it, only every layer's mean over heads is kept."""


@torch.no_grad()
def reading(model: nn.Module, tokenizer: Any, sample: Sample, *, rolled_out: bool = False) -> dict[str, Any]:
    """An example for `AttentionExplorer.from_examples`: tokens, attention and reference of a sample.

    A long prompt is cut at its beginning: the example begins with the first token that any row is evaluated
    on, so that rows sum to less than 1.
    """
    ids = sample.input_ids[None].to(next(model.parameters()).device)
    alone = Batch(ids, ids, torch.ones_like(ids, dtype=torch.bool))
    attentions = stacked_attentions(returned(model, alone, attentions=True))[0].cpu().float()
    attentions = rollout(attentions, cumulative=True)[:, None] if rolled_out else attentions
    start = 0 if sample.evaluated is None else int(sample.evaluated.any(0).int().argmax())
    kept = slice(0 if start <= 1 else start, None)  # a single token in front is the attention sink: it stays
    attentions = attentions[..., kept, kept]
    attentions = attentions.mean(1, keepdim=True) if attentions.numel() > MOST else attentions
    reference: Any = None if sample.reference is None else sample.reference[kept, kept]
    if sample.target_attention:
        reference = {head: mask[kept, kept] for head, mask in sample.target_attention.items()}
    tokens = tokenizer.convert_ids_to_tokens(sample.input_ids.tolist())[kept]
    return {"tokens": tokens, "attentions": attentions, "references": reference}
