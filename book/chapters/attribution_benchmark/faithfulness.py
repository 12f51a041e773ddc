r"""What a model predicts on some of the tokens only: does it use those that a measure puts first?

A token that is removed is masked as a key, for every query in all layers, and the others keep their positions
(recurrent models read their unknown word there); or another token stands in its place. The model is asked for

    p = p(y)        or, with a foil z,        p = p(y) / (p(y) + p(z))

With $p(S)$ the probability of the prediction on the tokens $S$, $C$ all candidates and $T_b$ the first $b$ of
them by the score, a budget that is the same for every score,

    comprehensiveness    mean over b of p(C) - p(C without T_b)      large: what is put first was needed
    sufficiency          mean over b of p(C) - p(T_b)                small: what is put first is enough

The level of chance is the mean of the same number over random orders. Normalised by it, 0 is a random order;
1 is a prediction that is gone without the first tokens, whatever the budget, or as sure with these alone.

References:
    DeYoung et al. 2020, *ERASER: A Benchmark to Evaluate Rationalized NLP Models*, section 4: they divide by
    one budget more, that of no token, which is 0. There, tokens are deleted.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.attribution.prompts import Prompts
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of
from attnlib.models.causal import is_causal
from attnlib.stats.plausibility import Mask, Numbers, Scores, comparable
from attnlib.stats.ragged import Ragged
from attnlib.stats.rank_measures import spearman_rows
from book.chapters.attribution_benchmark.questions import Questions, alike, row_table

Budget = float | int
"""How many tokens: a share of the candidates, rounded up, if below 1; else their number."""

BUDGETS: tuple[Budget, ...] = (0.1, 0.2, 0.5)
"""Shares of the candidates that are removed, or kept."""

COMPREHENSIVENESS, SUFFICIENCY = "comprehensiveness", "sufficiency"


def tokens_of(budget: Budget, candidates: Mask) -> Int[np.ndarray, " item"]:
    """How many tokens a budget is, of every item."""
    if not budget > 0 or (budget >= 1 and budget != int(budget)):
        raise ValueError(f"a budget should be a share between 0 and 1, or a number of tokens; got {budget}")
    n = candidates.sum(1)
    return np.minimum(n, int(budget)) if budget >= 1 else np.ceil(np.round(budget * n, 9)).astype(np.int64)


def counts_of(budgets: Sequence[Budget], candidates: Mask) -> Int[np.ndarray, "item budget"]:
    """How many tokens each of several budgets is; see `tokens_of`."""
    return np.stack([tokens_of(budget, candidates) for budget in budgets], axis=1)


def order_of(scores: Scores, candidates: Mask, seed: int = 0) -> Int[np.ndarray, "item token"]:
    """Each candidate's place from the largest score on, from 0; what is no candidate comes after them.

    Equal scores are ordered by a coin, the same for all scores of one shape and seed; NaN comes last.
    """
    coins = np.random.default_rng(seed).random(scores.shape)
    values = comparable(scores, candidates)
    order = np.lexsort((coins, -values, ~candidates), axis=-1)
    return order.argsort(axis=1)


def first_tokens(
    scores: Scores, candidates: Mask, budgets: Sequence[Budget], seed: int = 0
) -> Bool[np.ndarray, "item budget token"]:
    """Which candidates the score puts first, within every budget; ties as in `order_of`."""
    place = order_of(scores, candidates, seed)
    return (place[:, None] < counts_of(budgets, candidates)[..., None]) & candidates[:, None]


def rank_agreement(scores: Scores, standard: Scores, candidates: Mask) -> Numbers:
    """Spearman's correlation of two scores over an item's candidates."""
    pair = [comparable(each, candidates) for each in (scores, standard)]
    broken = np.isnan(np.stack(pair)).any(0) & candidates
    low, high = (np.where(candidates, pair[1], end) for end in (np.inf, -np.inf))
    silent = low.min(1, initial=np.inf) >= high.max(1, initial=-np.inf)
    found = spearman_rows(*(Ragged.from_padded(each, candidates) for each in pair))
    return np.where(broken.any(1) | silent, np.nan, np.nan_to_num(found))


Kept = Bool[Tensor, "item variant token"]


@torch.no_grad()
def probabilities(
    model: nn.Module,
    questions: Questions,
    kept: Kept,
    *,
    replacement: int | None = None,
    batch_size: int = 128,
) -> Float[Tensor, "item variant"]:
    """`p` of every question on some of its tokens only; equal ones are computed once."""
    asked = questions.to(next(model.parameters()).device)
    if replacement is None and "attention_mask" not in inspect.signature(model.forward).parameters:
        raise ValueError(
            f"{type(model).__name__} does not take a mask, so tokens cannot be left out: say which token "
            "is to stand in their place (replacement=...)."
        )
    kept = kept.to(asked.input_ids.device) & asked.attention_mask[:, None]
    item = torch.arange(len(asked), device=kept.device)[:, None].expand(kept.shape[:2])
    rows = torch.cat([item.flatten()[:, None], kept.flatten(0, 1)], 1)
    different, which = torch.unique(rows, dim=0, return_inverse=True)
    items, left = different[:, 0], different[:, 1:].bool()
    found = torch.zeros(
        len(different), dtype=torch.float64
    )  # on the processor: some GPUs have no such numbers
    causal = is_causal(model)
    with evaluating(model):
        lengths = asked.attention_mask.sum(1)
        for query, length, some in alike(asked.query[items], lengths[items], most=batch_size):
            prompts = Prompts(asked.input_ids[items[some], :length], query)
            logits = _logits(model, prompts, left[some, :length], replacement, causal)
            foil = None if asked.foil is None else asked.foil[items[some]]
            aimed = prompts._replace(
                target=asked.target[items[some]].cpu(), foil=None if foil is None else foil.cpu()
            )
            score = aimed.score(logits.cpu().double())
            found[some.cpu()] = score.exp() if foil is None else score.sigmoid()
    return found[which.cpu()].view(kept.shape[:2])


def faithfulness_rows(
    model: nn.Module,
    questions: Questions,
    scores: Mapping[str, Float[Tensor, "item token"]],
    *,
    budgets: Sequence[Budget] = BUDGETS,
    orders: int = 5,
    standard: str | None = None,
    seed: int = 0,
    replacement: int | None = None,
    batch_size: int = 128,
) -> pd.DataFrame:
    """Comprehensiveness, sufficiency and agreement with a standard, for every method and item."""
    if standard is not None and standard not in scores:
        raise ValueError(f"the standard should be among the scores, {[*scores]}; got {standard!r}")
    candidates = questions.candidates.cpu().numpy()
    given = {name: each.detach().cpu().double().numpy() for name, each in scores.items()}
    rng = np.random.default_rng(seed)
    ranked = [*given.values(), *(rng.random(candidates.shape) for _ in range(orders))]
    first = np.stack([first_tokens(each, candidates, budgets, seed) for each in ranked], 1)
    ways = np.stack([~first, first | ~candidates[:, None, None]], 1)  # without these, and with these only
    variants = ways.reshape(len(ways), -1, ways.shape[-1])
    kept = np.concatenate([np.ones_like(variants[:, :1]), variants], 1)
    how: dict[str, Any] = {"replacement": replacement, "batch_size": batch_size}
    p = probabilities(model, questions, torch.from_numpy(kept), **how).cpu().numpy()
    whole, lost = p[:, 0], (p[:, :1] - p[:, 1:]).reshape(ways.shape[:-1]).mean(-1)
    tables = []
    for metric, loss in zip((COMPREHENSIVENESS, SUFFICIENCY), lost.swapaxes(0, 1), strict=True):
        chance = loss[:, len(given) :].mean(1)
        perfect = whole if metric == COMPREHENSIVENESS else 0.0
        for place, name in enumerate(given):
            tables.append(row_table(questions, name, metric, loss[:, place], chance, perfect))
    for name in [name for name in given if standard is not None and name != standard]:
        agreement = rank_agreement(given[name], given[str(standard)], candidates)
        tables.append(row_table(questions, name, f"agreement with {standard}", agreement, 0.0, 1.0))
    return pd.concat(tables, ignore_index=True)


def _logits(
    model: Any, prompts: Prompts, left: Bool[Tensor, "row token"], replacement: int | None, causal: bool
) -> Float[Tensor, "row class"]:
    """The logits at the query, of tokens that see those that are left only."""
    if replacement is not None:
        return logits_of(model, prompts.ids.masked_fill(~left, replacement), start=prompts.query)[:, 0]
    n = prompts.query + 1 if causal else prompts.ids.shape[1]
    return logits_seeing(model, prompts.ids[:, :n], left[:, :n], prompts.query)[:, 0]


def logits_seeing(
    model: Any, ids: Int[Tensor, "row token"], seen: Bool[Tensor, "row token"], start: int
) -> Float[Tensor, "row position class"]:
    """The logits from `start` on, where only some of the tokens are keys; these keep their positions."""
    given: dict[str, Any] = {}
    if "position_ids" in inspect.signature(model.forward).parameters:
        given["position_ids"] = torch.arange(ids.shape[1], device=ids.device).expand(len(ids), -1)
    return logits_of(model, ids, seen, start, **given)
