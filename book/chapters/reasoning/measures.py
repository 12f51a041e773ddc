"""Attention on the reference in models of algorithmic tasks, and the effect of interventions on attention.

Heads have a reference mass. An intervention redirects attention to the reference or to random keys, or sets
its share on each kind of key; then answers are read again. `compare_rows` compares right and wrong answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import scipy
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.generators.algorithmic import TASKS
from attnlib.generators.base import IGNORE, Batch, Head
from attnlib.measures import evaluate_rows
from attnlib.measures.evaluation import answer_rows
from attnlib.measures.returned import in_turn, is_followed, returned
from attnlib.models.attention import evaluating
from attnlib.models.attention.call import Affine, AttentionCall
from attnlib.models.attention.changes import Chosen, causal_null, heads_changed, reinforced
from attnlib.stats import answer_accuracy, summarise
from attnlib.stats.intervals import constant
from attnlib.stats.reference import reference_mass
from attnlib.stats.significance import Comparison, filled, published_comparison, without
from attnlib.stats.summaries import check_groups, truths
from attnlib.training.objectives import stacked_attentions
from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning, ReasoningRun

REFERENCE, RANDOM = "the reference", "random keys"
"""The targets of redirected attention: the algorithm's keys, and as many random keys as a control."""


def with_reference(batch: Batch) -> tuple[Tensor, Tensor]:
    """The reference attention of a batch, and which of its keys are evaluated."""
    if batch.reference is None or batch.evaluated is None:
        raise ValueError("the batches have no reference attention: make them with their reference")
    return batch.reference, batch.evaluated


@torch.no_grad()
def head_masses(model: nn.Module, batches: Iterable[Batch]) -> pd.DataFrame:
    """Reference mass of every head."""
    tables = list[pd.DataFrame]()
    for batch, samples in in_turn(model, batches):
        reference, evaluated = with_reference(batch)
        attentions = stacked_attentions(returned(model, batch, attentions=True))
        even = torch.ones_like(attentions[:, :1, :1]).tril()
        maps = torch.cat([attentions.flatten(1, 2), even.flatten(1, 2)], 1)
        masks = (mask[:, None].expand(maps.shape) for mask in (reference, evaluated))
        mass = reference_mass(maps, *masks).nansum(2).cpu().double().numpy()
        counts = (reference & evaluated).any(-1).sum(1).cpu().numpy()
        levels = [range(n) for n in (len(batch), *attentions.shape[1:3])]
        index = pd.MultiIndex.from_product(levels, names=["sample", "layer", "head"])
        heads = mass.shape[1] - 1
        numbers = {"uniform": mass[:, -1].repeat(heads), "rows": counts.repeat(heads)}
        table = pd.DataFrame({"mass": mass[:, :-1].ravel()} | numbers, index).reset_index()
        tables.append(table.assign(sample=table["sample"] + samples))
    rows = pd.concat(tables, ignore_index=True)
    if not rows["rows"].any():
        raise ValueError("no row of these batches has a reference key, so that there is no mass to measure")
    return rows.assign(name="L" + rows["layer"].astype(str) + "H" + rows["head"].astype(str))


@torch.no_grad()
def reinforcement_rows(
    model: nn.Module,
    batches: Sequence[Batch],
    heads: Sequence[Head],
    strengths: Sequence[float],
    seed: int = 0,
) -> pd.DataFrame:
    """Predictions while attention of some heads is redirected to the reference, and to random keys.

    Random keys, as many per row as the reference has and the same at every strength, separate the effect of
    *where* attention goes from that of changing it at all. Predictions are teacher-forced (`evaluate_rows`).
    """
    tables = []
    with evaluating(model):
        for number, (batch, samples) in enumerate(in_turn(model, batches)):
            reference, _ = with_reference(batch)
            wanted = batch.target_ids != IGNORE
            targets = {REFERENCE: reference, RANDOM: causal_null(reference, seed + number)}
            for onto, keys in targets.items():
                for strength in strengths:
                    with reinforced(model, heads, keys, strength):
                        logits = model(**batch.inputs).logits
                    table = answer_rows(batch, logits[wanted].argmax(-1))
                    table["sample"] += samples
                    tables.append(table.assign(onto=onto, strength=float(strength)))
    return pd.concat(tables, ignore_index=True)


KINDS = ("the reference", "the rest of the question", "the rest of the answer", "what stands before")
"""The kinds of keys of a query with a reference: each key up to and including the query is of one kind."""


def key_kinds(batch: Batch) -> Bool[Tensor, "kind batch query key"]:
    """The keys of each of `KINDS`, for every query."""
    reference, evaluated = with_reference(batch)
    seen = torch.ones_like(reference).tril() & batch.attention_mask[:, None]
    first = (batch.target_ids != IGNORE).int().argmax(1)  # the last token of the question
    places = torch.arange(batch.input_ids.shape[1], device=first.device)
    answer = (places > first[:, None])[:, None]
    asked = evaluated.any(1, keepdim=True)  # from the question's first token on
    rest = seen & ~reference
    return torch.stack([reference & seen, rest & asked & ~answer, rest & answer, rest & ~asked])


@torch.no_grad()
def kind_shares(model: nn.Module, batches: Iterable[Batch]) -> Float[Tensor, "layer head kind"]:
    """The share of every head's attention on each of `KINDS`: the mean over all queries with a reference."""
    total, queries = torch.zeros(()), 0
    for batch, _ in in_turn(model, batches):
        kinds = key_kinds(batch).cpu()  # on the CPU, since not every GPU has double precision
        attentions = stacked_attentions(returned(model, batch, attentions=True)).cpu().double()
        wanted = kinds[0].any(-1)
        total = total + torch.einsum("blhqk,rbqk,bq->lhr", attentions, kinds.double(), wanted.double())
        queries += int(wanted.sum())
    return total / max(queries, 1)


@contextmanager
def shared_out(
    model: nn.Module,
    heads: Sequence[Head] | None,
    kinds: Bool[Tensor, "kind batch query key"],
    queries: Bool[Tensor, "batch query"],
    shares: Float[Tensor, "layer head kind"],
) -> Iterator[None]:
    r"""Set the share of attention on each kind of key, uniform within a kind, inside the `with` block.

    In the chosen heads, the attention $A$ of every chosen query becomes

    $$A'_{qk} = \sum_r \frac{p_r}{\sum_{r'} p_{r'}} \frac{R_{rqk}}{\sum_{k'} R_{rqk'}}$$

    with $R_{rqk}$ = 1 where key $k$ is of kind $r$ for query $q$, and $p_r$ the head's share for that kind;
    sums run over the kinds of which the query has keys.
    """

    def shared(call: AttentionCall, chosen: Chosen, layer: int) -> Affine:
        have = (call.query.shape[0], call.query.shape[2], call.key.shape[2])
        if have != tuple(kinds.shape[1:]):
            raise ValueError(
                f"the kinds are of {kinds.shape[1]} sequences of {kinds.shape[2]} tokens, and the model was "
                f"called with {have[0]} of {have[2]}: call it inside shared_out() with that one batch only"
            )
        device, dtype = call.query.device, call.dtype
        each = kinds.to(device, dtype)
        each = each / each.sum(-1, keepdim=True).clamp(min=1)  # [kind batch query key]
        onto = torch.einsum("hr,rbqk->bhqk", shares[layer].to(device, dtype), each)
        total = onto.sum(-1, keepdim=True)
        push = chosen * (queries.to(device)[:, None, :, None] & (total > 0))
        return Affine(1 - push, push, onto / total.where(total > 0, 1))

    with heads_changed(model, heads, shared):
        yield


@torch.no_grad()
def shared_rows(
    model: nn.Module,
    batches: Sequence[Batch],
    heads: Sequence[Head] | None,
    shares: Float[Tensor, "layer head kind"],
) -> pd.DataFrame:
    """Teacher-forced predictions while queries with a reference attend to `KINDS` in the given `shares`."""
    tables = []
    with evaluating(model):
        for batch, samples in in_turn(model, batches):
            kinds = key_kinds(batch)
            with shared_out(model, heads, kinds, kinds[0].any(-1), shares):
                logits = model(**batch.inputs).logits
            table = answer_rows(batch, logits[batch.target_ids != IGNORE].argmax(-1))
            tables.append(table.assign(sample=table["sample"] + samples))
    return pd.concat(tables, ignore_index=True)


SPLITS = {"ID": "id", "OOD": "ood"}
"""Test -> the part of a task that it is drawn from (see `PARTS`)."""

Models = Mapping[str, nn.Module]
"""The trained models, by the names of `runs()`."""


def over_all(
    p: AlgorithmicReasoning, models: Models, measure: Callable[[nn.Module, list[Batch]], pd.DataFrame]
) -> pd.DataFrame:
    """The rows of `measure(model, batches)` for every run and split, with columns `run` and `split`."""
    batches = {(name, split): p.batches(name, part) for name in p.tasks for split, part in SPLITS.items()}
    return pd.concat(
        [
            measure(models[run.name], batches[run.task, split]).assign(run=run.name, split=split)
            for run in p.runs()
            for split in SPLITS
        ],
        ignore_index=True,
    )


NOTHING = "no change"
"""The name for a model without an intervention."""

ENLARGED, OWN = "the enlarged reference", "as in distribution"
"""Other interventions: redirection to the reference enlarged by what the study leaves out of it; and the
model's own shares of attention on kinds of keys in distribution."""

CONTROL = {REFERENCE: RANDOM, ENLARGED: f"{RANDOM}, as many", OWN: NOTHING}
"""The control of each intervention: as many random keys, or no change if attention is not redirected."""


def ranked_heads(p: AlgorithmicReasoning, run: ReasoningRun, model: nn.Module) -> pd.DataFrame:
    """The heads of a model, in descending order of attention on the reference (on validation texts)."""
    found = head_masses(model, p.batches(run.task, "valid"))
    table = summarise(found, ["layer", "head", "name"], "mass", whole="rows", beside=["uniform"])
    return table.sort_values("value", ascending=False, kind="stable").reset_index(drop=True)


def changeable(p: AlgorithmicReasoning, models: Mapping[str, nn.Module]) -> list[ReasoningRun]:
    """Runs for interventions on attention: none without `strengths`, and only models of a supported kind."""
    return [run for run in p.runs() if p.strengths and is_followed(models[run.name])]


def changed_attention(p: AlgorithmicReasoning, models: Mapping[str, nn.Module]) -> pd.DataFrame | None:
    """Accuracy by text, without interventions and (out of distribution) with each; `None` without models."""
    found = list[pd.DataFrame]()
    for run in changeable(p, models):
        model, table = models[run.name], ranked_heads(p, run, models[run.name])
        heads = list(zip(table["layer"], table["head"], strict=True))
        shares = kind_shares(model, p.batches(run.task, "valid"))
        onto = {REFERENCE: p.batches(run.task, "ood")}
        if TASKS[run.task].ENLARGES:
            onto[ENLARGED] = p.batches(run.task, "ood", enlarged=True)
        about: dict[str, Any] = {"run": run.name, "kind": run.kind, "seed": run.seed}
        for split in ("id", "ood"):
            alone = evaluate_rows(model, p.batches(run.task, split), follow=())
            found.append(_right(alone).assign(**about, split=split.upper(), heads=0, change=NOTHING))
        for number in sorted({1, p.reinforced_heads, len(heads)}):
            rows = {OWN: shared_rows(model, onto[REFERENCE], heads[:number], shares)}
            for change, batches in onto.items():
                pushed = reinforcement_rows(model, batches, heads[:number], [1.0])
                rows[change] = pushed[pushed["onto"] == REFERENCE]
                rows[CONTROL[change]] = pushed[pushed["onto"] == RANDOM]
            for change, part in rows.items():
                found.append(_right(part).assign(**about, split="OOD", heads=number, change=change))
    return pd.concat(found, ignore_index=True) if found else None


def _right(rows: pd.DataFrame) -> pd.DataFrame:
    """The share of tokens that are right, by text."""
    shares = rows.groupby("sample")["correct"].mean()
    return shares.rename("value").reset_index()


def all_ranked(p: AlgorithmicReasoning, models: Models) -> dict[str, pd.DataFrame]:
    """`ranked_heads` of every run."""
    return {run.name: ranked_heads(p, run, models[run.name]) for run in p.runs()}


def best_head(p: AlgorithmicReasoning, models: Models, ranked: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The reference mass of each model's best head (first in `all_ranked`) on test texts."""
    best = {run: table["name"].iloc[0] for run, table in ranked.items()}
    heads = over_all(p, models, head_masses)
    own = heads[heads["name"] == heads["run"].map(best)]
    return summarise(own, ["run", "name", "split"], "mass", whole="rows", beside=["uniform"])


def pushed(
    p: AlgorithmicReasoning, models: Models, ranked: Mapping[str, pd.DataFrame]
) -> pd.DataFrame | None:
    """Accuracy while the best heads of every `changeable` model are redirected; `None` if there are none."""
    found = list[pd.DataFrame]()
    for run in changeable(p, models):
        top = ranked[run.name].head(p.reinforced_heads)
        heads = list(zip(top["layer"], top["head"], strict=True))
        for split, part in SPLITS.items():
            rows = reinforcement_rows(models[run.name], p.batches(run.task, part), heads, p.strengths)
            about = {"run": run.name, "task": run.name, "split": split}
            found.append(answer_accuracy(rows, ["onto", "strength"]).assign(**about))
    return pd.concat(found, ignore_index=True) if found else None


def compare_rows(
    rows: pd.DataFrame,
    value: str = "rollout",
    split: str = "correct",
    *,
    adjust_for: Sequence[str] = (),
    confidence: float = 0.95,
) -> Comparison:
    r"""Whether rows where `split` is true have more of `value` than those where it is false.

    Without options the difference is that of the two means over rows, as in the original code.

    But neither rows nor kinds are independent: a hard sample has more wrong rows, and its rows correlate.
    The difference is the coefficient of a regression of the row's value on its kind (and on `adjust_for`).
    Its variance comes from leaving out one sample after the other, the cluster jackknife:

    $$V = \frac{G - 1}{G} \sum_g (\hat\beta_{(g)} - \hat\beta)^2$$

    with $G$ samples and $\hat\beta_{(g)}$ the estimate without sample $g$. $\hat\beta / \sqrt V$ is compared
    with a t-distribution whose degrees of freedom are the number of samples that have the rarer kind, less 1.

    The usual alternative, the cluster-robust covariance of a regression with $G - 1$ degrees of freedom,
    needs many samples with rows of either kind: where only 2 of 30 have a wrong row, it calls 3 in 10 equal
    groups different at a level of 5 %, and Welch's test on rows calls half of them so. This one stays near
    5 % or below (`tests/chapters/reasoning/test_row_comparison.py`), at the price of low power where
    wrong rows are that rare.

    References:
        1) Cameron and Miller 2015, *A practitioner's guide to cluster-robust inference*: few clusters (VI).
        2) MacKinnon, Nielsen and Webb 2023, *Fast and reliable jackknife and bootstrap methods for
           cluster-robust inference*: the jackknife, there called CV3.
    """
    _check(rows, value, split, adjust_for)
    kept = rows[rows[value].notna()]
    empty, kinds = _comparison(kept, value, split)
    published_rows = rows
    if "evaluated" in rows:
        published_rows = rows[truths(rows, "evaluated")].fillna({value: 0.0})
    counted, groups = _comparison(published_rows[published_rows[value].notna()], value, split)
    empty = replace(empty, published=published_comparison(groups[0], groups[1], counted.samples, confidence))
    if min(empty.samples) < 2:
        return without(
            empty, f"{min(empty.samples)} of at least 2 samples needed have the rarer kind of rows"
        )
    if all(constant(kind) for kind in kinds):
        return without(empty, "all rows of a kind are equal, in both kinds")
    dummies = [pd.get_dummies(kept[name].astype("category"), drop_first=True) for name in adjust_for]
    design = np.column_stack([kept[split], np.ones(len(kept)), *dummies]).astype(float)
    if _explained(design):
        return without(empty, f"{' and '.join(adjust_for)} alone says which kind a row is of")
    sample = pd.factorize(kept["sample"].to_numpy())[0].astype(np.int64)
    return _jackknife(empty, design, kept[value].to_numpy(float), sample, confidence)


def _check(rows: pd.DataFrame, value: str, split: str, adjust_for: Sequence[str]) -> None:
    if isinstance(adjust_for, str):
        raise ValueError(f"adjust_for should be a list of columns, such as [{adjust_for!r}]")
    missing = [name for name in ("sample", value, split, *adjust_for) if name not in rows]
    if missing:
        raise ValueError(f"rows should have the columns {missing}; got {list(rows.columns)}")
    truths(rows, split)
    check_groups(rows, "sample", *adjust_for)
    if np.isinf(rows[value].to_numpy(float)).any():
        raise ValueError(f"{value} should be finite, or NaN where a row has none; got infinity")


def _comparison(rows: pd.DataFrame, value: str, split: str) -> tuple[Comparison, list[np.ndarray]]:
    """The numbers of rows and samples of either kind, their means, and the values of either kind."""
    true = truths(rows, split)
    kinds = [rows[true], rows[~true]]
    (a, b), (x, y) = (
        (each["sample"].nunique() for each in kinds),
        (each[value].to_numpy(float) for each in kinds),
    )
    first, second = (float(each.mean()) if len(each) else None for each in (x, y))
    test = "cluster jackknife over samples"
    return Comparison(test, (a, b), (len(x), len(y)), first=first, second=second), [x, y]


def _explained(design: Float[np.ndarray, "row column"]) -> bool:
    """Whether the other columns explain the first one completely."""
    rest = design[:, 1:]
    left = design[:, 0] - rest @ np.linalg.lstsq(rest, design[:, 0], rcond=None)[0]
    return bool(np.abs(left).max() < 1e-8)


def _jackknife(
    empty: Comparison,
    design: Float[np.ndarray, "row column"],
    response: Float[np.ndarray, " row"],
    sample: Int[np.ndarray, " row"],
    confidence: float,
) -> Comparison:
    """The comparison with the jackknife's difference and effect; columns of `design`: kind, 1, and others."""
    table = np.column_stack([design, response - response.mean()])  # sums of squares lose digits far from 0
    parts = [table[sample == each] for each in range(sample.max() + 1)]
    each = np.stack([part.T @ part for part in parts])
    sums = np.concatenate([each.sum(0, keepdims=True), each.sum(0) - each])
    gram, product = sums[:, :-1, :-1], sums[:, :-1, -1:]
    # without the only sample with a value of `adjust_for`, that coefficient is undetermined: hold it at 0
    held = 1e-10 * np.trace(gram[0]) / gram.shape[-1] * np.eye(gram.shape[-1])
    difference = np.linalg.solve(gram + held, product)[:, 0, 0]
    n, n_true, total, of_true = gram[:, 1, 1], gram[:, 0, 0], product[:, 1, 0], product[:, 0, 0]
    explained = of_true**2 / np.maximum(n_true, 1) + (total - of_true) ** 2 / np.maximum(n - n_true, 1)
    variance = (sums[:, -1, -1] - explained) / np.maximum(n - 2, 1)
    effect = difference / np.sqrt(np.maximum(variance, 1e-6 * variance[0]))
    (d, d_error), (e, e_error) = _with_error(difference), _with_error(effect)
    if d_error <= 1e-9 * abs(d):
        return without(empty, "the estimate is the same without any of the samples")
    df = min(empty.samples) - 1
    t, reach = d / d_error, scipy.stats.t.isf((1 - confidence) / 2, df)
    intervals = [(v, v - reach * error, v + reach * error) for v, error in ((d, d_error), (e, e_error))]
    return filled(empty, intervals[0], intervals[1], (t, df, 2 * scipy.stats.t.sf(abs(t), df)))


def _with_error(estimates: Float[np.ndarray, " estimate"]) -> tuple[float, float]:
    """The estimate from all samples, and its jackknife standard error from those without each."""
    whole, parts = estimates[0], estimates[1:]
    return float(whole), float(np.sqrt((len(parts) - 1) / len(parts) * ((parts - whole) ** 2).sum()))
