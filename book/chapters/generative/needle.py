"""Which attribution finds the needle: the tokens that a model's right answer was copied from.

`needle_ranks` runs a model over items of `attnlib.generators.needle` and says, for every item that it
answers correctly and every method, on which rank the best-placed needle token is. `needle_table` counts how
often that is among the top k, `needle_comparison` tells which differences between methods are more than
chance.

A right answer is one whose every token is the model's most probable one (what greedy decoding would write).
Methods score the prompt's tokens for the query that predicts the answer's first token; the query itself is
never a candidate (blank-out cannot leave it out, and rollout's residual would put it first). With
`among="facts"` the question and the answer's opening are no candidates either, with their copies of the name;
with `among="facts, filtered"`, neither are tokens that say nothing (articles, punctuation).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from scipy import stats
from torch import Tensor

from attnlib.attribution.attention import one_pass, scores_of, shares_a_pass
from attnlib.attribution.prompts import Method, Prompts
from attnlib.attribution.registry import METHODS, Methods, named
from attnlib.generators.base import IGNORE
from attnlib.generators.needle import NeedleSample
from attnlib.models.attention.forward import check_prompt
from attnlib.stats.comparisons import corrected
from attnlib.stats.summaries import summarise

BLANK_OUT = "blank-out"
COMPARED = (
    "raw attention, last layer",
    "mean attention",
    "rollout",
    "sink-free rollout",
    "rollout over null",
    "sink-free over null",
    "gradient x embedding",
    BLANK_OUT,
)
"""What is compared where nothing is asked for, whatever else comes to `METHODS`: a comparison corrects for
how many there are. Blank-out costs about half a forward pass per prompt token."""

CHANCE = "chance"
"""The row of a table that says how often the needle is among k candidates drawn blindly."""

MEAN_ROLLOUT = "rollout, mean over layers"
"""The name of rollout as the study of language models that write reads it."""

READINGS = ("rollout", MEAN_ROLLOUT, "mean attention")
"""What the study could have read: rollout's last layer; what it reads; what rollout is made of."""

Informative = Callable[[Int[Tensor, " token"]], Bool[Tensor, " token"]]
"""From tokens to whether each of them says something."""

AMONG = ("prompt", "facts")
Among = Literal["prompt", "facts", "prompt, filtered", "facts, filtered"]


class NeedleRun(NamedTuple):
    """What `needle_ranks` found: a row per item, and a row per method and item that counts.

    Attributes:
        ranks: also, for each set of candidates, `rank_prompt` (of the best needle token, from 1; ties count
            against it) and `candidates_prompt`; if there is a filter, `rank_prompt, filtered` and so on.
    """

    items: pd.DataFrame
    ranks: pd.DataFrame


def needle_ranks(
    model: Any,
    items: Iterable[NeedleSample],
    methods: Methods = COMPARED,
    *,
    blank_out_items: int | None = None,
    only_answered: bool = True,
    informative: Informative | None = None,
) -> NeedleRun:
    """Run the needle test; a method that needs passes of its own runs on items that count only."""
    chosen, samples = named(methods), list(items)
    if not samples:
        raise ValueError("there should be items; got none")
    rows, ranks, blanked = list[dict](), list[dict](), 0
    for indices in _batches(samples):
        batch = [samples[index] for index in indices]
        scores, answered = _seen_in_passing(model, batch, chosen)
        counting = [place for place in range(len(batch)) if answered[place] or not only_answered]
        for name in [name for name in chosen if name not in scores]:
            asked = counting
            if name == BLANK_OUT and blank_out_items is not None:
                asked = counting[: max(0, blank_out_items - blanked)]
                blanked += len(asked)
            scores[name] = _on_prompts(model, batch, asked, {name: chosen[name]})
        for place, (index, sample) in enumerate(zip(indices, batch, strict=True)):
            about: dict[str, Any] = {"item": index, "facts": sample.facts}
            about |= {"position": sample.position, "tokens": sample.n_prompt}
            rows.append(about | {"answered": bool(answered[place])})
            for name in chosen if place in counting else ():
                if place in scores[name]:
                    ranked = _ranked(scores[name][place].cpu(), sample, informative)
                    ranks.append(about | {"method": name} | ranked)
    by_item = pd.DataFrame(rows).sort_values("item", ignore_index=True)
    by_method = pd.DataFrame(ranks, columns=None if ranks else ["item"])
    return NeedleRun(by_item, by_method.sort_values("item", ignore_index=True))


def _batches(samples: list[NeedleSample], size: int = 8) -> list[list[int]]:
    """Indices of samples of one length of prompt and answer, at most `size` together."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index, sample in enumerate(samples):
        groups.setdefault((sample.n_prompt, len(sample.input_ids)), []).append(index)
    batches = [
        group[start : start + size] for group in groups.values() for start in range(0, len(group), size)
    ]
    return sorted(batches)


Scores = Mapping[int, Float[Tensor, " token"]]
"""By an item's place in its batch."""


def _seen_in_passing(
    model: Any, batch: list[NeedleSample], methods: Mapping[str, Method]
) -> tuple[dict[str, Scores], Bool[Tensor, " item"]]:
    """Scores of those methods that only watch attention; and whether answers are right."""
    ids, targets = _stacked(model, batch)
    query = batch[0].n_prompt - 1
    together = {name: method for name, method in methods.items() if shares_a_pass(method)}
    check_prompt(model, ids, None)
    found, logits = one_pass(model, Prompts(ids, query), together, logits_from=query)
    assert logits is not None
    said, asked = logits.argmax(-1), targets[:, query:]
    answered = ((said == asked) | (asked == IGNORE)).all(1)
    return {name: dict(enumerate(scores)) for name, scores in found.items()}, answered.cpu()


def _on_prompts(
    model: Any, batch: list[NeedleSample], places: list[int], methods: Mapping[str, Method]
) -> Scores:
    """Scores of some items, whose prompts end where the answer begins, by a method of any kind."""
    if not places:
        return {}
    ids, n = _stacked(model, [batch[place] for place in places])[0], batch[0].n_prompt
    (scores,) = scores_of(model, Prompts(ids[:, :n], n - 1, ids[:, n]), methods).values()
    return dict(zip(places, scores, strict=True))


def _stacked(
    model: Any, batch: list[NeedleSample]
) -> tuple[Int[Tensor, "item token"], Int[Tensor, "item token"]]:
    """Tokens and targets, where the model is."""
    device = next(model.parameters()).device
    ids, targets = ([getattr(sample, name) for sample in batch] for name in ("input_ids", "target_ids"))
    return torch.stack(ids).to(device), torch.stack(targets).to(device)


def _ranked(
    score: Float[Tensor, " token"], sample: NeedleSample, informative: Informative | None
) -> dict[str, int]:
    assert sample.reference is not None and sample.context is not None
    query = sample.n_prompt - 1
    wanted = sample.reference[query, :query]
    score = score[:query].nan_to_num(-torch.inf, torch.inf, -torch.inf)
    ahead = (score >= score[wanted].max()) & ~wanted
    candidates = dict(zip(AMONG, (torch.ones_like(wanted), sample.context[:query]), strict=True))
    if informative is not None:
        keep = informative(sample.input_ids[:query])
        if not bool(keep[wanted].all()):
            raise ValueError(
                f"the filter should keep the needle's own tokens ({sample.answer}); got one less"
            )
        candidates |= {f"{name}, filtered": each & keep for name, each in candidates.items()}
    numbers = {"needles": int(wanted.sum())}
    for name, each in candidates.items():
        numbers |= {f"rank_{name}": 1 + int((ahead & each).sum()), f"candidates_{name}": int(each.sum())}
    return numbers


def needle_table(run: NeedleRun, k: Collection[int] = (1, 5, 10), *, among: Among = "prompt") -> pd.DataFrame:
    r"""How often each method has a needle token among its top `k`, with Wilson's interval."""
    if run.ranks.empty:
        raise ValueError(
            f"the model answered none of the {len(run.items)} items, so there is nothing to find; ask for "
            "fewer facts, take a larger model, or call needle_ranks(..., only_answered=False) to try the code"
        )
    rank, count, keys = f"rank_{among}", f"candidates_{among}", ["method", "k"]
    ranks, items = run.ranks, run.ranks.drop_duplicates("item").assign(method=CHANCE)
    found = pd.concat([ranks.assign(k=each, found=ranks[rank] <= each) for each in k])
    drawn = {each: np.minimum(each, items[count]) for each in k}
    missed = [stats.hypergeom.pmf(0, items[count], items["needles"], drawn[each]) for each in k]
    blind = pd.concat([items.assign(k=each, value=1 - gone) for each, gone in zip(k, missed, strict=True)])
    blind = summarise(blind, keys)
    blind = blind.assign(low=blind["value"], high=blind["value"])
    return pd.concat([summarise(found, keys, "found"), blind], ignore_index=True)


def needle_comparison(
    run: NeedleRun, k: int = 5, *, among: Among = "prompt", reference: str | None = None
) -> pd.DataFrame:
    """Whether two methods differ in how often they have a needle token among their top `k`.

    By McNemar's exact test on items that both were run on, with Holm's correction over all pairs.
    """
    table = run.ranks.pivot(index="item", columns="method", values=f"rank_{among}")
    methods = [method for method in dict.fromkeys([*METHODS, *run.ranks["method"]]) if method in table]
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
    return found.assign(p_holm=corrected(found["p"].to_numpy(float)))


def chance_clause(found: Any, chance: Any) -> str:
    """How often something is found beside a blind draw, as a part of a sentence."""
    if found is None or chance is None:
        return "(not run)"
    if found["low"] > chance["value"]:
        return "more often than chance"
    return "less often than chance" if found["high"] < chance["value"] else "no more often than chance"
