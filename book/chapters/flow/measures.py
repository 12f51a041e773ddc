r"""Does attention, read out at a layer, rank the words first that a prediction depends on?

For every sentence and layer $l$, words have three scores, for the position $q$ that predicts:

    raw attention    A_l[q]                     the mean over heads
    rollout          R_l[q]                     attnlib.rollout.rollout, of layers 1 to l
    flow             max. flow from q           attnlib.rollout.attention_flow, of layers 1 to l

and two measures of how the prediction of the right class $y$ depends on them:

    occlusion        |p(y) - p(y | word k is <unk>)|
    gradient         || d z_y / d e_k ||_2,     z_y the log odds of y, e_k the word's embedding

The result is Spearman's correlation of a score with a measure over the words of a sentence. Words that are
`<unk>` already cannot be replaced by it, and are left out of everything.

`SLIPS` are the differences of the authors' code from this (or from the paper), applied one at a time.

References:
    Abnar and Zuidema 2020, *Quantifying attention flow in transformers*, section 4, and the authors' code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from attnlib.generators.base import Batch
from attnlib.measures.returned import follow_returned, is_followed
from attnlib.models.attention import evaluating
from attnlib.rollout import attention_flow, rollout
from attnlib.rollout.null import null_ratio, uniform_causal_rollout
from attnlib.rollout.value_slot import follow_layers
from attnlib.stats.rank_measures import spearman
from book.chapters.flow.agreement import Sentence, SentenceTask, TokenizedTask

RAW, ROLLOUT, FLOW, OVER_NULL = "raw attention", "rollout", "flow", "rollout over null"
EARLIER = "earlier word first"
"""A baseline without a model: its scores decrease from the first word to the last."""

OCCLUSION, GRADIENT = "blank-out", "gradient"
WORDS, WITH_CLS = "words", "words and CLS"
"""The tokens that are ranked. The position that predicts also has a score, which is large wherever a residual
connection is counted."""

DENSE, ANY_QUERY, LAST_CLASS, SUMMED = "dense ranks", "largest over queries", "label -1", "summed gradient"
SLIPS = {
    DENSE: "the formula for ranks without ties, on ranks that count ties once",
    ANY_QUERY: "a word's score is the largest that any position gives it",
    LAST_CLASS: "the gradient is that of the last class, whatever is right",
    SUMMED: "the gradient's size is that of its sum over features",
}

TOGETHER = 64
"""Sentences per forward pass."""


def agreement_rows(
    model: nn.Module,
    task: SentenceTask | TokenizedTask,
    sentences: Sequence[Sentence],
    ways: Sequence[str] = (RAW, ROLLOUT, FLOW),
    slips: Collection[str] = (),
) -> pd.DataFrame:
    """Rank correlation of every method and layer with occlusion and the gradient, sentence by sentence."""
    _check(ways, (RAW, ROLLOUT, FLOW, OVER_NULL), "ways")
    _check(slips, (*SLIPS,), "slips")
    rank = dense_rank_correlation if DENSE in slips else spearman
    tables = list[pd.DataFrame]()
    for places, seen in _seen(model, task, sentences, ways, slips):
        for items, mask in seen.items.items():
            for relevance, wanted in seen.relevance.items():
                for way, scores in seen.scores.items():
                    found = np.asarray(rank(wanted.numpy(), scores.numpy(), mask.numpy()))
                    about = {"way": way, "relevance": relevance, "items": items}
                    tables.append(_table(places, found, way, about))
    return pd.concat(tables, ignore_index=True)


def subject_rows(
    model: nn.Module,
    task: SentenceTask | TokenizedTask,
    sentences: Sequence[Sentence],
    ways: Sequence[str] = (RAW, ROLLOUT, FLOW),
) -> pd.DataFrame:
    """Whether the largest score of all words is the subject's, sentence by sentence."""
    if any(each.subject is None for each in sentences):
        raise ValueError("every sentence should have its subject; use templates()")
    tables = list[pd.DataFrame]()
    for places, seen in _seen(model, task, sentences, ways, ()):
        mask = seen.items[WORDS]
        subject = torch.tensor([1 + int(sentences[place].subject or 0) for place in places])
        alone = {name: scores[None] for name, scores in seen.relevance.items()}
        for way, scores in (seen.scores | alone).items():
            ranked = scores.masked_fill(~mask, -torch.inf)
            own = ranked.gather(2, subject.expand(len(ranked), -1)[..., None])
            found = (ranked >= own).sum(-1) == 1
            chance = np.tile((1 / mask.sum(1)).numpy(), len(ranked))
            tables.append(_table(places, found.numpy(), way, {"way": way}, "found").assign(chance=chance))
    return pd.concat(tables, ignore_index=True)


class SentenceScores:
    """Scores (`[layer batch key]`), relevance and ranked items of sentences of one length, each by name."""

    def __init__(
        self,
        model: nn.Module,
        task: SentenceTask | TokenizedTask,
        sentences: Sequence[Sentence],
        ways: Sequence[str],
        slips: Collection[str],
    ) -> None:
        device = next(model.parameters()).device
        batch = task.batch(sentences)
        known = task.known(batch)
        self.items: dict[str, Bool[Tensor, "batch key"]] = {WORDS: known, WITH_CLS: known.clone()}
        self.items[WITH_CLS][:, 0] = True
        ids, query = batch.input_ids.to(device), batch.input_ids.shape[1] - 1 if task.at_end else 0
        label = torch.tensor([each.label for each in sentences], device=device)
        attention = _means(model, batch.to(device), query).cpu()
        rows = [*range(ids.shape[1])] if ANY_QUERY in slips else [query]
        self.scores = {way: _followed(attention, way, rows, query) for way in ways}
        first_to_last = torch.arange(ids.shape[1], 0, -1.0).expand(1, *ids.shape)
        self.scores |= {EARLIER: first_to_last}
        asked = torch.ones_like(label) if LAST_CLASS in slips else label
        self.relevance = {
            OCCLUSION: occluded(model, ids, query, label, task.replacement).cpu(),
            GRADIENT: gradient_size(model, ids, query, asked, summed=SUMMED in slips).cpu(),
        }


def _seen(
    model: nn.Module,
    task: SentenceTask | TokenizedTask,
    sentences: Sequence[Sentence],
    ways: Sequence[str],
    slips: Collection[str],
) -> Iterator[tuple[list[int], SentenceScores]]:
    """Yield the indices and scores of sentences of one length at a time, so that there is no padding."""
    groups = defaultdict[int, list[int]](list)
    for place, sentence in enumerate(sentences):
        groups[task.length(sentence)].append(place)
    for _, group in sorted(groups.items()):
        for start in range(0, len(group), TOGETHER):
            places = group[start : start + TOGETHER]
            yield places, SentenceScores(model, task, [sentences[place] for place in places], ways, slips)


@torch.no_grad()
def _means(model: nn.Module, batch: Batch, query: int) -> Float[Tensor, "batch layer query key"]:
    """The mean attention over heads of every layer, from the model's own kernel where possible."""
    layers = list[Tensor]()
    how: dict[str, Any] = {"on_layer": lambda layer, mean: layers.append(mean), "rollout": False}
    if is_followed(model):
        follow_layers(model, batch.input_ids, logits_from=query, **how)
    else:
        follow_returned(model, batch, logits_from=query, **how)
    return torch.stack(layers, 1)


def _followed(
    attention: Float[Tensor, "batch layer query key"], way: str, rows: list[int], query: int
) -> Float[Tensor, "layer batch key"]:
    """The scores of every layer: the largest over the queries `rows`."""
    n, depth = attention.shape[-1], attention.shape[1]
    if way == RAW:
        return attention[:, :, rows].amax(2).transpose(0, 1)
    heads = attention[:, :, None]
    if way == FLOW:
        parts = [attention_flow(heads[:, : layer + 1], rows=rows).amax(1) for layer in range(depth)]
        return torch.stack(parts).to(attention)
    rolled = rollout(heads, rows=rows, cumulative=True).amax(2).transpose(0, 1)
    if way == ROLLOUT:
        return rolled
    nulls = [
        uniform_causal_rollout(n, layer + 1, rows=[query]).expand(len(attention), -1)
        for layer in range(depth)
    ]
    return torch.stack([null_ratio(one, null.to(one)) for one, null in zip(rolled, nulls, strict=True)])


@torch.no_grad()
def occluded(
    model: nn.Module,
    ids: Int64[Tensor, "batch key"],
    query: int,
    label: Int64[Tensor, " batch"],
    unknown: int,
) -> Float[Tensor, "batch key"]:
    """Occlusion of all words of all sentences in one batch."""
    n = ids.shape[1]
    hidden = torch.eye(n, dtype=torch.bool, device=ids.device)
    changed = ids[:, None].repeat(1, n, 1).masked_fill(hidden, unknown)
    with evaluating(model):
        logits = model(torch.cat([ids[:, None], changed], 1).flatten(0, 1)).logits[:, query]
    p = logits.softmax(-1).unflatten(0, (len(ids), n + 1))
    p = p.gather(2, label[:, None, None].expand(-1, n + 1, 1))[..., 0]
    return (p[:, :1] - p[:, 1:]).abs()


def gradient_size(
    model: Any,
    ids: Int64[Tensor, "batch key"],
    query: int,
    label: Int64[Tensor, " batch"],
    summed: bool = False,
) -> Float[Tensor, "batch key"]:
    """The norm of the gradient of the module's docstring or, if `summed`, the size of its sum over features.

    That sum is 0 up to rounding in pre-norm models, whose layers first subtract the mean over features.
    """
    embedded = list[Tensor]()
    table = model.embedding if hasattr(model, "embedding") else model.get_input_embeddings()
    handle = table.register_forward_hook(lambda *call: embedded.append(call[-1].requires_grad_()))
    try:
        with evaluating(model), torch.enable_grad():
            chosen = model(ids).logits[:, query].gather(1, label[:, None]).sum()
            (gradient,) = torch.autograd.grad(chosen, embedded)
    finally:
        handle.remove()
    return gradient.sum(-1).abs() if summed else gradient.norm(dim=-1)


def _table(
    places: list[int], values: np.ndarray, way: str, about: dict[str, Any], name: str = "value"
) -> pd.DataFrame:
    """A row per layer and sentence; a score without layers has layer 0."""
    first = 1 if way in (RAW, ROLLOUT, FLOW, OVER_NULL) else 0
    layers = np.repeat(np.arange(first, first + len(values)), len(places))
    return pd.DataFrame(
        {"sentence": np.tile(places, len(values)), "layer": layers, **about, name: values.ravel()}
    )


def _check(given: Collection[str], allowed: Sequence[str], what: str) -> None:
    if unknown := [name for name in given if name not in allowed]:
        raise ValueError(f"{what} should be among {', '.join(allowed)}; got {unknown}")


def dense_rank_correlation(
    x: Float[np.ndarray, "row token"],
    y: Float[np.ndarray, "*checkpoint row token"],
    mask: Bool[np.ndarray, "row token"],
) -> Float[np.ndarray, "*checkpoint row"]:
    r"""The rank correlation of the authors' code, for comparison with Spearman's.

    It is $1 - 6 \sum_i d_i^2 / (n (n^2 - 1))$, with $d_i$ the difference of dense ranks.

    Dense ranks increase by one per *different* value. The formula equals Spearman's correlation only without
    ties: constant values, for example, may get a correlation of -.6.
    """
    n = mask.sum(-1)
    apart = np.where(mask, _dense_ranks(x, mask) - _dense_ranks(y, mask), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n > 1, 1 - 6 * (apart**2).sum(-1) / (n * (n**2 - 1.0)), np.nan)


def _dense_ranks(
    values: Float[np.ndarray, "*checkpoint row token"], mask: Bool[np.ndarray, "row token"]
) -> Float[np.ndarray, "*checkpoint row token"]:
    """1 for the smallest value of a row, 2 for the next different one, ..."""
    filled = np.where(mask, values, np.inf)
    order = np.argsort(filled, axis=-1, kind="stable")
    ordered = np.take_along_axis(filled, order, -1)
    steps = np.concatenate([np.ones_like(ordered[..., :1]), ordered[..., 1:] != ordered[..., :-1]], -1)
    ranks = np.empty_like(filled)
    np.put_along_axis(ranks, order, steps.cumsum(-1), -1)
    return ranks
