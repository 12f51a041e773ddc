r"""One head's attention as a measure, and the choice of the head that looks where it should.

    head(l, h)    A_lh[q]

Among hundreds of heads some looks at the right tokens by chance, so the best one is chosen on items of its
own (validation), and used on others.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.attribution.prompts import Method, Prompts, by_length, measure
from attnlib.models.attention.calls import attention_calls, keys_of, rows_of
from attnlib.models.attention.forward import Mask
from attnlib.models.attention.interface import heads_by_layer

CRITERIA = ("mass", "hit")


def head(layer: int, head: int) -> Method:
    """The method that is one head's attention of the query; both are counted from 0.

    It raises a `ValueError` for a model that has no such head.

    Example:
        >>> from attnlib.models import Transformer, TransformerConfig
        >>> second = head(1, 0)
        >>> second.__name__
        'head L1H0'
        >>> model = Transformer(TransformerConfig(vocabulary=5, causal=True))
        >>> second(model, torch.tensor([[1, 2, 3]]), query=0)
        tensor([[1., 0., 0.]])
    """

    def row(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
        heads_by_layer(model, [(layer, head)])
        return _every_head(model, prompts, [layer])[0][:, head]

    row.__name__ = row.__qualname__ = f"head L{layer}H{head}"
    row.__doc__ = f"Attention of head {head} of layer {layer}."
    return measure(row)


def best_head(
    model: nn.Module,
    input_ids: Int[Tensor, "batch token"],
    truth: Bool[Tensor, "_ _"],
    attention_mask: Mask = None,
    query: int = -1,
    criterion: str = "mass",
) -> Method:
    r"""The method of the head that finds the true tokens best, on these items.

    "mass" is the attention on true tokens, $\sum_{k \in T} A_{lh}[q, k]$; "hit" is how often the token with
    the most attention is a true one. Means over items; the first of several best heads is taken.

    Args:
        model: an attnlib `Transformer`, or a Hugging Face decoder.
        input_ids: validation items: none of those that the method is to be judged by.
        truth: the tokens that the prediction has to draw on; at least one of each item.
        attention_mask: 1 for tokens, 0 for padding.
        query: as in `attnlib.attribution.prompts`.
        criterion: "mass" or "hit".

    Returns:
        `head(layer, head)`, whose `__name__` says which.

    Raises:
        ValueError: there is no such criterion, truth does not fit the items, or an item has none; or as in
            `attnlib.models.attention.calls`.
    """
    if criterion not in CRITERIA:
        raise ValueError(f"criterion should be out of {CRITERIA}; got {criterion!r}")
    if truth.shape != input_ids.shape:
        raise ValueError(
            f"truth should have the shape of input_ids, {tuple(input_ids.shape)}; got {tuple(truth.shape)}"
        )
    score = torch.zeros(())
    for place, prompts in by_length(model, input_ids, attention_mask, query, None, None):
        true = truth[place.row, place.column]
        if not bool(true.any(1).all()):
            raise ValueError("every item should have a true token (that is not padding); some have none")
        attention = torch.stack(_every_head(model, prompts), 1)  # [batch layer head key]
        if criterion == "mass":
            found = (attention * true[:, None, None]).sum(-1)
        else:
            highest = attention.argmax(-1).flatten(1)
            found = true.gather(1, highest).view(attention.shape[:-1]).float()
        score = score.to(found) + found.sum(0)
    return head(*divmod(int(score.argmax()), score.shape[1]))


def _every_head(
    model: nn.Module, prompts: Prompts, layers: list[int] | None = None
) -> list[Float[Tensor, "batch head key"]]:
    """Attention of the query, of some layers or all."""
    calls, found = attention_calls(model, prompts.ids), list[Tensor]()
    query = slice(prompts.query, prompts.query + 1)
    for call in calls if layers is None else [calls[layer] for layer in layers]:
        rows, keys = rows_of(call, query), keys_of(call, query)
        found.append(rows.new_zeros(*rows.shape[:2], prompts.ids.shape[1]))
        found[-1][..., keys] = rows[:, :, 0]
    return found
