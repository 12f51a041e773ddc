"""How much of the attention falls where it should."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.generators.base import Batch
from attnlib.stats.intervals import ratio


def reference_mass(
    attention: Float[Tensor, "*batch query key"],
    reference: Bool[Tensor, "*batch query key"],
    evaluated: Bool[Tensor, "*batch query key"],
    *,
    as_published: bool = False,
) -> Float[Tensor, "*batch query"]:
    r"""Share of each row's attention that falls on its reference keys, among the evaluated keys.

    $$m_q = \frac{\sum_{k \in E_q} R_{qk} a_{qk}}{\sum_{k \in E_q} a_{qk}}$$

    with $a$ the attention, $R$ the reference and $E_q$ the evaluated keys of query $q$.

    Args:
        attention: weights, at least 0; rows need not sum to 1 (a rollout does as well).
        reference: where each query should look.
        evaluated: where `reference` is defined.
        as_published: score 0 where a row has evaluated keys but no reference among them, or no attention on
            them, as the authors' code has it.

    Returns:
        Mass in [0, 1]; NaN where a row has no evaluated reference key, so that there is nothing to look at,
        or no attention on its evaluated keys (`as_published`: where it has no evaluated key).

    Source:
        Spiegel et al. 2025, *Attend or Perish*. Their code scores rows without a reference key as 0, which
        lowers even a perfect model's mean; here such rows are NaN, to be left out (`torch.nanmean`).
    """
    seen = torch.where(evaluated, attention, 0.0)  # ten times as fast as a product with truth values
    total = seen.sum(-1)
    mass = torch.where(reference, seen, 0.0).sum(-1) / total
    if as_published:
        return mass.where(total > 0, 0.0).where(evaluated.any(-1), torch.nan)
    return mass.where((reference & evaluated).any(-1), torch.nan)


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
