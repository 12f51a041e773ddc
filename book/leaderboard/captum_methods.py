"""Methods of captum (https://captum.ai) for `attnlib benchmark`, a function of a few lines each.

attnlib benchmark book/leaderboard/captum_methods.py:captum_integrated_gradients -o page.html
"""

from __future__ import annotations

from typing import Any

import torch
from captum.attr import FeatureAblation, LayerIntegratedGradients, ShapleyValueSampling
from torch import Tensor


def _read(model: Any, query: int) -> Any:
    """The function that captum explains: the logit of the target minus that of the foil, at the query."""

    def margin(input_ids: Tensor, target: Tensor, foil: Tensor) -> Tensor:
        logits = model(input_ids).logits[:, query]
        return (logits.gather(1, target[:, None]) - logits.gather(1, foil[:, None]))[:, 0]

    return margin


def _blank(model: Any, input_ids: Tensor) -> Tensor:
    """The baseline of all methods: an input of beginning-of-sequence tokens only."""
    return torch.full_like(input_ids, model.config.vocabulary - 1)


def captum_integrated_gradients(
    model: Any,
    input_ids: Tensor,
    attention_mask: Any = None,
    query: int = -1,
    target: Any = None,
    foil: Any = None,
) -> Tensor:
    """Integrated gradients from the beginning-of-sequence token, in 50 steps, summed over channels."""
    method = LayerIntegratedGradients(_read(model, query), model.embedding)
    baseline = _blank(model, input_ids)
    found = method.attribute(input_ids, baseline, additional_forward_args=(target, foil), n_steps=50)
    return found.sum(-1)


def captum_occlusion(
    model: Any,
    input_ids: Tensor,
    attention_mask: Any = None,
    query: int = -1,
    target: Any = None,
    foil: Any = None,
) -> Tensor:
    """The change of the margin when one token is replaced by the beginning-of-sequence token."""
    method = FeatureAblation(_read(model, query))
    baseline = _blank(model, input_ids)
    return method.attribute(input_ids, baseline, additional_forward_args=(target, foil)).double()


def captum_shapley_sampling(
    model: Any,
    input_ids: Tensor,
    attention_mask: Any = None,
    query: int = -1,
    target: Any = None,
    foil: Any = None,
) -> Tensor:
    """Shapley values of the tokens, estimated from 25 random orders."""
    method = ShapleyValueSampling(_read(model, query))
    baseline = _blank(model, input_ids)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = method.attribute(input_ids, baseline, additional_forward_args=(target, foil), n_samples=25)
    return found.double()
