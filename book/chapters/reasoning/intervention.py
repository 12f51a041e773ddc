"""Interventions on attention: reference mass of heads, and accuracy while heads are redirected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.generators.base import IGNORE, Batch, Head
from attnlib.measures.evaluation import answer_rows
from attnlib.measures.returned import in_turn, returned
from attnlib.models.attention import evaluating
from attnlib.models.attention.call import Affine, AttentionCall
from attnlib.models.attention.changes import Chosen, causal_null, heads_changed, reinforced
from attnlib.stats.reference import reference_mass
from attnlib.training.objectives import stacked_attentions

REFERENCE, RANDOM = "the reference", "random keys"
"""What attention is redirected to: the keys of the algorithm; as many random keys, the control."""


def with_reference(batch: Batch) -> tuple[Tensor, Tensor]:
    """The reference attention of a batch, and which of its keys are evaluated."""
    if batch.reference is None or batch.evaluated is None:
        raise ValueError("the batches have no reference attention: make them with their reference")
    return batch.reference, batch.evaluated


@torch.no_grad()
def head_masses(model: nn.Module, batches: Iterable[Batch]) -> pd.DataFrame:
    """Reference mass of every head."""
    tables = list[pd.DataFrame]()
    for batch, samples in in_turn(model, batches):
        reference, evaluated = with_reference(batch)
        attentions = stacked_attentions(returned(model, batch, attentions=True))
        even = torch.ones_like(attentions[:, :1, :1]).tril()
        maps = torch.cat([attentions.flatten(1, 2), even.flatten(1, 2)], 1)
        masks = (mask[:, None].expand(maps.shape) for mask in (reference, evaluated))
        mass = reference_mass(maps, *masks).nansum(2).cpu().double().numpy()
        counts = (reference & evaluated).any(-1).sum(1).cpu().numpy()
        levels = [range(n) for n in (len(batch), *attentions.shape[1:3])]
        index = pd.MultiIndex.from_product(levels, names=["sample", "layer", "head"])
        heads = mass.shape[1] - 1
        numbers = {"uniform": mass[:, -1].repeat(heads), "rows": counts.repeat(heads)}
        table = pd.DataFrame({"mass": mass[:, :-1].ravel()} | numbers, index).reset_index()
        tables.append(table.assign(sample=table["sample"] + samples))
    rows = pd.concat(tables, ignore_index=True)
    if not rows["rows"].any():
        raise ValueError("no row of these batches has a reference key, so that there is no mass to measure")
    return rows.assign(name="L" + rows["layer"].astype(str) + "H" + rows["head"].astype(str))


@torch.no_grad()
def reinforcement_rows(
    model: nn.Module,
    batches: Sequence[Batch],
    heads: Sequence[Head],
    strengths: Sequence[float],
    seed: int = 0,
) -> pd.DataFrame:
    """Predictions while attention of some heads is redirected to the reference, and to random keys.

    Random keys, as many per row as the reference has and the same at every strength, separate an effect of
    *where* attention goes from one of changing it at all. Teacher-forced, as in `evaluate_rows`.
    """
    tables = []
    with evaluating(model):
        for number, (batch, samples) in enumerate(in_turn(model, batches)):
            reference, _ = with_reference(batch)
            wanted = batch.target_ids != IGNORE
            targets = {REFERENCE: reference, RANDOM: causal_null(reference, seed + number)}
            for onto, keys in targets.items():
                for strength in strengths:
                    with reinforced(model, heads, keys, strength):
                        logits = model(**batch.inputs).logits
                    table = answer_rows(batch, logits[wanted].argmax(-1))
                    table["sample"] += samples
                    tables.append(table.assign(onto=onto, strength=float(strength)))
    return pd.concat(tables, ignore_index=True)


KINDS = ("the reference", "the rest of the question", "the rest of the answer", "what stands before")
"""The kinds of keys of a query that has a reference: every key before it, and itself, is of one of them."""


def key_kinds(batch: Batch) -> Bool[Tensor, "kind batch query key"]:
    """Which key is of which of `KINDS`, for every query."""
    reference, evaluated = with_reference(batch)
    seen = torch.ones_like(reference).tril() & batch.attention_mask[:, None]
    first = (batch.target_ids != IGNORE).int().argmax(1)  # the last token of the question
    places = torch.arange(batch.input_ids.shape[1], device=first.device)
    answer = (places > first[:, None])[:, None]
    asked = evaluated.any(1, keepdim=True)  # from the question's first token on
    rest = seen & ~reference
    return torch.stack([reference & seen, rest & asked & ~answer, rest & answer, rest & ~asked])


@torch.no_grad()
def kind_shares(model: nn.Module, batches: Iterable[Batch]) -> Float[Tensor, "layer head kind"]:
    """The share of every head's attention on each of `KINDS`: the mean over all queries with a reference."""
    total, queries = torch.zeros(()), 0
    for batch, _ in in_turn(model, batches):
        kinds = key_kinds(batch).cpu()  # in double precision, which not every GPU has
        attentions = stacked_attentions(returned(model, batch, attentions=True)).cpu().double()
        wanted = kinds[0].any(-1)
        total = total + torch.einsum("blhqk,rbqk,bq->lhr", attentions, kinds.double(), wanted.double())
        queries += int(wanted.sum())
    return total / max(queries, 1)


@contextmanager
def shared_out(
    model: nn.Module,
    heads: Sequence[Head] | None,
    kinds: Bool[Tensor, "kind batch query key"],
    queries: Bool[Tensor, "batch query"],
    shares: Float[Tensor, "layer head kind"],
) -> Iterator[None]:
    r"""Share out attention by kind of key, all keys of a kind the same, inside the `with` block.

    In chosen heads, the attention $A$ of every query that is chosen, too, becomes

    $$A'_{qk} = \sum_r \frac{p_r}{\sum_{r'} p_{r'}} \frac{R_{rqk}}{\sum_{k'} R_{rqk'}}$$

    with $R_{rqk}$ = 1 where key $k$ is of kind $r$ for query $q$, and $p_r$ the head's share for that kind;
    sums over kinds are over those that the query has keys of.
    """

    def shared(call: AttentionCall, chosen: Chosen, layer: int) -> Affine:
        have = (call.query.shape[0], call.query.shape[2], call.key.shape[2])
        if have != tuple(kinds.shape[1:]):
            raise ValueError(
                f"the kinds are of {kinds.shape[1]} sequences of {kinds.shape[2]} tokens, and the model was "
                f"called with {have[0]} of {have[2]}: call it inside shared_out() with that one batch only"
            )
        device, dtype = call.query.device, call.dtype
        each = kinds.to(device, dtype)
        each = each / each.sum(-1, keepdim=True).clamp(min=1)  # [kind batch query key]
        onto = torch.einsum("hr,rbqk->bhqk", shares[layer].to(device, dtype), each)
        total = onto.sum(-1, keepdim=True)
        push = chosen * (queries.to(device)[:, None, :, None] & (total > 0))
        return Affine(1 - push, push, onto / total.where(total > 0, 1))

    with heads_changed(model, heads, shared):
        yield


@torch.no_grad()
def shared_rows(
    model: nn.Module,
    batches: Sequence[Batch],
    heads: Sequence[Head] | None,
    shares: Float[Tensor, "layer head kind"],
) -> pd.DataFrame:
    """Teacher-forced predictions while queries with a reference attend to `KINDS` as `shares` says."""
    tables = []
    with evaluating(model):
        for batch, samples in in_turn(model, batches):
            kinds = key_kinds(batch)
            with shared_out(model, heads, kinds, kinds[0].any(-1), shares):
                logits = model(**batch.inputs).logits
            table = answer_rows(batch, logits[batch.target_ids != IGNORE].argmax(-1))
            tables.append(table.assign(sample=table["sample"] + samples))
    return pd.concat(tables, ignore_index=True)
