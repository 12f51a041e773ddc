r"""Does a model that fails at longer lengths need more than one column of its queries and keys?

In every layer and head $q = x W_q + b_q$ and $k = x W_k + b_k$. Only column $c$ of both, in all heads of all
layers, is trained further on longer texts:

$$q_c \leftarrow q_c + x u_c + b_c, \qquad k_c \leftarrow k_c + x v_c + d_c,$$

where $u, v, b, d$ start at zero. An attention score is a sum over columns, so one column can shift every
head's attention, but not the use of the values that a head reads. Rotary positions rotate columns in pairs,
each pair with its own frequency.

Source:
    *Attend or Perish*, as submitted to ICLR 2026 (OpenReview, jHPCXOi9LU), says that one column is enough.
    Its code is not public, so the rules for choosing a column are ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.generators.base import Batch
from attnlib.measures import evaluate_rows
from attnlib.models.transformer import Attention, Layer, Transformer
from attnlib.stats import answer_accuracy, mass_table, table_over_seeds
from attnlib.stats.masses import MEAN
from attnlib.training import Plan, token_loss, token_scores, trained
from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning
from book.chapters.reasoning.recipes import ALL, EVERY, FASTEST, NOTHING, RANDOM, SLOWEST, STEEPEST, WHOLE

COLUMN = r"column (\d+) of (\d+)"
"""The pattern of the name under which one of `EVERY` is recorded."""

FURTHER = "further, "
"""The prefix of the recorded metrics of further training."""

RATE, STEPS, BATCH = 0.01, 200, 32
"""The peak learning rate (from a trial on one model of reversal), the steps, and the texts per step."""


class Further(nn.Module):
    """A frozen linear map plus a trainable `change`, initially zero, of some of its `outputs`."""

    outputs: Tensor

    def __init__(self, linear: nn.Linear, outputs: Int[Tensor, " output"]) -> None:
        super().__init__()
        self.linear = linear
        self.change = nn.Linear(linear.in_features, len(outputs))
        for weight in self.change.parameters():
            nn.init.zeros_(weight)
        self.register_buffer("outputs", outputs)

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch output"]:
        """The outputs of the linear map plus the change."""
        return self.linear(x).index_add(-1, self.outputs, self.change(x))

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """Merge the change into the linear map and return that map."""
        self.linear.weight.index_add_(0, self.outputs, self.change.weight)
        self.linear.bias.index_add_(0, self.outputs, self.change.bias)
        return self.linear


def outputs_of(model: Transformer, columns: Sequence[int]) -> Int[Tensor, " output"]:
    """The indices of these columns of all heads' queries and keys among the outputs of a layer's `qkv`."""
    config = model.config
    places = torch.arange(3 * config.width).view(3, config.n_heads, -1)
    return places[:2, :, list(columns)].flatten()


def _attentions(model: Transformer) -> list[Attention]:
    return [cast(Layer, layer).attention for layer in model.layers]


def column_gradients(model: Transformer, batch: Batch) -> Float[Tensor, " column"]:
    """The norm of the loss's gradient on a batch with respect to each column of all queries and keys."""
    model.zero_grad()
    token_loss()(model, batch.to(next(model.parameters()).device))["loss"].backward()
    shape = (3, model.config.n_heads, -1, model.config.width)
    gradients = [cast(Tensor, each.qkv.weight.grad).view(shape)[:2] for each in _attentions(model)]
    squares = [each.square().sum((0, 1, 3)) for each in gradients]
    model.zero_grad()
    return torch.stack(squares).sum(0).sqrt().cpu()


def columns_of(way: str, steepness: Float[Tensor, " column"], seed: int) -> list[int]:
    """The columns that are trained further."""
    n, steepest = len(steepness), int(steepness.argmax())
    if one := re.fullmatch(COLUMN, way):
        return [int(one[1]) - 1]
    others = [column for column in range(n) if column != steepest]
    return {
        WHOLE: [*range(n)],
        STEEPEST: [steepest],
        RANDOM: [int(np.random.default_rng(seed).choice(others))],
        FASTEST: [0, n // 2],
        SLOWEST: [n // 2 - 1, n - 1],
    }[way]


def trained_further(
    p: AlgorithmicReasoning, model: Transformer, task: str, way: str, seed: int
) -> Transformer:
    """A copy of a model of a task, trained on texts out of its distribution by one of `WAYS`."""
    copy = deepcopy(model)
    texts = p.generator(task, "ood", split="train", seed=seed)
    batches = texts.batches(BATCH)
    if way != ALL:
        columns = columns_of(way, column_gradients(copy, batches(0)), seed)
        copy.requires_grad_(False)
        for each in _attentions(copy):
            each.qkv = Further(each.qkv, outputs_of(copy, columns))  # type: ignore[assignment]
    plan = Plan(
        steps=STEPS,
        learning_rate=RATE,
        schedule="onecycle",
        clip=1.0,
        evaluate_every=STEPS // 10,
        metric="accuracy",
        seed=seed,
        device=p.device,
    )
    valid = p.batches(task, "ood", split="valid")
    trained(copy, batches, token_loss(), plan, chapter=p.notebook, valid=valid, score=token_scores)
    if way != ALL:
        for each in _attentions(copy):
            each.qkv = cast(Further, each.qkv).merged()
    return copy


def further_rows(p: AlgorithmicReasoning, models: Mapping[str, nn.Module]) -> pd.DataFrame:
    """Accuracy and attention of every model, before and after further training by each of `p.further`."""
    found = list[pd.DataFrame]()
    for run in p.runs() if p.further else ():
        for way in (NOTHING, *p.further, *_single_columns(p, models[run.name])):
            if way == EVERY:
                continue
            if way in (FASTEST, SLOWEST) and run.positions != "rotary":
                continue
            model = models[run.name]
            if way != NOTHING:
                model = trained_further(p, model, run.task, way, run.seed)  # type: ignore[arg-type]
            for split in ("id", "ood"):
                rows = evaluate_rows(model, p.batches(run.task, split), follow=(MEAN,))
                tables = [answer_accuracy(rows), mass_table(rows).rename(columns={"measure": "metric"})]
                named = [
                    f"{FURTHER}{way}: {metric} {split.upper()}" for metric in pd.concat(tables)["metric"]
                ]
                found.append(pd.concat(tables).assign(run=run.name, metric=named))
    columns = ["run", "metric", "value", "low", "high", "n", "uniform"]
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def _single_columns(p: AlgorithmicReasoning, model: nn.Module) -> list[str]:
    """The ways that `EVERY` stands for."""
    if EVERY not in p.further:
        return []
    n = cast(Transformer, model).config.width // cast(Transformer, model).config.n_heads
    return [f"column {column} of {n}" for column in range(1, n + 1)]


def came_back(rows: pd.DataFrame) -> pd.DataFrame:
    r"""The share of the loss on longer texts that is regained, by what is trained further.

    $$c = \frac{a_{\text{further}} - a_{\text{nothing}}}{i_{\text{nothing}} - a_{\text{nothing}}}$$

    with $a$ the accuracy per token out of distribution and $i$ that in it, model by model.
    """
    named = rows["metric"].str.extract(rf"^{FURTHER}(?P<trained>.+): (?P<what>.+)$")
    rows = rows.assign(trained=named["trained"], what=named["what"])[named["trained"].notna()]
    about, key = ["kind", "task", "positions", "seed"], ["kind", "task", "positions", "trained"]
    numbers = rows.pivot_table("value", [*about, "trained"], "what", sort=False).reset_index()
    alone = numbers.loc[numbers["trained"] == NOTHING, [*about, "accuracy ID", "accuracy OOD"]]
    numbers = numbers.merge(alone, on=about, suffixes=("", ", nothing"))
    gained = numbers["accuracy OOD"] - numbers["accuracy OOD, nothing"]
    numbers["came back"] = gained / (numbers["accuracy ID, nothing"] - numbers["accuracy OOD, nothing"])
    tables = [
        table_over_seeds(numbers, key, name, share=name != "came back").assign(metric=name)
        for name in ("accuracy ID", "accuracy OOD", "mean attention OOD", "came back")
    ]
    return pd.concat(tables, ignore_index=True)


def shares_back(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The regained shares of the loss in two tables: without single columns, and single columns in order."""
    shares = rows[rows["metric"].eq("came back") & rows["trained"].ne(NOTHING)]
    single = shares["trained"].str.fullmatch(COLUMN)
    return shares[~single], shares[single].sort_values("value", ascending=False)
