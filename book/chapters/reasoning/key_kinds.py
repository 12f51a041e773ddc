"""Which kinds of keys a model attends to, and what it predicts with the attention it has on other texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.generators.base import IGNORE, Batch, Head
from attnlib.measures.evaluation import answer_rows
from attnlib.measures.returned import returned
from attnlib.models.attention import evaluating
from attnlib.models.attention.changes import shared_out
from attnlib.training.objectives import stacked_attentions

KINDS = ("the reference", "the rest of the question", "the rest of the answer", "what stands before")
"""The kinds of keys of a query that has a reference: every key before it, and itself, is of one of them."""


def key_kinds(batch: Batch) -> Bool[Tensor, "kind batch query key"]:
    """Which key is of which of `KINDS`, for every query.

    Raises:
        ValueError: the batch has no reference.
    """
    if batch.reference is None or batch.evaluated is None:
        raise ValueError("the batch has no reference attention: make it with its reference")
    seen = torch.ones_like(batch.reference).tril() & batch.attention_mask[:, None]
    first = (batch.target_ids != IGNORE).int().argmax(1)  # the last token of the question
    places = torch.arange(batch.input_ids.shape[1], device=first.device)
    answer = (places > first[:, None])[:, None]
    asked = batch.evaluated.any(1, keepdim=True)  # from the question's first token on
    rest = seen & ~batch.reference
    return torch.stack([batch.reference & seen, rest & asked & ~answer, rest & answer, rest & ~asked])


@torch.no_grad()
def kind_shares(model: nn.Module, batches: Iterable[Batch]) -> Float[Tensor, "layer head kind"]:
    """How much of every head's attention is on each of `KINDS`: the mean over all queries with a reference.

    Args:
        model: gives attention when asked with `output_attentions=True` (a Hugging Face model: eager).
        batches: with `reference` and `evaluated`.
    """
    device, total, queries = next(model.parameters()).device, torch.zeros(()), 0
    for batch in batches:
        batch = batch.to(device)
        kinds = key_kinds(batch)
        attentions = stacked_attentions(returned(model, batch, attentions=True)).double()
        wanted = kinds[0].any(-1)
        total = total + torch.einsum("blhqk,rbqk,bq->lhr", attentions, kinds.double(), wanted.double()).cpu()
        queries += int(wanted.sum())
    return total / max(queries, 1)


@torch.no_grad()
def shared_rows(
    model: nn.Module,
    batches: Sequence[Batch],
    heads: Sequence[Head] | None,
    shares: Float[Tensor, "layer head kind"],
) -> pd.DataFrame:
    """Predictions while queries with a reference attend to each of `KINDS` as much as `shares` says.

    Teacher-forced, as in `evaluate_rows`, of which the columns about predictions are returned.

    Args:
        model: see `shared_out`.
        batches: with `reference`.
        heads: which (layer, head)s; all if None.
        shares: such as `kind_shares` of the same model on other texts.
    """
    device = next(model.parameters()).device
    tables, samples = [], 0
    with evaluating(model):
        for batch in batches:
            batch = batch.to(device)
            kinds = key_kinds(batch)
            with shared_out(model, heads, kinds, kinds[0].any(-1), shares):
                logits = model(**batch.inputs).logits
            table = answer_rows(batch, logits[batch.target_ids != IGNORE].argmax(-1))
            tables.append(table.assign(sample=table["sample"] + samples))
            samples += len(batch)
    return pd.concat(tables, ignore_index=True)
