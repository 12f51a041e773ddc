"""One prediction, or a written span as a whole, by one measure."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attribution.prompts import Counterfactual, Method, Target
from attnlib.attribution.registry import attributions
from attnlib.attribution.spans import span_attributions
from attnlib.models.attention.forward import form_of
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
    """What one prediction on one prompt drew on, by one method; arguments and errors as in `attributions`.

    With `target_span`, the first token of a written text and the one after its last, it is what the span as a
    whole drew on, each of its tokens predicted from what stands before it: see `span_attributions`. Scores
    are then of the tokens before the span; a query, target, foil or counterfactual beside it is a ValueError.

    Example:
        >>> import torch
        >>> from attnlib.models import Transformer, TransformerConfig
        >>> model = Transformer(TransformerConfig(vocabulary=5, causal=True))
        >>> attribute(model, torch.tensor([1, 2, 3, 4]), query=1).shape
        torch.Size([4])
    """
    if not isinstance(input_ids, Tensor) or input_ids.ndim not in (1, 2):
        raise ValueError(f"input_ids must be one prompt, a tensor [token]. Got {form_of(input_ids)} instead.")
    if input_ids.ndim == 2 and len(input_ids) != 1:
        raise ValueError(f"input_ids must be one prompt. Got {len(input_ids)}; attributions() takes a batch.")
    ids = input_ids[0] if input_ids.ndim == 2 else input_ids
    if target_span is not None:
        if query != -1 or target is not None or foil is not None or counterfactual is not None:
            raise ValueError(
                "target_span says what is predicted, and where: no query, target, foil or counterfactual"
            )
        (scores,) = span_attributions(model, ids, target_span, method).values()
        return scores
    other = counterfactual
    if isinstance(other, Tensor) and other.ndim == 2 and len(other) == 1:
        other = other[0]
    (scores,) = attributions(model, ids, method, None, query, target, foil, other).values()
    return scores
