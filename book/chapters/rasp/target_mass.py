"""How much of each head's attention falls where its algorithm looks."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlib.generators.base import Batch
from attnlib.measures.returned import returned
from attnlib.stats.reference import reference_mass
from attnlib.training.objectives import stacked_attentions


@torch.no_grad()
def target_masses(model: nn.Module, batches: Iterable[Batch]) -> pd.DataFrame:
    """Reference mass of every head whose algorithm is known, beside what a head that looks nowhere scores.

    Rows (queries) without a target key do not count; a sample's mass is the mean of its rows.

    Args:
        model: gives `attentions` when asked with `output_attentions=True`.
        batches: samples with `target_attention`.

    Returns:
        A row per sample and head: `sample`, `metric` ("mass L0H0", ...), `value` (NaN where no row counts)
        and `uniform`, the mass of a head that spreads its attention evenly over the sample. Heads that the
        model does not have have no row.
    """
    device = next(model.parameters()).device
    parts: dict[str, list[Float[Tensor, "sample 2"]]] = {}
    for batch in batches:
        batch = batch.to(device)
        attentions = stacked_attentions(returned(model, batch, attentions=True))
        pairs = batch.attention_mask[:, :, None] & batch.attention_mask[:, None, :]
        _, n_layers, n_heads, _, _ = attentions.shape
        for (layer, head), target in batch.target_attention.items():
            if layer >= n_layers or head >= n_heads:
                continue
            both = [
                reference_mass(weights, target, pairs).nanmean(1)
                for weights in (attentions[:, layer, head], pairs.float())
            ]
            parts.setdefault(f"mass L{layer}H{head}", []).append(torch.stack(both, dim=1).cpu())
    columns = ["sample", "metric", "value", "uniform"]
    tables = [pd.DataFrame(columns=columns)] if not parts else []
    for name, tensors in parts.items():
        table = pd.DataFrame(torch.cat(tensors).numpy(), columns=columns[2:])
        tables.append(table.rename_axis("sample").reset_index().assign(metric=name))
    return pd.concat(tables, ignore_index=True)[columns]
