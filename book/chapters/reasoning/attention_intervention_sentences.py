"""Numbers and clauses that the sentences of `attention_intervention` quote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from attnlib import stats
from book.chapters.reasoning import few_columns, recipes, tables
from book.chapters.reasoning.attention_intervention import READ
from book.chapters.reasoning.claims import enough_clause, order_test
from book.chapters.reasoning.measures import REFERENCE, SPLITS
from book.chapters.reasoning.sentences import ALONE, PUSHED, REVERSAL, WHOLE, in_a_row, tell_metrics
from book.chapters.reasoning.tables import CAUSE, FINE_TUNED, HALF, LONGER, NO_LOSS
from book.chapters.records import came_with_the_book, one_number
from book.chapters.telling import tell, tell_in_words

NUMERALS = {4: "four", 5: "five", 6: "six", 7: "seven"}


def tell_example(judged: pd.Series) -> None:
    """Tell the accuracies and the gain of one kind of models."""
    numbers = judged[["ID", "OOD", "changed", "control", "value"]]
    tell(numbers.rename({"value": "gain"}), "example {}")


def tell_verdicts(judged: pd.DataFrame) -> None:
    """Tell what each kind of models loses and gains, and in which tasks attention is the cause."""
    tuned = judged["models"] == FINE_TUNED
    tell_in_words(judged[~tuned], "gain of {kind}", "points")
    losses = judged[~tuned].drop(columns=["value", "low", "high"])
    losses = losses.rename(columns={"lost": "value", "lost low": "low", "lost high": "high"})
    tell_in_words(losses, "loss of {kind}", "points")
    for name, kind in {"value gain": "value assignment", "fine-tuned gain": REVERSAL}.items():
        tell_in_words({name: one_number(judged[tuned], kind=kind)}, unit="points")
    for name, models in {REVERSAL: judged[~tuned], "fine-tuned": judged[tuned]}.items():
        reversal = models[models["kind"] == REVERSAL].rename(columns={"closed in": "rescued"})
        tell(reversal, f"{name}: {{of}}", of=["rescued", "seeds"])

    tasks = judged["kind"].str.partition(", ")[0]
    reverses, cause = tasks.eq(REVERSAL), judged["verdict"].eq(CAUSE)
    others = ~reverses & judged["verdict"].ne(NO_LOSS)
    tell({"tasks with a cause": in_a_row(tasks[cause].unique()) or "none of them"})
    tell({"kinds": reverses.sum(), "causes": (reverses & cause).sum()}, "reversal: {}")
    tell({"kinds": others.sum(), "causes": (~reverses & cause).sum() or "none"}, "other tasks: {}")


def tell_fine_tuned(rows: pd.DataFrame, tuned: pd.DataFrame) -> None:
    """Tell what the fine-tuned language model has right on each task, and where it attends in reversal."""
    whole = {
        "whole, alone": f"exact match {{}}, strength 0 onto {REFERENCE}",
        "whole, pushed": f"exact match {{}}, strength 1 onto {REFERENCE}",
    }
    reversal = rows[rows["task"] == "string_reversal"].set_index("metric")
    for split in SPLITS:
        for name, metric in (tables.TUNED | whole).items():
            found = tuned[tuned["metric"] == metric.format(split)]
            tell_in_words(found, f"fine-tuned {{task}} {split}, {name}", "%")
        even = reversal.loc[reversal.index == f"rollout, {split}", "uniform"].mean()
        tell({f"fine-tuned string_reversal {split}, even": even}, unit="%")
    tell_metrics(tuned, {"fine-tuned, length 50": "accuracy, length 50"}, task="string_reversal")
    tell_metrics(tuned, {"fine-tuned sums, exact match": "exact match, length 13"}, task="long_addition")
    longest = reversal[reversal.index.isin([f"exact match, length {length}" for length in range(25, 51)])]
    right = int((longest["value"] * longest["n"]).round().sum())
    numbers = {"longer than in training": int(longest["n"].sum()), "longer and right": right or "none"}
    tell(numbers, "fine-tuned, {}")

    prompted = came_with_the_book(
        READ, model=tables.LANGUAGE_MODEL, ranges="finetune", instruction=True, few_shot=True
    )
    answers = {split: tables.TUNED["answers right"].format(split) for split in SPLITS}
    tell_metrics(prompted, answers, "prompted {}", task="successor")


def tell_rankings(came_with: pd.DataFrame) -> None:
    """Tell how attention on the reference correlates with accuracy on longer inputs, over kinds of models."""
    rows = came_with[came_with["setting"].str.contains("from scratch")]
    longer = rows[rows["ranges"].eq(LONGER) & ~rows["supervised"].astype(bool)]
    every, others, reversals = (
        tables.correlations(tables.extrapolation(some))
        for some in (rows, rows[rows["task"].ne("string_reversal")], longer)
    )
    tell_in_words(every[every["over"] == "within tasks"], "{attention}, {over}")
    without = one_number(others, attention="above uniform", over="within tasks")
    tell_in_words({"without reversal": without})
    kinds = tables.by_kind(tables.extrapolation(longer))
    same = one_number(reversals, attention="above uniform", over="string_reversal")
    tell({
        "kinds that reverse": NUMERALS.get(len(kinds), str(len(kinds))),
        "one order by chance": order_test(kinds).pvalue if len(kinds) else np.nan,
        "two rankings": rankings_clause(same),
    })  # fmt: skip


def tell_as_it_is(rows: pd.DataFrame, masses: pd.DataFrame) -> None:
    """Tell what the language model has right without training, and how often it attends to the reference."""
    answers = rows[rows["metric"].str.fullmatch("generated exact match (ID|OOD)")]
    right = round((answers["value"] * answers["n"]).sum())
    tell({"right": right, "asked": int(answers["n"].sum())}, "as it is: {}")
    for name, some in masses.groupby("task"):
        above = (some["low"] > some["uniform"]).sum()
        tell({"above even": above, "cases": len(some)}, f"as it is: {name}, {{}}")
    alone = masses[~masses["setting"].str.contains("examples") & masses["group"].eq("long addition")]
    tell_in_words(alone, "as it is: {group}, {task}, {measure}", digits=2)
    tell(alone, "as it is: {group}, {task}, {measure}, even", of="uniform")


def tell_further(came_with: pd.DataFrame, back: pd.DataFrame) -> None:
    """Tell the regained share of the loss, and the accuracy in distribution, after further training."""
    tell({"further steps": few_columns.STEPS})
    back = back.assign(of=back["task"].str.split("_").str[-1] + ", " + back["positions"])
    shares, singles = few_columns.shares_back(back)
    # not in percent: the share that is regained may be below 0 or above 1
    tell_in_words(shares, "back: {of}, {trained}", digits=2)
    tell_in_words({"back: best column": singles.iloc[0] if len(singles) else None}, digits=2)
    below = int((singles["high"] < HALF).sum())
    tell({"tried": len(singles), "below": below}, "columns {}")
    tell({"column clause": enough_clause(came_with)})
    kept = back[back["metric"].eq("accuracy ID") & back["trained"].eq(recipes.ALL)]
    tell_in_words(kept, "kept: {of}, {trained}", "%")


def tell_exercises_on_attention(came_with: pd.DataFrame) -> None:
    """Tell what the solutions quote: of models without positions, of products, and of the language model."""
    over_seeds = stats.table_over_seeds(tables.shares_of_seeds(came_with), ["kind", "metric"], share=True)
    asked = {f"{split}, {on}": metric(split) for split in SPLITS for on, metric in enumerate((ALONE, PUSHED))}
    for kind in (f"{REVERSAL}, no positions", f"{REVERSAL}, rotary positions", "long multiplication"):
        metrics = asked | {"whole OOD": WHOLE("OOD")}
        tell_metrics(over_seeds, metrics, f"exercise {kind} {{}}", kind=kind)
    shares = {"teacher-forced": "teacher-forced accuracy ID", "generated": "generated exact match ID"}
    for shown, few_shot in {"alone": False, "examples": True}.items():
        rows = came_with_the_book(READ, model=tables.LANGUAGE_MODEL, few_shot=few_shot, steps=0)
        for run in ("successor", "long addition"):
            tell_metrics(rows, shares, f"exercise {run}, {{}}, {shown}", run=run)


def rankings_clause(correlation: Any) -> str:
    """How two rankings of the same models compare, as the end of a sentence."""
    if correlation is None:
        return "not run"
    if abs(correlation["value"]) > 1 - 1e-9:
        return (
            "the two rankings are identical" if correlation["value"] > 0 else "one ranking reverses the other"
        )
    return f"the two rankings have a rank correlation of {correlation['value']:.2f}"
