"""Explain one prediction, or a written span as a whole, by one measure."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attribution.prompts import Counterfactual, Method, Target
from attnlib.attribution.registry import attributions
from attnlib.attribution.spans import span_attributions
from attnlib.checks import check
from attnlib.options import plain_options


@plain_options
def attribute(
    model: nn.Module,
    input_ids: Int[Tensor, "batch token"] | Int[Tensor, " token"],
    query: int = -1,
    target: Target = None,
    foil: Target = None,
    method: str | Method = "rollout",
    counterfactual: Counterfactual = None,
    target_span: tuple[int, int] | None = None,
) -> Float[Tensor, " key"]:
    """What one prediction on one prompt depends on, by one method; arguments and errors as in `attributions`.

    With `target_span`, the positions of a written text's first token and of the one after its last, this is
    what the span as a whole depends on, each token predicted from those before it: see `span_attributions`.
    Only tokens before the span get scores; a query, target, foil or counterfactual beside it is a ValueError.

    Example:
        >>> import torch
        >>> from attnlib.models import Transformer, TransformerConfig
        >>> model = Transformer(TransformerConfig(vocabulary=5, causal=True))
        >>> attribute(model, torch.tensor([1, 2, 3, 4]), query=1).shape
        torch.Size([4])
    """
    one = isinstance(input_ids, Tensor) and input_ids.ndim and tuple(input_ids.shape[:-1]) in ((), (1,))
    check(one, "input_ids must be one prompt, a tensor [token]", getattr(input_ids, "shape", input_ids))
    ids = input_ids[0] if input_ids.ndim == 2 else input_ids
    if target_span is not None:
        alone = query == -1 and target is None and foil is None and counterfactual is None
        check(alone, "target_span must be without query, target, foil and counterfactual", target_span)
        (scores,) = span_attributions(model, ids, target_span, method).values()
        return scores
    other = counterfactual
    if isinstance(other, Tensor) and other.ndim == 2 and len(other) == 1:
        other = other[0]
    (scores,) = attributions(model, ids, method, None, query, target, foil, other).values()
    return scores
