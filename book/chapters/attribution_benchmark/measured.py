r"""Does a measure of attribution tell which tokens the algorithm needs?

`scored` asks every measure about every question, `plausibility_rows` holds its scores against the truth;
`book.chapters.attribution_benchmark.faithfulness` asks the other question, whether the model uses what the
measure names. The two are never mixed: a model can be right by a detour, and then a measure that is true of
the model misses what the algorithm needs.

What a measure has to beat stands in the same tables: `BASELINES`, rankings of tokens that know nothing of the
model, and what it says of an `untrained` one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnlib.attribution.attention import shares_a_pass
from attnlib.attribution.prompts import Method, Prompts, measure
from attnlib.attribution.registry import METHODS, Methods, attributions, named
from attnlib.models.base import Saved, seeded
from attnlib.models.pretrained import untrained_twin
from attnlib.stats.plausibility import (
    average_precision,
    average_precision_by_chance,
    hit_at_k,
    hit_at_k_by_chance,
)
from book.chapters.attribution_benchmark.questions import Questions, alike, row_table
from book.chapters.attribution_benchmark.single_head import SingleHead
from book.chapters.later import MEASURES as LATER

AVERAGE_PRECISION = "average precision"

ASKED = tuple(name for name in METHODS if name not in LATER)
"""What chapters ask where no measures are named."""


class Scored(NamedTuple):
    """Scores of measures, one per token, and for the `missing` ones why the model cannot give them."""

    scores: dict[str, Float[Tensor, "item token"]]
    missing: dict[str, str]


def scored(
    model: nn.Module, questions: Questions, methods: Methods = tuple(METHODS), *, batch_size: int = 16
) -> Scored:
    """The scores of measures for the target of every question, against its foil where it has one."""
    left = named(methods)
    if not len(questions):
        raise ValueError(f"there should be questions of {questions.setting}; got none")
    asked = questions.to(next(model.parameters()).device)
    scores, missing = dict[str, Tensor](), dict[str, str]()
    for *_, some in alike(asked.query, asked.attention_mask.sum(1), most=batch_size):
        found = _asked(model, asked.where(some), left, None if scores else missing)
        left = {name: left[name] for name in found}
        for name, each in found.items():
            whole = scores.setdefault(name, torch.zeros(asked.input_ids.shape))
            whole[some.cpu(), : each.shape[1]] = each.detach().float().cpu()
    return Scored({name: scores[name] for name in named(methods) if name in scores}, missing)


def plausibility_rows(
    questions: Questions, scores: Mapping[str, Float[Tensor, "item token"]], k: Collection[int] = (1, 3)
) -> pd.DataFrame:
    """Hit at k and average precision of every measure's scores, a row per question, measure and metric."""
    truth, candidates = (each.cpu().numpy() for each in (questions.truth, questions.candidates))
    tables = []
    for name, each in scores.items():
        of = each.detach().cpu().double().numpy(), truth, candidates
        blind = average_precision_by_chance(truth, candidates)
        numbers = {AVERAGE_PRECISION: (average_precision(*of), blind)}
        for n in k:
            numbers[f"hit at {n}"] = hit_at_k(*of, n), hit_at_k_by_chance(truth, candidates, n)
        tables += [row_table(questions, name, metric, *pair, 1.0) for metric, pair in numbers.items()]
    return pd.concat(tables, ignore_index=True)


def _asked(
    model: nn.Module,
    questions: Questions,
    methods: Mapping[str, Method],
    missing: dict[str, str] | None,
) -> dict[str, Tensor]:
    """The scores of questions of one query and length; why a measure cannot be given goes into `missing`."""
    length, query = int(questions.attention_mask[0].sum()), int(questions.query[0])
    ids, how = questions.input_ids[:, :length], {"target": questions.target, "foil": questions.foil}
    if questions.counterfactual is not None:
        how["counterfactual"] = questions.counterfactual[:, :length]
    together = {name: method for name, method in methods.items() if shares_a_pass(method)}
    alone = [{name: method} for name, method in methods.items() if name not in together]
    waiting, found = [part for part in (together, *alone) if part], dict[str, Tensor]()
    while waiting:
        some = waiting.pop(0)
        try:
            found |= attributions(model, ids, some, None, query, **how)
        except ValueError as error:
            if missing is None:
                raise
            if len(some) == 1:
                missing |= dict.fromkeys(some, str(error))
            else:  # whichever of them it is
                waiting = [*({name: method} for name, method in some.items()), *waiting]
    return found


@measure
def even(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """The same for every token: what is ranked by it gets what chance gets."""
    return torch.ones_like(prompts.ids, dtype=torch.float32)


@measure
def nearest(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """The nearer to the query, the more."""
    places = torch.arange(prompts.ids.shape[1], device=prompts.ids.device)
    return (prompts.ids.shape[1] - (places - prompts.query).abs()).float().expand(prompts.ids.shape)


@measure
def earliest(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """The nearer to the beginning, the more."""
    n = prompts.ids.shape[1]
    return torch.arange(n, 0, -1, device=prompts.ids.device).float().expand(prompts.ids.shape)


@measure
def random(model: nn.Module, prompts: Prompts, *, seed: int = 0) -> Float[Tensor, "batch key"]:
    """Numbers from 0 to 1, the same whenever prompts of the same tokens, in any order, are asked about."""
    generator = torch.Generator().manual_seed(seed + int(prompts.ids.sum()) + prompts.query)
    return torch.rand(prompts.ids.shape, generator=generator).to(prompts.ids.device)


BASELINES: dict[str, Method] = {
    "even attention": even,
    "random order": random,
    "nearest first": nearest,
    "earliest first": earliest,
}
"""By name."""


def untrained(model: nn.Module, seed: int = 0) -> nn.Module:
    """A model of the same configuration with random weights, on the same device, in evaluation mode."""
    if isinstance(model, PreTrainedModel):
        return untrained_twin(model, seed)
    if isinstance(model, SingleHead):
        asked: Any = type(model)
        return asked(untrained(model.model, seed)).eval()
    if not isinstance(model, Saved):
        raise ValueError(
            f"{type(model).__name__} has no configuration to build an untrained control from. Give a "
            "Hugging Face model, or one of attnlib's that can be saved."
        )
    kind: Any = type(model)
    with seeded(seed):
        twin = kind(model.config)
    return twin.to(next(model.parameters()).device).eval()
