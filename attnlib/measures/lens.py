"""How a model does sums: right digits by column and carries, what its answers look at, what heads are for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlib.generators.arithmetic import Arithmetic, Problems
from attnlib.generators.base import IGNORE
from attnlib.models.attention import evaluating
from attnlib.models.attention.ablation import Instead, heads_ablated
from attnlib.models.transformer import Transformer, head_names
from attnlib.stats.intervals import proportion, ratio
from attnlib.stats.reference import reference_mass

COLUMNS = ("units", "tens", "hundreds", "thousands", *(f"column {place}" for place in range(4, 20)))
"""What columns are called; 64 bits hold no more digits than that."""

_ORDER = (*COLUMNS, "sign", "end")

REFERENCE = "either column"
"""The two columns that an answer's digit needs, together: the reference of `arithmetic`."""


@torch.no_grad()
def digit_rows(model: nn.Module, task: Arithmetic, problems: Problems, batch_size: int = 500) -> pd.DataFrame:
    """A row per token of each answer: which, and whether the model predicts it from the right ones before.

    Operands are never counted, even if the task asks for them.

    Returns:
        Columns `problem` (its place), `column` ("units", "tens", ...; "sign" and "end" for the rest),
        `carries` of the problem, and `right`.
    """
    device = next(model.parameters()).device
    task = dataclasses.replace(task, operands_too=False)
    minus, end = task.tokenizer.convert_tokens_to_ids(["-", task.tokenizer.eos_token])
    tables = []
    with evaluating(model):
        for start in range(0, len(problems), batch_size):
            part = problems[start : start + batch_size]
            batch = task.batch(part, reference=False).to(device)
            predicted = model(batch.input_ids, attention_mask=batch.attention_mask).logits.argmax(-1)
            asked = (batch.target_ids != IGNORE).cpu()
            target, column = batch.target_ids.cpu()[asked].numpy(), task.columns(part)[asked].numpy()
            place = asked.nonzero()[:, 0].numpy()
            names = np.select([target == minus, target == end], ["sign", "end"], np.array(COLUMNS)[column])
            right = predicted.cpu()[asked].numpy() == target
            table = {
                "problem": start + place,
                "column": names,
                "carries": part.carries[place],
                "right": right,
            }
            tables.append(pd.DataFrame(table))
    return pd.concat(tables, ignore_index=True)


def column_order(names: Iterable[str]) -> list[str]:
    """Names of columns from the units upwards, then sign and end."""
    return sorted(set(names), key=_ORDER.index)


def accuracy_by(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Accuracy of `digit_rows` by column, or exact match by whatever belongs to whole problems.

    Args:
        rows: of `digit_rows`, with further columns if wanted (`rows.assign(seen=...)`).
        by: "column", or a column that is the same for all rows of a problem, such as "carries".

    Returns:
        Columns `by`, `value`, `low`, `high` (Wilson's interval: a problem has one digit per column) and `n`.
    """
    if by == "column":
        groups = rows.groupby("column")["right"]
        order = column_order(rows["column"])
    else:
        groups = rows.groupby("problem").agg({"right": "all", by: "first"}).groupby(by)["right"]
        order = sorted(rows[by].unique())
    counted = groups.agg(["sum", "size"]).loc[order]
    table = [proportion(int(right), int(n)) for right, n in counted.itertuples(index=False)]
    return pd.DataFrame(table).assign(**{by: order})[[by, "value", "low", "high", "n"]]


@torch.no_grad()
def look_table(
    model: nn.Module, task: Arithmetic, problems: Problems, *, by_head: bool = False, batch_size: int = 500
) -> pd.DataFrame:
    r"""What the queries that predict answer digits look at: shares of their attention, by layer and kind.

    The share of kind $X$ is $\sum_{k \in X_q} a_{qk} / \sum_{k \neq \text{BOS}} a_{qk}$, `reference_mass`
    with $X$ for the reference: the beginning-of-sequence token, where attention rests, does not count. A
    query without a key of the kind is left out. A problem's value is the mean of its queries, and the
    interval is over problems. Kinds overlap, so that shares do not add up to 1.

    Args:
        model: gives `attentions` when asked with `output_attentions=True`.
        task: of the problems.
        problems: what to look at.
        by_head: each head by itself; else the mean over a layer's heads.
        batch_size: problems per pass.

    Returns:
        Columns `layer`, `head` (its name, or "mean"), `kind` (see `Arithmetic.kinds`, and "either column" for
        the two columns together), `value`, `low`, `high`, `n` and `uniform`: what a query that looks at all
        tokens before it equally would score.
    """
    device, parts, n_heads = next(model.parameters()).device, [], 0
    for start in range(0, len(problems), batch_size):
        part = problems[start : start + batch_size]
        batch, kinds = task.batch(part).to(device), task.kinds(part)
        assert batch.evaluated is not None
        kinds[REFERENCE] = kinds["operand column"] | kinds["carry column"]
        attentions = model(
            batch.input_ids, attention_mask=batch.attention_mask, output_attentions=True
        ).attentions
        n_heads = attentions.shape[2] if by_head else 0
        attentions = attentions.flatten(1, 2) if by_head else attentions.mean(2)
        uniform = batch.evaluated[:, None].float()
        both = torch.cat([attentions, uniform], dim=1)
        parts.append(
            _shares(both, torch.stack(list(kinds.values()), dim=1).to(device), batch.evaluated).cpu()
        )
    shares = torch.cat(parts).double().numpy()
    return _look_rows(shares, list(kinds), n_heads)


def _shares(
    attentions: Float[Tensor, "batch head query key"], kinds: Tensor, evaluated: Tensor
) -> Float[Tensor, "batch head kind"]:
    """The mean over queries of each head's share of each kind; NaN where no query has a key of the kind."""
    n_heads, n_kinds = attentions.shape[1], kinds.shape[1]
    full = (-1, n_heads, n_kinds, -1, -1)
    mass = reference_mass(
        attentions[:, :, None].expand(full),
        kinds[:, None].expand(full),
        evaluated[:, None, None].expand(full),
    )
    return mass.nanmean(-1)


def _look_rows(
    shares: Float[np.ndarray, "problem head kind"], kinds: list[str], n_heads: int
) -> pd.DataFrame:
    *heads, uniform = shares.transpose(1, 2, 0)
    rows = []
    for place, of_head in enumerate(heads):
        layer, head = divmod(place, max(1, n_heads))
        for kind, values, even in zip(kinds, of_head, uniform, strict=True):
            values, even = values[~np.isnan(values)], even[~np.isnan(even)]
            about = {"layer": layer, "head": f"L{layer}H{head}" if n_heads else "mean", "kind": kind}
            rows.append(about | ratio(values, np.ones_like(values))._asdict() | {"uniform": even.mean()})
    return pd.DataFrame(rows)


def ablation_table(
    model: Transformer, task: Arithmetic, problems: Problems, instead: Instead = "zero"
) -> pd.DataFrame:
    """What each head is worth: how much accuracy is lost without it, by column of the answer.

    Args:
        model: all of its heads are left out, one at a time.
        task: of the problems.
        problems: to answer.
        instead: see `heads_ablated`.

    Returns:
        Columns `head`, `column` (and "answer": all of it), `value` (accuracy with all heads less accuracy
        without this one), `low`, `high` (bootstrap over problems, each answered both ways) and `n`.
    """
    whole = _right_by_problem(digit_rows(model, task, problems))
    rows = []
    names = head_names(model.config.n_layers, model.config.n_heads)
    for place, name in enumerate(names):
        with heads_ablated(model, [divmod(place, model.config.n_heads)], instead):
            without = _right_by_problem(digit_rows(model, task, problems))
        for column in [*column_order(str(name) for name in whole if name != "answer"), "answer"]:
            lost = (whole[column] - without[column]).dropna().to_numpy()
            rows.append({"head": name, "column": column} | ratio(lost, np.ones_like(lost))._asdict())
    return pd.DataFrame(rows)


def _right_by_problem(rows: pd.DataFrame) -> pd.DataFrame:
    """1 or 0 for each problem (down) and column (across); NaN where a problem has no such column."""
    table = rows.pivot(index="problem", columns="column", values="right").astype(float)
    return table.assign(answer=rows.groupby("problem")["right"].all().astype(float))
