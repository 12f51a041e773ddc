"""Predictions of a causal language model and its attention on the reference: one row per predicted token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.attended import bar
from attnlib.checks import check
from attnlib.generators.base import IGNORE, Batch
from attnlib.measures.returned import check_reads_no_answer, follow_returned, in_turn, is_followed, returned
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of
from attnlib.rollout.null import uniform_causal_rollout
from attnlib.rollout.value_slot import check_causal, follow_layers
from attnlib.stats.masses import MEAN, ROLLOUT, UNIFORM
from attnlib.stats.reference import reference_mass

FOLLOWED = (ROLLOUT, MEAN)
"""The attention that `evaluate_rows` can score: rollout over all layers; the mean of heads and layers."""

ABOUT = ("sample", "position", "n_answer", "target", "predicted", "correct")


def evaluate_rows(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    follow: Sequence[str] = FOLLOWED,
    progress: bool = False,
) -> pd.DataFrame:
    """Predictions and reference mass of a causal model, a row per predicted token.

    Teacher forcing: every token is predicted from the right tokens before it (in `generate_answers`, from the
    model's own). One forward pass per batch gives logits and attention, on any attention kernel, without
    loops over samples, rows or tokens.

    Args:
        model: any Hugging Face causal language model whose attention goes through transformers'
            `AttentionInterface`, or an attnlib `Transformer` with `causal=True`; or any other causal module
            that takes `input_ids` and `attention_mask` and returns an object with `logits`, and, if
            `follow` is not empty, with `attentions`. Called in evaluation mode, on its own device.
        batches: batches, with `reference` and `evaluated` unless `follow` is empty.
        follow: which attention to score, a list of some of `FOLLOWED`; empty for accuracy alone.
        progress: show a bar.

    Returns:
        A row per predicted token, with the columns

        - `sample`, counted through all batches, and `position` in its answer, from 0; `n_answer`, the number
          of tokens of the answer;
        - `target` and `predicted` (the most probable token), whether they are equal (`correct`), and the
          target's `probability`;
        - unless `follow` is empty: `evaluated`, whether the row has an evaluated key, and `referenced`,
          whether one of its evaluated keys is a reference key;
        - the reference masses of `follow`, and the chance level of each, `uniform rollout` and `uniform
          attention`: the mass of uniform causal attention. Masses are NaN where a row is not `referenced`;
          such rows count for accuracy only.

        If no token is predicted, the table is empty.

    Raises:
        ValueError: the model is not causal, or its attention cannot be followed (see `rollout_of`); a name in
            `follow` is unknown; the batches have no reference attention; or there are no batches.
    """
    unknown = [name for name in follow if name not in FOLLOWED]
    check(not isinstance(follow, str) and not unknown, f"follow must be a list of some of {FOLLOWED}", follow)
    return rows_of_batches(model, batches, partial(_rows, model, follow), "evaluation", progress)


def rows_of_batches(
    model: nn.Module,
    batches: Iterable[Batch],
    rows_of: Callable[[Batch], pd.DataFrame],
    what: str,
    progress: bool,
) -> pd.DataFrame:
    """The tables of all batches as one table, made with a causal model in evaluation mode.

    `rows_of` gets each batch on the model's device, and counts `sample` from 0; the result counts samples
    through all batches.
    """
    tables, shown = list[pd.DataFrame](), bar(batches, shown=progress, desc=what, unit="batch")
    with evaluating(model):
        for batch, before in in_turn(model, shown):
            if not tables:
                if is_followed(model):
                    check_causal(model, batch.input_ids[:1, batch.attention_mask[0]])
                else:
                    check_reads_no_answer(model, batch)
            table = rows_of(batch)
            table["sample"] += before
            tables.append(table)
    check(tables, "batches must not be none, or an iterator that was used up", tables)
    return pd.concat(tables, ignore_index=True)


def _rows(model: nn.Module, follow: Sequence[str], batch: Batch) -> pd.DataFrame:
    """The table of one batch; samples are counted from 0."""
    asked = batch.target_ids != IGNORE
    start = int(asked.any(0).nonzero()[0]) if asked.any() else asked.shape[1] - 1
    masses: dict[str, Tensor] = {}
    if follow:
        logits, masses = _followed(model, batch, follow, asked, start)
    else:
        with torch.no_grad():
            logits = (
                logits_of(model, batch.input_ids, batch.attention_mask, start)
                if is_followed(model)
                else returned(model, batch).logits[:, start:]
            )
    logits = logits[asked[:, start:]].float()
    table = answer_rows(batch, logits.argmax(-1))
    probability = logits.log_softmax(-1).gather(1, batch.target_ids[asked][:, None])[:, 0].exp()
    numbers = {"probability": probability, **masses}
    return table.assign(**{name: each.cpu().double().numpy() for name, each in numbers.items()}).astype(
        {name: bool for name in ("evaluated", "referenced") if name in numbers}
    )


def answer_rows(batch: Batch, predicted: Tensor) -> pd.DataFrame:
    """The target tokens and the predicted ones, a row per target, in the order of `target_ids[asked]`."""
    asked = (batch.target_ids != IGNORE).cpu().numpy()
    sample, _ = np.nonzero(asked)
    target = batch.target_ids.cpu().numpy()[asked]
    position, n_answer = (asked.cumsum(1) - 1)[asked], asked.sum(1)[sample]
    chosen = predicted.cpu().numpy()
    columns = (sample, position, n_answer, target, chosen, chosen == target)
    return pd.DataFrame(dict(zip(ABOUT, columns, strict=True)))


def _followed(
    model: nn.Module,
    batch: Batch,
    follow: Sequence[str],
    asked: Bool[Tensor, "batch token"],
    start: int,
) -> tuple[Float[Tensor, "batch position vocabulary"], dict[str, Tensor]]:
    """The logits from position `start` on, and the reference masses of the rows that have a target."""
    if batch.reference is None or batch.evaluated is None:
        raise ValueError("batches must have their reference attention (or follow must be ()); got none")
    reference, evaluated = batch.reference[asked], batch.evaluated[asked]

    def mass(attention: Float[Tensor, "*batch query key"]) -> Float[Tensor, " row"]:
        return reference_mass(attention.expand(*asked.shape, -1)[asked], reference, evaluated)

    total: list[Tensor | float] = [0.0]

    def on_layer(layer: int, attention: Tensor) -> None:
        if MEAN in follow:
            total[0] = total[0] + attention

    how: dict[str, Any] = {"on_layer": on_layer, "rollout": ROLLOUT in follow, "logits_from": start}
    if is_followed(model):
        found = follow_layers(model, batch.input_ids, batch.attention_mask, **how)
    else:
        found = follow_returned(model, batch, **how)
    columns = {"evaluated": evaluated.any(-1), "referenced": (reference & evaluated).any(-1)}
    if found.rollout is not None:
        null = _uniform_rollout(asked.shape[1], found.layers).to(found.rollout)
        columns[ROLLOUT], columns[UNIFORM[ROLLOUT]] = mass(found.rollout), mass(null)
    if isinstance(total[0], Tensor):
        columns[MEAN], length = mass(total[0] / found.layers), asked.shape[1]
        columns[UNIFORM[MEAN]] = mass(torch.ones(length, length, device=asked.device).tril())
    return found.logits, columns


@lru_cache(maxsize=16)  # the batches of an evaluation have few lengths
def _uniform_rollout(n: int, layers: int) -> Float[Tensor, "query key"]:
    """The rollout of uniform causal attention; cached, so do not change it in place."""
    return uniform_causal_rollout(n, layers).float()
