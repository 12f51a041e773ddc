"""Which tokens an answer was copied from, and on what kinds of tokens rollout's mass lies.

`needle_ranks` runs a model over items of `attnlib.generators.needle`. For every correctly answered item and
every method, it returns the rank of the best-ranked needle token, that is, of a token that the right answer
was copied from.

An answer is right if each of its tokens is the model's most probable one (as in greedy decoding).
Methods score the prompt's tokens for the query that predicts the answer's first token; the query itself is
never a candidate (occlusion cannot leave it out, and rollout's residual would rank it first). With
`among="facts"` the question and the answer's opening are no candidates either, with their copies of the name;
with `among="facts, filtered"`, neither are tokens that say nothing (articles, punctuation).

`mass_by_kind` says on what kinds of tokens rollout's mass lies, and how much of that needs no training. On
today's language models most of the mass goes to the first token, whatever it is, and much of the rest to
punctuation. Whether that says something about the model is seen by comparison with the same model before
training, and with uniform attention.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlib.attribution.attention import one_pass, scores_of, shares_a_pass
from attnlib.attribution.prompts import Method, Prompts
from attnlib.attribution.registry import Methods, named
from attnlib.generators.base import IGNORE
from attnlib.generators.needle import NeedleSample
from attnlib.models.attention.forward import check_prompt
from attnlib.models.pretrained import untrained_twin
from attnlib.rollout import rollout_of, uniform_causal_rollout

OCCLUSION = "blank-out"
COMPARED = (
    "raw attention, last layer",
    "mean attention",
    "rollout",
    "sink-free rollout",
    "rollout over null",
    "sink-free over null",
    "gradient x embedding",
    OCCLUSION,
)
"""The methods compared by default. The list is fixed, since a comparison corrects for the number of methods.
Occlusion costs about half a forward pass per prompt token."""

CHANCE = "chance"
"""The row of a table with the chance that the needle is among k candidates drawn at random."""

MEAN_ROLLOUT = "rollout, mean over layers"
"""The study's readout of rollout in text generation."""

READINGS = ("rollout", MEAN_ROLLOUT, "mean attention")
"""Possible readouts for the study: rollout's last layer, its own readout, and plain mean attention."""

Informative = Callable[[Int[Tensor, " token"]], Bool[Tensor, " token"]]
"""A function from tokens to whether each of them is informative."""

AMONG = ("prompt", "facts")
Among = Literal["prompt", "facts", "prompt, filtered", "facts, filtered"]


class NeedleRun(NamedTuple):
    """The result of `needle_ranks`.

    Attributes:
        items: a row per item, with `answered`.
        ranks: a row per method and item that counts. For each set of candidates such as "prompt", it has
            `rank_prompt` (of the best needle token, from 1; ties count against it) and `candidates_prompt`;
            if there is a filter, also `rank_prompt, filtered` and so on.
    """

    items: pd.DataFrame
    ranks: pd.DataFrame


def needle_ranks(
    model: Any,
    items: Iterable[NeedleSample],
    methods: Methods = COMPARED,
    *,
    occlusion_items: int | None = None,
    only_answered: bool = True,
    informative: Informative | None = None,
) -> NeedleRun:
    """Run the needle test; a method with forward passes of its own runs only on items that count."""
    chosen, samples = named(methods), list(items)
    if not samples:
        raise ValueError("there should be items; got none")
    rows, ranks, occluded = list[dict](), list[dict](), 0
    for indices in _batches(samples):
        batch = [samples[index] for index in indices]
        scores, answered = _seen_in_passing(model, batch, chosen)
        counting = [place for place in range(len(batch)) if answered[place] or not only_answered]
        for name in [name for name in chosen if name not in scores]:
            asked = counting
            if name == OCCLUSION and occlusion_items is not None:
                asked = counting[: max(0, occlusion_items - occluded)]
                occluded += len(asked)
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
"""The scores of items, by their index in a batch."""


def _seen_in_passing(
    model: Any, batch: list[NeedleSample], methods: Mapping[str, Method]
) -> tuple[dict[str, Scores], Bool[Tensor, " item"]]:
    """The scores of all methods that share one forward pass, and whether the answers are right."""
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
    """The scores of some items by any method, on their prompts without the answers."""
    if not places:
        return {}
    ids, n = _stacked(model, [batch[place] for place in places])[0], batch[0].n_prompt
    (scores,) = scores_of(model, Prompts(ids[:, :n], n - 1, ids[:, n]), methods).values()
    return dict(zip(places, scores, strict=True))


def _stacked(
    model: Any, batch: list[NeedleSample]
) -> tuple[Int[Tensor, "item token"], Int[Tensor, "item token"]]:
    """The tokens and targets of a batch, on the model's device."""
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


KINDS = ("first token", "punctuation", "function word", "other")

FUNCTION_WORDS = frozenset(
    "a about after all although an and any are as at be because been before being but by can could did do "  # noqa: SIM905
    "does for from had has have he her him his how i if in into is it its may me might must my no nor not of "
    "on or our shall she should so some than that the their them then there these they this those though to "
    "was we were what when where which while who whom whose why will with would you your".split()
)
"""English articles, pronouns, prepositions, conjunctions and auxiliaries."""


def kinds_of(tokenizer: Any, text: str) -> tuple[list[int], list[str]]:
    """A text's tokens, and the kind of each, one of `KINDS`; the first token is a kind of its own.

    A part of a function word counts as one, too; a token without a letter or digit is punctuation.
    """
    encoded = tokenizer(text, return_offsets_mapping=True, return_attention_mask=False)
    if not encoded["input_ids"]:
        raise ValueError("there should be a text; got one without tokens")
    function = np.zeros(len(text) + 1, dtype=bool)
    for word in re.finditer(r"[^\W\d_]+(?:['’][^\W\d_]+)?", text):
        function[word.start() : word.end()] = word.group().lower() in FUNCTION_WORDS
    kinds = []
    for start, end in encoded["offset_mapping"]:
        solid = [index for index in range(start, end) if text[index].isalnum()]
        kinds.append("punctuation" if not solid else "function word" if function[solid].all() else "other")
    return encoded["input_ids"], ["first token", *kinds[1:]]


def mass_by_kind(model: Any, tokenizer: Any, texts: Iterable[str], *, seed: int = 0) -> pd.DataFrame:
    """Rollout's mass per layer and kind of key, for a model and for its untrained baselines."""
    followed = {"trained": model, "untrained": untrained_twin(model, seed)}
    n_layers = int(model.config.get_text_config().num_hidden_layers)
    masses: dict[str, list[Float[np.ndarray, "layer kind"]]] = {name: [] for name in (*followed, "uniform")}
    shares = []
    for text in texts:
        ids, kinds = kinds_of(tokenizer, text)
        tokens, last = torch.tensor([ids], device=model.device), [len(ids) - 1]
        is_kind = torch.tensor([[kind == each for each in KINDS] for kind in kinds], dtype=torch.float64)
        shares.append(is_kind.mean(0).numpy())
        rolled = {
            name: rollout_of(each, tokens, rows=last, cumulative=True)[0] for name, each in followed.items()
        }
        rolled["uniform"] = uniform_causal_rollout(len(ids), n_layers, rows=last, cumulative=True)
        for name, rows in rolled.items():
            masses[name].append((rows.cpu().double() @ is_kind)[:, 0].numpy())
    if not shares:
        raise ValueError("there should be texts; got none")
    stacked = np.stack([np.stack(per_text, axis=1) for per_text in masses.values()])  # model layer text kind
    depth, n = stacked.shape[1:3]
    levels: list[Any] = [list(masses), range(1, depth + 1), range(n), KINDS]
    index = pd.MultiIndex.from_product(levels, names=["model", "layer", "text", "kind"])
    of_keys = np.broadcast_to(np.array(shares), stacked.shape)
    return pd.DataFrame({"value": stacked.ravel(), "tokens": of_keys.ravel()}, index).reset_index()
