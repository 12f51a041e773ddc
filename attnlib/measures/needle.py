"""Which attribution finds the needle: the tokens that a model's right answer was copied from.

`needle_ranks` runs a model over items of `attnlib.generators.needle` and says, for every item that it
answers correctly and every method, on which rank the best-placed needle token is. `needle_table` counts how
often that is among the top k, `needle_comparison` tells which differences between methods are more than
chance.

A right answer is one whose every token is the model's most probable one (what greedy decoding would write).
Methods score the prompt's tokens for the query that predicts the answer's first token; the query itself is
never a candidate (blank-out cannot leave it out, and rollout's residual would put it first). With
`among="facts"` the question and the answer's opening are no candidates either, with their copies of the name.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy import stats
from torch import Tensor
from tqdm.auto import tqdm

from attnlib.attribution.methods import blank_out, follow, input_gradient_x_embedding
from attnlib.generators.base import IGNORE
from attnlib.generators.needle import NeedleSample
from attnlib.rollout import null_ratio, uniform_causal_rollout
from attnlib.stats.comparisons import corrected
from attnlib.stats.intervals import proportion

FROM_ONE_PASS = (
    "raw attention, last layer",
    "mean attention",
    "rollout",
    "sink-free rollout",
    "rollout over null",
    "sink-free over null",
)
GRADIENT, BLANK_OUT = "gradient x embedding", "blank-out"
METHODS = (*FROM_ONE_PASS, GRADIENT, BLANK_OUT)
"""What can be compared; the last one costs about half a forward pass per prompt token."""

CHANCE = "chance"
"""The row of a table that says how often the needle is among k candidates drawn blindly."""

Among = Literal["prompt", "facts"]


class NeedleRun(NamedTuple):
    """What `needle_ranks` found.

    Attributes:
        items: a row per item: `item`, `facts`, `position`, `tokens` (of the prompt) and `answered`.
        ranks: a row per item that counts and method: the item's columns, `method`, and for both sets of
            candidates `rank_prompt`, `rank_facts` (of the best needle token, from 1; ties count against it),
            `candidates_prompt`, `candidates_facts` and `needles`, how many needle tokens there are.
    """

    items: pd.DataFrame
    ranks: pd.DataFrame


def needle_ranks(
    model: Any,
    items: Iterable[NeedleSample],
    methods: Sequence[str] = METHODS,
    *,
    blank_out_items: int | None = None,
    needle: Literal["value", "name"] = "value",
    only_answered: bool = True,
    batch_size: int = 8,
    progress: bool = False,
) -> NeedleRun:
    """Run the needle test.

    Items of one length share a batch. Attention, mean attention and every rollout come from the one pass that
    also shows whether the answer is right; gradient and blank-out run on items that count only.

    Args:
        model: a causal Hugging Face language model.
        items: samples of `NeedleGenerator`, with the model's own tokenizer.
        methods: some of `METHODS`.
        blank_out_items: run blank-out on the first so many items that count only; on all by default.
        needle: which tokens of its fact count as found: those of the value, or those of the name.
        only_answered: whether only items with a right answer count; False to see that code works with a model
            that answers nothing.
        batch_size: items at once.
        progress: show a bar.

    Raises:
        ValueError: there is no such method, or there are no items.
    """
    unknown = [method for method in methods if method not in METHODS]
    samples = list(items)
    if unknown or not samples:
        raise ValueError(
            f"there should be items, and methods out of {METHODS}; got {len(samples)}, {unknown}"
        )
    rows, ranks, blanked = [], [], 0
    bar = tqdm(total=len(samples), disable=not progress, desc="needle test", unit="item")
    for indices in _batches(samples, batch_size):
        batch = [samples[index] for index in indices]
        scores, answered = _one_pass(model, batch)
        count = answered if only_answered else torch.ones_like(answered)
        if GRADIENT in methods and bool(count.any()):
            scores[GRADIENT] = _gradient(model, batch, count)
        for place, (index, sample) in enumerate(zip(indices, batch, strict=True)):
            about: dict[str, Any] = {
                "item": index,
                "facts": sample.facts,
                "position": sample.position,
                "tokens": sample.n_prompt,
            }
            rows.append(about | {"answered": bool(answered[place])})
            if not count[place]:
                continue
            mine = {method: scores[method][place] for method in methods if method != BLANK_OUT}
            if BLANK_OUT in methods and (blank_out_items is None or blanked < blank_out_items):
                mine[BLANK_OUT] = _blank_out(model, sample)
                blanked += 1
            for method, score in mine.items():
                ranks.append(about | {"method": method} | _ranked(score.cpu(), sample, needle))
        bar.update(len(batch))
    bar.close()
    columns = [*[*rows[0]][:-1], "method", *_RANKED]
    by_item = pd.DataFrame(rows).sort_values("item", ignore_index=True)
    return NeedleRun(by_item, pd.DataFrame(ranks, columns=columns).sort_values("item", ignore_index=True))


def _batches(samples: list[NeedleSample], size: int) -> list[list[int]]:
    """Indices of samples of one length of prompt and answer, at most `size` together."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index, sample in enumerate(samples):
        groups.setdefault((sample.n_prompt, len(sample.input_ids)), []).append(index)
    batches = [
        group[start : start + size] for group in groups.values() for start in range(0, len(group), size)
    ]
    return sorted(batches)


def _one_pass(model: Any, batch: list[NeedleSample]) -> tuple[dict[str, Tensor], Bool[Tensor, " item"]]:
    ids = torch.stack([sample.input_ids for sample in batch]).to(model.device)
    targets = torch.stack([sample.target_ids for sample in batch]).to(model.device)
    query = batch[0].n_prompt - 1
    found = follow(model, ids, rows=[query], logits_from=query)
    said, asked = found.logits.argmax(-1), targets[:, query:]
    answered = ((said == asked) | (asked == IGNORE)).all(1)
    layers = int(model.config.get_text_config().num_hidden_layers)
    over_null = []
    for rolled, sink in ((found.rollout, None), (found.sink_free, [0])):
        null = uniform_causal_rollout(ids.shape[1], layers, rows=[query], sink=sink)
        over_null.append(null_ratio(rolled, null.expand_as(rolled)))
    scores = [found.last, found.mean, found.rollout, found.sink_free, *over_null]
    return {name: score[:, 0] for name, score in zip(FROM_ONE_PASS, scores, strict=True)}, answered.cpu()


def _gradient(
    model: Any, batch: list[NeedleSample], count: Bool[Tensor, " item"]
) -> Float[Tensor, "item token"]:
    """Scores of the items that count; NaN for the others."""
    n, ids = batch[0].n_prompt, torch.stack([sample.input_ids for sample in batch]).to(model.device)
    scores = torch.full((len(batch), n), torch.nan, device=model.device)
    which = count.to(model.device)
    scores[which] = input_gradient_x_embedding(model, ids[which, :n], ids[which, n]).to(scores)
    return scores


def _blank_out(model: Any, sample: NeedleSample) -> Float[Tensor, " token"]:
    ids = sample.input_ids.to(model.device)
    return blank_out(model, ids[: sample.n_prompt], int(ids[sample.n_prompt]))


_RANKED = ("rank_prompt", "candidates_prompt", "rank_facts", "candidates_facts", "needles")


def _ranked(score: Float[Tensor, " token"], sample: NeedleSample, needle: str) -> dict[str, int]:
    assert sample.reference is not None and sample.context is not None and sample.name is not None
    query = sample.n_prompt - 1
    wanted = (sample.reference[query] if needle == "value" else sample.name)[:query]
    best = score[:query][wanted].max()
    ahead = (score[:query] >= best) & ~wanted
    numbers = []
    for candidates in (torch.ones_like(wanted), sample.context[:query]):
        numbers += [1 + int((ahead & candidates).sum()), int(candidates.sum())]
    return dict(zip(_RANKED, [*numbers, int(wanted.sum())], strict=True))


def needle_table(
    run: NeedleRun,
    k: Collection[int] = (1, 5, 10),
    *,
    among: Among = "prompt",
    by: Sequence[str] = (),
    confidence: float = 0.95,
) -> pd.DataFrame:
    r"""How often each method has a needle token among its top `k`, with Wilson's interval.

    Args:
        run: of `needle_ranks`.
        k: how many tokens to look at.
        among: candidates: all prompt tokens but the query, or those of the facts.
        by: columns of `run.ranks` to split by: `facts`, `position`.
        confidence: of the intervals.

    Returns:
        Columns `by`, `method`, `k`, `value`, `low`, `high` and `n` (items). The method "chance" draws
        candidates blindly: the mean over items of $1 - \binom{c - m}{k} / \binom{c}{k}$, with $c$ candidates,
        $m$ of them needles; it has no interval of its own.

    Raises:
        ValueError: no item counts.
    """
    if run.ranks.empty:
        raise ValueError(
            f"the model answered none of the {len(run.items)} items, so there is nothing to find; ask for "
            "fewer facts, take a larger model, or call needle_ranks(..., only_answered=False) to try the code"
        )
    rows = []
    groups = run.ranks.groupby(list(by), sort=True) if by else [((), run.ranks)]
    for values, group in groups:
        split = dict(zip(by, values, strict=True))
        for method in dict.fromkeys(run.ranks["method"]):
            ranks = group.loc[group["method"] == method, f"rank_{among}"]
            if len(ranks):
                rows += [
                    split
                    | {"method": method, "k": each}
                    | proportion(int((ranks <= each).sum()), len(ranks), confidence)._asdict()
                    for each in k
                ]
        items = group.drop_duplicates("item")
        for each in k:
            missed = stats.hypergeom.pmf(0, items[f"candidates_{among}"], items["needles"], each)
            value = float(np.mean(1 - missed))
            alike = {"value": value, "low": value, "high": value, "n": len(items)}
            rows.append(split | {"method": CHANCE, "k": each} | alike)
    return pd.DataFrame(rows)


def needle_comparison(
    run: NeedleRun, k: int = 5, *, among: Among = "prompt", reference: str | None = None
) -> pd.DataFrame:
    """Whether two methods differ in how often they have a needle token among their top `k`.

    McNemar's exact test on items that both methods were run on: under the hypothesis that they find equally
    often, an item that only one of them finds is as likely to be the one's as the other's. Holm's correction
    over all pairs of the table.

    Args:
        run: of `needle_ranks`.
        k: how many tokens to look at.
        among: as in `needle_table`.
        reference: compare only with this method; all pairs by default.

    Returns:
        Columns `first`, `second`, `only_first`, `only_second` (items that only one of them finds),
        `difference` (share of items found by the first minus by the second), `n`, `p` and `p_holm`.

    Raises:
        ValueError: the reference was not run.
    """
    table = run.ranks.pivot(index="item", columns="method", values=f"rank_{among}")
    methods = [method for method in METHODS if method in table]
    if reference is not None and reference not in methods:
        raise ValueError(f"reference should be one of {methods}; got {reference!r}")
    pairs = [pair for pair in itertools.combinations(methods, 2) if reference is None or reference in pair]
    rows = []
    for first, second in pairs:
        both = table[[first, second]].dropna() <= k
        only_first = int((both[first] & ~both[second]).sum())
        only_second = int((both[second] & ~both[first]).sum())
        apart, n = only_first + only_second, len(both)
        p = stats.binomtest(only_first, apart, 0.5).pvalue if apart else 1.0
        difference = (only_first - only_second) / n if n else float("nan")
        rows.append((first, second, only_first, only_second, difference, n, float(p)))
    names = ["first", "second", "only_first", "only_second", "difference", "n", "p"]
    found = pd.DataFrame(rows, columns=names)
    return found.assign(p_holm=corrected(found["p"].to_numpy(float), "holm"))
