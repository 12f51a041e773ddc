"""Numbers that the sentences of the page on Attention Lens quote.

`tell_recorded` and `tell_exercises` tell what is the same in every run; the others tell what this run has
computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd

from attnlib.generators.arithmetic import Arithmetic, arithmetic, best_possible
from attnlib.models.attention import heads_ablated
from attnlib.models.stored import StoredModel
from attnlib.stats import summarise
from book.chapters.lens.arithmetic_lens import ArithmeticLens, LensRun
from book.chapters.lens.measures import REFERENCE, digit_rows, whole_answers
from book.chapters.lens.tables import as_published, claims_at_size
from book.chapters.records import came_with_the_book, one_number, paper_figures
from book.chapters.telling import side_clause, tell, tell_in_words
from book.chapters.this_run import if_learned

CHAPTER = "arithmetic_lens"

ADDITION = r"addition, seed \d+"
"""The names of the main models, which differ in their seeds only."""


def tell_recorded() -> None:
    """Tell what recorded models of the original's width show, and what the original's log says."""
    rows = came_with_the_book(CHAPTER, operators="+", width=128)
    _tell_layers(rows)
    _tell_right_answers(rows)
    _tell_log(rows)


def _tell_layers(rows: pd.DataFrame) -> None:
    """Tell how much more attention the layers give to the tokens that the repository names."""
    claims = claims_at_size(rows)
    tell_in_words(claims, "minute {claim}", "points", 0)
    said = ("the opposite of what the repository says", "not significant", "as the repository says")
    for claim in claims.to_dict("records"):
        points = f"{100 * abs(claim['value']):.0f} points"
        more = (f"{points} less", "neither significantly more nor less", f"{points} more")
        clauses = {"said": side_clause(claim, *said), "more": side_clause(claim, *more)}
        tell(clauses, f"minute {claim['claim']}: {{}}")
    operator = rows[rows["metric"].str.startswith("share on the operator by itself")]
    middle = operator["metric"].str.endswith("layer 1")
    shares = {"middle": operator[middle]["value"].mean(), "others": operator[~middle]["value"].mean()}
    tell(shares, "operator alone, {}", "%")


def _tell_right_answers(rows: pd.DataFrame) -> None:
    """Tell how many answers are right at every digit: of all models, and of each kind of training."""
    right = _exact_match(rows, ADDITION)
    tell({"minute exact match": 100 * right.min(), "minute models": len(right)})
    drawn = {
        part: one_number(rows, run="as published, 1,500 drawn", metric=f"exact match, {part}")
        for part in ("seen in training", "not seen")
    }
    tell_in_words(drawn, "minute {}", "%", 1)
    by_accuracy, by_loss = (
        came_with_the_book(CHAPTER, operators="+", width=128, schedule=schedule)
        for schedule in ("plateau", "plateau of the loss")
    )
    ranges = {
        "exact match": _exact_match(by_accuracy, ADDITION),
        "sampled": _exact_match(by_accuracy, ".*scheduled sampling.*"),
        "by loss": _exact_match(by_loss, ADDITION),
    }
    for name, shares in ranges.items():
        tell({"least": shares.min(), "most": shares.max()}, f"large {name} {{}}", "%")
    tell({"large by loss models": str(len(ranges["by loss"]))})
    others = {
        name: one_number(by_accuracy, run=run, metric="exact match")
        for name, run in {"units first": "addition, units first", "subtraction": "subtraction"}.items()
    }
    tell_in_words(others, "large {}", "%", 1)
    tell({"large device": by_accuracy["device"].iloc[0]})


def _tell_log(rows: pd.DataFrame) -> None:
    """Tell what the original's log ends with, what is possible, and what our models reach."""
    tell(paper_figures().query("table == 'Attention Lens log'"), "theirs {task}")
    best = best_possible(arithmetic("+", (1, 99), operands_too=True))
    tell({"best accuracy": 100 * best["accuracy"], "best loss": best["cross_entropy"]})
    for metric, unit, digits in (("token accuracy", "%", 1), ("cross entropy", "", 3)):
        number = one_number(rows, metric=f"{metric}, operands too")
        tell_in_words({f"large {metric}": number}, unit=unit, digits=digits)
    # Expected number of batches whose last 11 draws all choose the model's token: 50 epochs of 313 each.
    tell({"reached": sum(313 * (0.5 * epoch / 50) ** 11 for epoch in range(50))})


def _exact_match(rows: pd.DataFrame, runs: str) -> pd.Series:
    """The shares of right answers of the runs whose names match a pattern."""
    return rows[rows["metric"].eq("exact match") & rows["run"].str.fullmatch(runs)]["value"]


# ---- this run ----------------------------------------------------------------------------------------


def tell_accuracy(exact: pd.Series, runs: Sequence[LensRun]) -> None:
    """Tell how many answers of the first model are right, and of the model that writes units first."""
    tell({"exact match": exact[runs[0].name]}, unit="%")
    backwards = exact[next(run.name for run in runs if run.backwards)]
    clause = f"such a model answers {100 * backwards:.1f} % of the test problems correctly, in as many steps"
    tell({"units first": if_learned(backwards, 0.0, clause)})


def tell_order_of_digits(columns: pd.DataFrame, right: float) -> None:
    """Tell in which order the digits reach an accuracy of one half during training.

    Args:
        columns: the accuracy by `column` and `step`.
        right: the share of answers that the trained model has right.
    """
    half = columns[columns["value"] >= 0.5].groupby("column")["step"].min().drop("end", errors="ignore")
    order = ", then ".join(f"{name} (step {step:,})" for name, step in half.sort_values().items())
    tell({"first digits": if_learned(right, 0.0, f"accuracy reaches one half in this order: {order}")})


def tell_claims(claims: pd.DataFrame) -> None:
    """Tell how many parts of the description hold significantly."""
    tell({"claims that hold": f"{claims['verdict'].eq('reproduced').sum()} of {len(claims)}"})


def tell_ablation(looks: pd.DataFrame, zero: pd.DataFrame, uniform: pd.DataFrame, right: float) -> None:
    """Tell which head looks most at the reference, and which head is needed most.

    Args:
        looks: shares of attention by `head` and `kind`.
        zero: the accuracy lost by `head` and `column` where the head's output is zero.
        uniform: the same where its attention is uniform.
        right: the share of answers that the model has right.
    """
    share = looks[looks["kind"] == REFERENCE].set_index("head")["value"]
    lost, lost_evenly = (
        costs[costs["column"] == "answer"].set_index("head")["value"] for costs in (zero, uniform)
    )
    looker, most, least = str(share.idxmax()), str(lost.idxmax()), str(lost.idxmin())
    clause = f"head {looker} looks most at the reference, with {100 * share[looker]:.0f} % of its attention"
    if looker != most:
        clause += f", but only {100 * lost[looker]:.0f} points are lost without it"
    clause += (
        f". Head {most} is the most needed: {100 * lost[most]:.0f} points are lost without it. The least "
        f"needed is {least}, with {100 * lost[least]:.0f} points, and {100 * share[least]:.0f} % of its "
        f"attention is on the reference. With uniform attention in {most}, "
        f"{100 * lost_evenly[most]:.0f} points are lost. Over all heads, the losses in "
        f"the two tests have a rank correlation of {lost.corr(lost_evenly, method='spearman'):.2f}. A head's "
        "attention on the reference and the loss without the head have a rank correlation of "
        f"{share.corr(lost, method='spearman'):.2f}"
    )
    tell({"ablated": if_learned(right, 0.0, clause)})


def tell_mass(mass: Mapping[str, np.ndarray]) -> None:
    """Tell what share each method puts on the reference, and whether rollout of a trained model puts more."""
    tell({method: shares.mean() for method, shares in mass.items()}, "mass of {}")
    apart = pd.DataFrame({"value": mass["rollout"] - mass["rollout of uniform attention"]})
    difference = summarise(apart, bounds=(-1.0, 1.0)).iloc[0]
    words = ("significantly less", "not significantly more", "significantly more")
    tell({"rollout finds": side_clause(difference, *words)})


def tell_equals(at_equals: pd.DataFrame) -> None:
    """Tell which head looks most at both numbers from `=`, and how much."""
    both = at_equals[at_equals["kind"] == "all operands"].set_index("head")
    head = str(both["value"].idxmax())
    tell_in_words({"equals": both.loc[head]}, unit="%")
    tell({"equals head": head, "equals clause": uniform_clause(both.loc[head])})


def uniform_clause(share: Any) -> str:
    """Say a share of attention against that of uniform attention, as the end of a sentence."""
    more = "more" if share.value > share.uniform else "no more"
    return f"{more} than the {100 * share.uniform:.0f} % of uniform attention"


def tell_sampling(sampling: pd.DataFrame, right: float) -> None:
    """Tell what scheduled sampling changed, where `right` is the first model's share of right answers."""
    tell({"sampling verdict": if_learned(right, 0.0, sampling_clause(sampling))})


def sampling_clause(sampling: pd.DataFrame) -> str:
    """Say how scheduled sampling changed exact match, from the table of `tables.sampling`."""
    found = sampling[sampling["metric"] == "exact match"]
    if found.empty:
        return "scheduled sampling is not run"
    change = found.iloc[0]
    value, low, high = (f"{100 * change[end]:+.1f}" for end in ("value", "low", "high"))
    if change["n"] < 2:
        return (
            f"scheduled sampling changes exact match by {value} points in one model, which gives no interval"
        )
    verdict = side_clause(change, "hurts", "makes no significant difference", "helps")
    return (
        f"scheduled sampling {verdict}: it changes exact match by {value} points, with an interval from "
        f"{low} to {high}"
    )


def tell_new_problems(overlapping: pd.DataFrame, p: ArithmeticLens) -> None:
    """Tell how many test problems of the original's splits are not in training, if there are such splits."""
    if p.published:
        counts = overlapping[overlapping["run"] == as_published(p).name].set_index("test problems")["n"]
        tell({"drawn as published, not seen": counts.get("not seen", 0)})


# ---- exercises ---------------------------------------------------------------------------------------


def tell_exercises(stored: StoredModel) -> None:
    """Tell what the solutions quote: answers of the stored model, and the recorded run of their command."""
    model, task = stored.model, cast(Arithmetic, stored.task)
    problems = task.space.problems(np.arange(task.space.size))
    n_long = (problems.operands > 9).sum(axis=1)
    one_digit, two_digits = problems[n_long == 0], problems[n_long == 2][::4]

    def right(asked: Any) -> pd.Series:
        return summarise(whole_answers(digit_rows(model, task, asked)), (), "right").iloc[0]

    tell_in_words({"one digit": right(one_digit), "two digits": right(two_digits)}, "exercise {}", "%", 1)
    for layer in range(model.config.n_layers):
        with heads_ablated(model, [(layer, head) for head in range(model.config.n_heads)]):
            tell_in_words({f"exercise without layer {layer}": right(two_digits[::4])}, unit="%")
    recorded = came_with_the_book(CHAPTER, operators="+", also=["-"], seeds=[0, 1, 2], width=64)
    of_tasks = {
        (name, metric): one_number(recorded, run=run, metric=metric)
        for name, run in {"sums": "addition, seed 0", "differences": "subtraction"}.items()
        for metric in ("exact match", "accuracy")
    }
    tell_in_words(of_tasks, "exercise {}, {}", "%", 1)
