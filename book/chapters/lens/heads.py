"""A line on each head of a model that does sums: what it looks at, and what is lost without it."""

from typing import cast

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from attnlib.generators.arithmetic import Arithmetic, Problems
from attnlib.models.attention import evaluating
from attnlib.models.stored import StoredModel
from book.chapters.lens.measures import COLUMNS, ablation_rows


@torch.no_grad()
def lines_on_heads(stored: StoredModel) -> dict[str, str]:
    """In words, each head's kind of token with most of its attention, and the accuracy lost without it.

    Attention is the mean over queries that predict a digit of the answer. Lost are whole answers, as
    `ablation_rows` counts them with the head's output set to zero.
    """
    model, task = stored.model, cast(Arithmetic, stored.task)
    problems = task.splits(**stored.held_out).test
    batch, kinds = task.batch(problems), kinds_of_keys(task, problems)
    assert batch.evaluated is not None
    asked = batch.evaluated.any(-1)
    with evaluating(model):
        read = model(batch.input_ids, batch.attention_mask, output_attentions=True).attentions
    rows = read.permute(0, 3, 1, 2, 4)[asked].flatten(1, 2)  # query, head, key
    of = asked.nonzero()[:, 0]
    shares = {kind: (rows * keys[of, None]).sum(-1).mean(0) for kind, keys in kinds.items()}
    seen = pd.DataFrame({kind: share.numpy() for kind, share in shares.items()}, index=model.head_names)
    share, kind = seen.max(axis=1), seen.idxmax(axis=1)
    lost = ablation_rows(model, task, problems).query("column == 'answer'").groupby("head")["lost"].mean()
    return {
        head: f"{100 * share[head]:.0f} % of its attention on {kind[head]}; "
        f"without it, {100 * lost[head]:.0f} points of accuracy lost"
        for head in model.head_names
    }


def kinds_of_keys(task: Arithmetic, problems: Problems) -> dict[str, Bool[Tensor, "problem key"]]:
    """Which tokens are the beginning, each column of the operands, an operator, the =, and the answer."""
    said = [_kinds(text, task.reversed_digits) for text in task.texts(problems)]
    longest = max(map(len, said))
    table = pd.DataFrame([each + [""] * (longest - len(each)) for each in said])
    names = pd.unique(table.to_numpy().ravel())
    return {name: torch.from_numpy((table == name).to_numpy()) for name in names if name}


def _kinds(text: str, backwards: bool) -> list[str]:
    """Of the beginning and every character."""
    question, _, answer = text.partition("=")
    kinds, place = list[str](), 0
    for character in question if backwards else reversed(question):
        place = place + 1 if character.isdigit() else 0
        kinds.append(f"the {COLUMNS[place - 1]}" if place else "the operator")
    return [
        "the beginning",
        *(kinds if backwards else reversed(kinds)),
        "=",
        *["the answer so far"] * len(answer),
    ]
