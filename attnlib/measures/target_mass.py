"""How much of each head's attention falls where its algorithm looks."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlib.generators.base import Batch
from attnlib.stats.intervals import ratio
from attnlib.stats.reference import reference_mass


@torch.no_grad()
def target_mass_table(model: nn.Module, batches: Iterable[Batch]) -> pd.DataFrame:
    """Reference mass of every head whose algorithm is known, beside what a head that looks nowhere scores.

    Rows (queries) without a target key do not count; a sample's mass is the mean of its rows, and the
    interval is over samples, since the rows of one sample are not independent.

    Args:
        model: gives `attentions` when asked with `output_attentions=True`.
        batches: samples with `target_attention`.

    Returns:
        Rows `mass L0H0`, ...; columns `value`, `low`, `high`, `n` (samples) and `uniform`, the mass of a head
        that spreads its attention evenly over the sample. Heads that the model does not have have no row.
    """
    device = next(model.parameters()).device
    parts: dict[str, list[Float[Tensor, "sample 2"]]] = {}
    for batch in batches:
        batch = batch.to(device)
        attentions = model(
            batch.input_ids, attention_mask=batch.attention_mask, output_attentions=True
        ).attentions
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
    rows = {}
    for name, tensors in parts.items():
        mass, uniform = (column[~column.isnan()].numpy() for column in torch.cat(tensors).T)
        rows[name] = {**ratio(mass, mass * 0 + 1)._asdict(), "uniform": uniform.mean()}
    return pd.DataFrame(rows.values(), index=pd.Index(rows, name="metric"))
