r"""Does a measure of attribution tell which tokens the algorithm needs?

`scored` asks every measure about every question, `plausibility_rows` holds its scores against the truth;
`book.chapters.tells.faithfulness` asks the other question, whether the model uses what the measure names. The
two are never mixed: a model can be right by a detour, and then a measure that is true of the model misses
what the algorithm needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlib.attribution.attention import shares_a_pass
from attnlib.attribution.prompts import Method
from attnlib.attribution.registry import METHODS, Methods, attributions, named
from attnlib.stats.plausibility import (
    average_precision,
    average_precision_by_chance,
    hit_at_k,
    hit_at_k_by_chance,
)
from book.chapters.tells.question_rows import row_table
from book.chapters.tells.questions import Questions

AVERAGE_PRECISION = "average precision"


class Scored(NamedTuple):
    """What measures say of questions.

    Attributes:
        scores: by measure, a score per token.
        missing: of those that the model cannot give, why.
    """

    scores: dict[str, Float[Tensor, "item token"]]
    missing: dict[str, str]


def scored(
    model: nn.Module, questions: Questions, methods: Methods = tuple(METHODS), *, batch_size: int = 16
) -> Scored:
    """The scores of measures for the target of every question, against its foil where it has one.

    Questions of one query and length share a batch; measures that only watch attention, a pass.

    Args:
        model: whose predictions are explained.
        questions: on any device.
        methods: as in `attributions`; one that this model cannot give is left out, and `missing` says why.
        batch_size: questions at once.

    Raises:
        ValueError: there is no such method, or there are no questions.
    """
    left = named(methods)
    if not len(questions):
        raise ValueError(f"there should be questions of {questions.setting}; got none")
    asked = questions.to(next(model.parameters()).device)
    scores, missing = dict[str, Tensor](), dict[str, str]()
    kinds = torch.stack([asked.query, asked.attention_mask.sum(1)], 1)
    for kind in kinds.unique(dim=0):
        for some in (kinds == kind).all(1).nonzero()[:, 0].split(batch_size):
            found = _asked(model, _rows(asked, some), left, None if scores else missing)
            left = {name: left[name] for name in found}
            for name, each in found.items():
                whole = scores.setdefault(name, torch.zeros(asked.input_ids.shape))
                whole[some.cpu(), : each.shape[1]] = each.detach().float().cpu()
    return Scored({name: scores[name] for name in named(methods) if name in scores}, missing)


def plausibility_rows(
    questions: Questions, scores: Mapping[str, Float[Tensor, "item token"]], k: Collection[int] = (1, 3)
) -> pd.DataFrame:
    """Hit at k and average precision of every measure's scores, a row per question, measure and metric.

    Args:
        questions: with the truth; those without one have no value.
        scores: by measure; see `attnlib.stats.plausibility` for ties and NaN.
        k: how many tokens to look at.

    Returns:
        As `book.chapters.tells.question_rows.row_table`; `perfect` is 1.
    """
    truth, candidates = (each.cpu().numpy() for each in (questions.truth, questions.candidates))
    tables = []
    for name, each in scores.items():
        of = each.detach().double().cpu().numpy(), truth, candidates
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
    """The scores of questions of one query and length; why a measure cannot be given goes into `missing`.

    Raises:
        ValueError: a measure cannot be given, and nothing may be missing any more.
    """
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


def _rows(questions: Questions, rows: Tensor) -> Questions:
    chosen = torch.zeros(len(questions), dtype=torch.bool, device=rows.device)
    chosen[rows] = True
    return questions.where(chosen)
