"""How models do arithmetic: accuracy by column and carries, attention of answers, ablation of heads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.generators.arithmetic import Arithmetic, Problems, Splits
from attnlib.generators.arithmetic.problems import OPERATORS
from attnlib.generators.base import IGNORE, Batch
from attnlib.generators.order import chunks
from attnlib.measures.returned import returned
from attnlib.models.attention import evaluating
from attnlib.models.attention.changes import Instead, heads_ablated
from attnlib.models.stored import StoredModel
from attnlib.models.transformer import Transformer
from attnlib.rollout import attention_flow, rollout, uniform_causal_rollout
from attnlib.stats.reference import reference_mass
from attnlib.training.objectives import stacked_attentions

COLUMNS = ("units", "tens", "hundreds", "thousands", *(f"column {place}" for place in range(4, 20)))
"""The names of columns; 64 bits hold no more digits than that."""

_ORDER = pd.CategoricalDtype([*COLUMNS, "sign", "end", "answer"])

PATTERNS = ("the token before", "the operator by itself", "both numbers")
"""Patterns in pictures of heads: sequential, the operator without `=`, and all numbers from `=`."""

AT_ONCE = 500
"""Problems per pass."""

REFERENCE = "either column"
"""The two columns that an answer's digit needs, together: the reference of `arithmetic`."""


@torch.no_grad()
def digit_rows(model: nn.Module, task: Arithmetic, problems: Problems) -> pd.DataFrame:
    """A row per token of each answer: its column, and whether the teacher-forced prediction is right."""
    device = next(model.parameters()).device
    task = dataclasses.replace(task, operands_too=False)
    minus, end = task.tokenizer.convert_tokens_to_ids(["-", task.tokenizer.eos_token])
    tables = []
    for places in chunks(len(problems), AT_ONCE):
        part = problems[places]
        batch = task.batch(part, reference=False).to(device)
        predicted = returned(model, batch).logits.argmax(-1)
        asked = (batch.target_ids != IGNORE).cpu()
        target, column = batch.target_ids.cpu()[asked].numpy(), task.columns(part)[asked].numpy()
        place = asked.nonzero()[:, 0].numpy()
        names = np.select([target == minus, target == end], ["sign", "end"], np.array(COLUMNS)[column])
        table = pd.DataFrame({"problem": places.start + place, "column": pd.Categorical(names, dtype=_ORDER)})
        right = predicted.cpu()[asked].numpy() == target
        tables.append(table.assign(carries=part.carries[place], right=right))
    return pd.concat(tables, ignore_index=True)


def whole_answers(rows: pd.DataFrame) -> pd.DataFrame:
    """A row per problem of `digit_rows`: `problem`, `carries`, and `right`, whether all tokens are right."""
    answers = rows.groupby("problem").agg(carries=("carries", "first"), right=("right", "all"))
    return answers.reset_index()


def look_rows(
    model: nn.Module, task: Arithmetic, problems: Problems, *, by_head: bool = False
) -> pd.DataFrame:
    r"""The shares of attention on each kind of key by the queries that predict answer digits, by layer.

    The share of kind $X$ is $\sum_{k \in X_q} a_{qk} / \sum_{k \neq \text{BOS}} a_{qk}$, `reference_mass`
    with $X$ for the reference, a problem's value the mean of its queries. A query without a key of the kind
    is left out; kinds overlap, so that shares do not add up to 1.
    """
    parts = []
    for places in chunks(len(problems), AT_ONCE):
        batch, kinds = task.batch(problems[places]), task.kinds(problems[places])
        kinds[REFERENCE] = kinds["operand column"] | kinds["carry column"]
        parts.append((batch, kinds))
    return _kind_rows(model, parts, by_head)


def equals_rows(
    model: nn.Module, task: Arithmetic, problems: Problems, *, by_head: bool = False
) -> pd.DataFrame:
    r"""How evenly the query at `=`, which predicts the answer's first character, attends to all operands.

    Operand $i$ of $n$ has the share of attention $s_i$, as in `look_rows`, and "all operands" have $n
    \min_i s_i$: 1 if all attention is on the operands in equal parts, 0 if one operand has none.
    """
    parts = []
    for places in chunks(len(problems), AT_ONCE):
        batch = task.batch(problems[places])
        query, question, sign = _question(task, batch)
        number = torch.where(question & ~sign, sign.cumsum(1), -1)
        operands = {
            f"operand {i + 1}": (number == i)[:, None] & query[..., None]
            for i in range(problems.operands.shape[1])
        }
        asked = query[..., None] & (question | query)[:, None]
        parts.append((dataclasses.replace(batch, evaluated=asked), operands))
    rows = _kind_rows(model, parts, by_head)
    least = rows.groupby(["problem", "layer", "head"], sort=False)[["value", "uniform"]].min()
    together = (problems.operands.shape[1] * least).reset_index().assign(kind="all operands")
    return pd.concat([rows, together], ignore_index=True)


def pattern_rows(
    model: nn.Module, task: Arithmetic, problems: Problems, *, by_head: bool = False
) -> pd.DataFrame:
    r"""The patterns that pictures of heads show, as shares of attention: see `PATTERNS`.

    The sequential pattern is $a_{q,q-1} / \sum_{k \neq \text{BOS}} a_{qk}$ of all but the first character;
    the others are as in `look_rows` (the operator by itself) and `equals_rows` (both numbers).
    """
    steps, signs = [], []
    for places in chunks(len(problems), AT_ONCE):
        batch = task.batch(problems[places])
        place = torch.arange(batch.input_ids.shape[1])
        asked = (place > 1)[:, None] & (place > 0) & (place <= place[:, None])
        before = (place == place[:, None] - 1).expand(len(batch.input_ids), -1, -1)
        real = batch.attention_mask.bool()[..., None]
        steps.append((dataclasses.replace(batch, evaluated=asked & real), {PATTERNS[0]: before}))
        sign = _question(task, batch)[2][:, None].expand_as(before)
        signs.append((batch, {PATTERNS[1]: sign}))
    both = equals_rows(model, task, problems, by_head=by_head).replace(
        {"kind": {"all operands": PATTERNS[2]}}
    )
    rows = [_kind_rows(model, steps, by_head), _kind_rows(model, signs, by_head), both]
    return pd.concat(rows, ignore_index=True).query("kind in @PATTERNS").reset_index(drop=True)


def _question(task: Arithmetic, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Which tokens are the `=`, which stand before it, and which of those are operators."""
    equals, *signs = task.tokenizer.convert_tokens_to_ids(["=", *OPERATORS])
    ids, place = batch.input_ids, torch.arange(batch.input_ids.shape[1])
    query = ids == equals
    question = (place > 0) & (place < query.int().argmax(1, keepdim=True))
    return query, question, torch.isin(ids, torch.tensor(signs)) & question


@torch.no_grad()
def _kind_rows(model: nn.Module, parts: list[tuple[Batch, dict[str, Tensor]]], by_head: bool) -> pd.DataFrame:
    """`look_rows` of pairs of a batch and its keys of every kind, for the batch's evaluated queries."""
    device, found = next(model.parameters()).device, []
    for batch, kinds in parts:
        batch = batch.to(device)
        assert batch.evaluated is not None
        attentions = stacked_attentions(returned(model, batch, attentions=True))
        if not by_head:
            attentions = attentions.mean(2, keepdim=True)
        n_layers, n_heads = attentions.shape[1:3]
        uniform = batch.evaluated[:, None].float()
        both = torch.cat([attentions.flatten(1, 2), uniform], dim=1)
        masks = torch.stack(list(kinds.values()), dim=1).to(device)
        found.append(_shares(both, masks, batch.evaluated).cpu())
    shares = torch.cat(found).double().numpy()
    sizes = {"problem": len(shares), "layer": n_layers, "head": n_heads}
    index = pd.MultiIndex.from_product([*map(range, sizes.values()), kinds], names=[*sizes, "kind"])
    even = shares[:, -1:].repeat(n_layers * n_heads, 1)
    rows = pd.DataFrame({"value": shares[:, :-1].ravel(), "uniform": even.ravel()}, index).reset_index()
    names = "L" + rows["layer"].astype(str) + "H" + rows["head"].astype(str)
    return rows.assign(head=names if by_head else "mean")


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


def ablation_rows(
    model: Transformer, task: Arithmetic, problems: Problems, instead: Instead = "zero"
) -> pd.DataFrame:
    """The accuracy lost by ablating each head (`lost`), by problem and column and for whole answers."""
    whole, tables = _with_answers(digit_rows(model, task, problems)), []
    for place, name in enumerate(model.head_names):
        with heads_ablated(model, [divmod(place, model.config.n_heads)], instead):
            without = _with_answers(digit_rows(model, task, problems))
        lost = whole["right"].astype(float) - without["right"].astype(float)
        tables.append(whole[["problem", "column"]].assign(head=name, lost=lost))
    return pd.concat(tables, ignore_index=True)[["head", "problem", "column", "lost"]]


def _with_answers(rows: pd.DataFrame) -> pd.DataFrame:
    """`digit_rows`, and whole answers as one more column."""
    answers = whole_answers(rows).assign(column="answer").astype({"column": _ORDER})
    return pd.concat([rows, answers], ignore_index=True)


@torch.no_grad()
def solve(model: Transformer, task: Arithmetic, text: str) -> str:
    """The answer that a model generates after the = of a problem, by greedy decoding."""
    ids = task.prompt(text)
    longest = task.max_length - (task.space.n_operands * (task.widths[0] + 1) + 1)
    if len(ids) + longest > model.config.max_length:
        raise ValueError(
            f"{text!r} has {len(ids)} tokens and its answer up to {longest}, and this model reads at most "
            f"max_length={model.config.max_length}: take a shorter problem, or a model built for longer ones"
        )
    ids = ids[None].to(next(model.parameters()).device)
    start = ids.shape[1]
    with evaluating(model):
        for _ in range(longest + 1):
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], dim=1)
            if int(ids[0, -1]) == task.tokenizer.eos_token_id:
                break
    return task.tokenizer.decode(ids[0, start:], skip_special_tokens=True)


@torch.no_grad()
def forming(models: Iterable[Transformer], task: Arithmetic, text: str) -> dict[str, Any]:
    """The data of one problem at every checkpoint for `attnlib.widgets.TrainingExplorer`."""
    sample, attentions, answers = task.annotate(text), [], []
    for model in models:
        ids = sample.input_ids[None].to(next(model.parameters()).device)
        attentions.append(model(ids, output_attentions=True).attentions[0].cpu())
        answers.append(solve(model, task, text))
    return {
        "tokens": task.tokenizer.convert_ids_to_tokens(sample.input_ids.tolist()),
        "attentions": torch.stack(attentions),
        "answers": answers,
        "references": sample.reference,
        "expected": sample.text.partition("=")[2],
    }


@torch.no_grad()
def followed_mass(model: Transformer, task: Arithmetic, problems: Problems) -> dict[str, np.ndarray]:
    """Each problem's reference mass by rollout, by flow and by rollout of uniform attention."""
    batch = task.batch(problems)
    assert batch.reference is not None and batch.evaluated is not None
    device = next(model.parameters()).device
    read = model(batch.input_ids.to(device), batch.attention_mask.to(device), output_attentions=True)
    flat = uniform_causal_rollout(batch.input_ids.shape[1], model.config.n_layers)
    followed = {
        "rollout": rollout(read.attentions.cpu()),
        "attention flow": attention_flow(read.attentions.cpu()).float(),
        "rollout of uniform attention": flat.expand(len(problems), -1, -1).float(),
    }
    return {
        method: reference_mass(way, batch.reference, batch.evaluated).nanmean(1).numpy()
        for method, way in followed.items()
    }


def seen_rows(model: nn.Module, task: Arithmetic, splits: Splits) -> pd.DataFrame:
    """Whether a model solves the test problems: all, those that are also in training, and the others."""
    rows = whole_answers(digit_rows(model, task, splits.test))
    seen, name = splits.seen(), "test problems"
    parts = {"all": rows, "seen in training": rows[seen], "not seen": rows[~seen]}
    return pd.concat([part.assign(**{name: kind}) for kind, part in parts.items()], ignore_index=True)


@torch.no_grad()
def lines_on_heads(stored: StoredModel) -> dict[str, str]:
    """A line on each head: the kind of token with most of its attention, and the accuracy lost without it.

    Attention is the mean over queries that predict a digit of the answer. The accuracy is that
    of whole answers, with the head's output set to zero (see `ablation_rows`).
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
    """The tokens of each kind: the beginning, each column of the operands, operators, = and the answer."""
    said = [_kinds(text, task.reversed_digits) for text in task.texts(problems)]
    longest = max(map(len, said))
    table = pd.DataFrame([each + [""] * (longest - len(each)) for each in said])
    names = pd.unique(table.to_numpy().ravel())
    return {name: torch.from_numpy((table == name).to_numpy()) for name in names if name}


def _kinds(text: str, backwards: bool) -> list[str]:
    """The kinds of the beginning and of every character."""
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
