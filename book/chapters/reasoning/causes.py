"""Does attention cause the failure? What changes of attention do to answers, and what the best one gains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from torch import nn

from attnlib.generators.algorithmic import TASKS
from attnlib.measures import evaluate_rows
from attnlib.measures.returned import is_followed
from attnlib.stats import summarise, table_over_seeds
from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning, ReasoningRun
from book.chapters.reasoning.intervention import RANDOM, REFERENCE, head_masses, reinforcement_rows
from book.chapters.reasoning.key_kinds import kind_shares, shared_rows
from book.chapters.reasoning.verdicts import HALF, NOTHING, OVER_SEEDS, RIGHT, judged, losses

ENLARGED, OWN = "the enlarged reference", "as in distribution"
"""Other things to do with attention: a push onto the reference with what the study leaves out of it;
and to give each kind of key as much as the model itself does in distribution."""

CONTROL = {REFERENCE: RANDOM, ENLARGED: f"{RANDOM}, as many", OWN: NOTHING}
"""What each change is measured against: for a push, one onto as many keys at random."""


def ranked_heads(p: AlgorithmicReasoning, run: ReasoningRun, model: nn.Module) -> pd.DataFrame:
    """The heads of a model by how much attention they have on the reference (on validation texts).

    Returns:
        Columns `layer`, `head`, `name`, `value`, `low`, `high`, `n`, `uniform`; the most first.
    """
    found = head_masses(model, p.batches(run.task, "valid"))
    table = summarise(found, ["layer", "head", "name"], "mass", whole="rows", beside=["uniform"])
    return table.sort_values("value", ascending=False, kind="stable").reset_index(drop=True)


def changeable(p: AlgorithmicReasoning, models: Mapping[str, nn.Module]) -> list[ReasoningRun]:
    """Runs whose attention is to be changed: none without `strengths`.

    And none of a module that is known only by what it returns (neither Hugging Face's nor ours).
    """
    return [run for run in p.runs() if p.strengths and is_followed(models[run.name])]


def changed_attention(p: AlgorithmicReasoning, models: Mapping[str, nn.Module]) -> pd.DataFrame | None:
    """Accuracy out of distribution while attention is changed, wholly, in some heads or in all.

    Args:
        p: the chapter; its `reinforced_heads` is one of the numbers of heads, beside one and all.
        models: by the names of `runs()`.

    Returns:
        A row per text: `run`, `kind`, `seed`, `split`, `heads` (how many; 0 where nothing is changed),
        `change`, `sample`, `value` (the share of its tokens that are right). `None` if none is `changeable`.
    """
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


def best_gains(rows: pd.DataFrame) -> pd.DataFrame:
    """What the best change of attention gains out of distribution, for each kind of model.

    A change gains what it adds to the better of two: its control, and no change. Which change it is to be,
    and in how many heads, is chosen by that on half of the texts (the even ones); numbers are of the others.

    Args:
        rows: `changed_attention`.

    Returns:
        Columns `run` (of a single seed; of several, their kind and "over seeds"), `kind`, `change`, `heads`;
        the accuracies `ID`, `OOD`, `changed`, `control`; `value`, the gain, with `low`, `high`, `n` and `of`
        (Student's interval over seeds; of a single one, over texts); `closed`, the share of the loss that
        comes back; `seeds`, and `closed in`, in how many of them that is at least half.
    """
    found = list[dict[str, Any]]()
    for kind, own in rows.groupby("kind", sort=False):
        even, odd = own[own["sample"] % 2 == 0], own[own["sample"] % 2 == 1]
        tried = own.loc[own["change"].isin(CONTROL), ["change", "heads"]].drop_duplicates()
        ways = list(zip(tried["change"].tolist(), tried["heads"].tolist(), strict=True))
        change, number = max(ways, key=lambda way: _gain(even, _rival(even, *way), *way)["value"].mean())
        gain = _gain(odd, _rival(even, change, number), change, number)
        by_seed = pd.DataFrame(
            {
                "ID": odd[odd["split"] == "ID"].groupby("seed")["value"].mean(),
                "OOD": _outside(odd, NOTHING, number).groupby("seed")["value"].mean(),
                "changed": _outside(odd, change, number).groupby("seed")["value"].mean(),
                "control": _outside(odd, CONTROL[change], number).groupby("seed")["value"].mean(),
            }
        )
        means = by_seed.mean()
        closed = (means["changed"] - means["OOD"]) / (means["ID"] - means["OOD"])
        of_each = (by_seed["changed"] - by_seed["OOD"]) / (by_seed["ID"] - by_seed["OOD"])
        several = len(by_seed) > 1
        over_texts = summarise(gain, bounds=(-1.0, 1.0))
        interval = table_over_seeds(gain.assign(of="seeds"), ["of"]) if several else over_texts
        (numbers,) = interval[["value", "low", "high", "n"]].to_dict("records")
        run = f"{kind}{OVER_SEEDS}" if several else own["run"].iloc[0]
        row = {"run": run, "kind": kind, "change": change, "heads": number, **means, **numbers}
        row |= {"of": "seeds" if several else "texts", "closed": closed, "seeds": len(by_seed)}
        found.append(row | {"closed in": int((of_each >= HALF).sum())})
    return pd.DataFrame(found)


def right_tokens(rows: pd.DataFrame) -> pd.DataFrame:
    """The share of tokens that are right under every change, as it is recorded.

    Args:
        rows: `changed_attention`.

    Returns:
        Columns `run`, `kind`, `seed`, `metric` (`RIGHT`), `value`, `low`, `high`, `n`.
    """
    by = ["run", "kind", "seed", "split", "change", "heads"]
    table = summarise(rows, by)
    metric = [RIGHT.format_map(row) for row in table.to_dict("records")]
    return table.assign(metric=metric).drop(columns=["split", "change", "heads"])


def verdicts(rows: pd.DataFrame) -> pd.DataFrame:
    """Does attention cause the failure out of distribution? `best_gains` of `changed_attention`, `judged`."""
    return judged(best_gains(rows).merge(losses(right_tokens(rows), ["kind"]), on="kind"))


def _right(rows: pd.DataFrame) -> pd.DataFrame:
    """The share of tokens that are right, by text."""
    shares = rows.groupby("sample")["correct"].mean()
    return shares.rename("value").reset_index()


def _outside(rows: pd.DataFrame, change: str, number: int) -> pd.DataFrame:
    """Texts out of distribution under a change in so many heads."""
    heads = 0 if change == NOTHING else number
    return rows[(rows["split"] == "OOD") & (rows["change"] == change) & (rows["heads"] == heads)]


def _rival(rows: pd.DataFrame, change: str, number: int) -> str:
    """What does better: a change's control, or no change."""
    both = [NOTHING, CONTROL[change]]
    return max(both, key=lambda each: _outside(rows, each, number)["value"].mean())


def _gain(rows: pd.DataFrame, rival: str, change: str, number: int) -> pd.DataFrame:
    """What a change adds to a rival, by seed and text."""
    before = _outside(rows, rival, number)[["seed", "sample", "value"]]
    both = _outside(rows, change, number).merge(before, on=["seed", "sample"], suffixes=("", " before"))
    return both.assign(value=both["value"] - both["value before"])[["seed", "sample", "value"]]
