"""Numbers that the sentences of the page on RASP quote.

`tell_recorded`, `tell_sources` and `tell_exercises` tell what does not depend on the parameters of a run; the
other functions tell what this run has computed.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pandas as pd

from attnlib.stats import table_over_seeds
from book.chapters.rasp.tables import (
    ITS_OWN,
    SCALE,
    TABLES,
    called,
    gained_by_supervision,
    lost_when_smaller,
    of_programs,
    of_scale,
    trained_models,
)
from book.chapters.records import came_with_the_book, one_number, paper_figures
from book.chapters.telling import side_clause, tell, tell_in_words
from book.chapters.this_run import if_learned, memorized_clause

CHAPTER = "rasp_languages"

CHANCE = {"sort": 0.1, "hist": 0.5}
"""The accuracy per token of a model that always writes the same symbol (`sort`), or the count 1 (`hist`)."""


# ---- this run ----------------------------------------------------------------------------------------


def tell_memorized(seen: pd.DataFrame, accuracy: pd.DataFrame) -> None:
    """Tell whether the model of `sort` has memorized its training sequences.

    Args:
        seen: the rows of `training_rows`.
        accuracy: the rows of `accuracy_rows`.
    """
    right = _tokens_right(seen)
    if "sort" in right:
        clause = memorized_clause(right["sort"], _tokens_right(accuracy)["sort"])
        tell({"memorized": if_learned(right["sort"], CHANCE["sort"], f"it {clause}")})


def tell_shares(mass: pd.DataFrame, accuracy: pd.DataFrame) -> None:
    """Tell the share of attention of both heads of `sort` on the program's keys.

    Args:
        mass: the rows of `mass_rows`.
        accuracy: the rows of `accuracy_rows`.
    """
    heads, runs = ("mass L0H0", "mass L1H0"), ("sort", "sort, supervised")
    by_head = _rows_by(mass, "metric", "run")
    if not {*product(heads, runs)} <= by_head.keys():
        return
    first, second = (
        [by_head[head, "sort"]["uniform"], *(by_head[head, run]["value"] for run in runs)] for head in heads
    )
    clause = (
        "the first head has a share of {:.2f} on the program's keys with uniform attention, {:.2f} "
        "unsupervised and {:.2f} supervised. The second has {:.2f}, {:.2f} and {:.2f}"
    ).format(*first, *second)
    tell({"shares": if_learned(_tokens_right(accuracy)["sort"], CHANCE["sort"], clause)})


def tell_use(matches: pd.DataFrame) -> None:
    """Tell how well heads of `sort` and `hist` agree with programs, and the accuracy with the programs' rows.

    Args:
        matches: the rows of `table_of_matches`.
    """
    own, put = "accuracy, their own", "accuracy, the program's"
    by_program = _rows_by(matches, "run", "program of")
    if {("sort", "sort"), ("sort", "reverse")} <= by_program.keys():
        sort, reverse = by_program["sort", "sort"], by_program["sort", "reverse"]
        clause = (
            f"the unsupervised model of sort agrees with its program by {sort['agreement']:.2f}, and uniform "
            f"attention by {sort['uniform']:.2f}. Yet with the program's rows in place of its own, it gets "
            f"{sort[put]:.2f} of the tokens right, and with those of reverse {reverse[put]:.2f}"
        )
        tell({"use, sort": if_learned(sort[own], CHANCE["sort"], clause)})
    if hist := by_program.get(("hist, supervised", "hist")):
        clause = (
            f"the supervised model of hist agrees by {hist['agreement']:.2f}, and yet its accuracy goes from "
            f"{hist[own]:.2f} to {hist[put]:.2f} with the program's exact rows"
        )
        tell({"use, hist": if_learned(hist[own], CHANCE["hist"], clause)})


def _tokens_right(accuracy: pd.DataFrame) -> pd.Series:
    """The accuracy per token by run."""
    return accuracy[accuracy["metric"] == "accuracy"].set_index("run")["value"]


def _rows_by(table: pd.DataFrame, *columns: str) -> dict[tuple[Any, ...], dict[Any, Any]]:
    """The rows of a table by their values in some columns."""
    return {tuple(row[column] for column in columns): row for row in table.to_dict("records")}


# ---- recorded runs -----------------------------------------------------------------------------------


def tell_recorded(rows: pd.DataFrame) -> None:
    """Tell what models of the page's own scale show, whatever this run's scale is.

    Args:
        rows: the rows of all records of this chapter.
    """
    of_any_positions = {name: value for name, value in SCALE.items() if name != "positions"}
    models = trained_models(of_scale(rows, **of_any_positions)).query("metric == 'accuracy'")
    _tell_accuracy(models)
    _tell_changes(_of_the_page(models))
    agreement = of_programs(of_scale(rows, **SCALE)).query(f"what == 'agreement' and held == '{ITS_OWN}'")
    tell_in_words(called(agreement), "minute agreement {called}")
    _tell_large_alphabets()
    tell(paper_figures().query(f"table == '{TABLES} 2'"), "theirs {task}")


def _tell_accuracy(models: pd.DataFrame) -> None:
    """Tell the accuracy of every kind of model."""
    kinds = ["language", "bos", "positions", "supervised", "ablation"]
    right = called(table_over_seeds(models, kinds, share=True))
    right["without"] = right["bos"].map({True: "", False: ", no BOS"})
    tell_in_words(right, "{positions}{without}: {called}", "%", 1)
    tell_in_words(_of_the_page(right), "minute {called}", "%", 1)


def _of_the_page(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of models with BOS and the page's own positions."""
    return rows[rows["bos"].eq(True) & rows["positions"].eq(SCALE["positions"])]


def _tell_changes(models: pd.DataFrame) -> None:
    """Tell how a smaller size and supervision change the accuracy, paired by seed."""
    lost = lost_when_smaller(models[~models["supervised"].astype(bool)])
    tell_in_words(lost, "lost, {language}, {ablation}", "points", 2)
    for gain in gained_by_supervision(models).to_dict("records"):
        tell({gain["language"]: change_clause(gain)}, "supervised accuracy, {}")


def _tell_large_alphabets() -> None:
    """Tell the accuracy with 100 symbols, after the usual number of training steps and after 10,000."""
    for steps in (0, 10000):
        rows = came_with_the_book(CHAPTER, alphabet_size=100, steps=steps, seeds=[0, 1, 2])
        right = table_over_seeds(rows.query("metric == 'accuracy'"), ["task", "supervised"], share=True)
        tell_in_words(called(right), f"100 symbols, {steps} steps: {{called}}", "%", 1)


def change_clause(change: Any) -> str:
    """Say a change in accuracy as the end of a sentence: "rises by 3.6 points"."""
    by = f"by {100 * abs(change['value']):.1f} points"
    return side_clause(change, f"falls {by}", "does not change significantly", f"rises {by}")


def tell_sources(sources: pd.DataFrame) -> None:
    """Tell how often each method's largest score is on a source, from the rows of `found_rows`."""
    tell(sources, "{run}: {method}, {among}")


def tell_exercises() -> None:
    """Tell what the solutions quote, from the recorded runs of their commands."""
    rows = came_with_the_book(CHAPTER, seeds=[0, 1, 2], bos=True, **SCALE)
    rows = rows[rows["ablation"].eq("")]
    means = table_over_seeds(rows, ["task", "supervised", "metric"], share=True)
    asked = {
        "brackets": ("dyck1_ptf", False, "accuracy"),
        "brackets, long": ("dyck1_ptf", False, "accuracy, length 56 to 60"),
        "reverse, long": ("reverse", False, "accuracy, length 56 to 60"),
        "by frequency": ("sort_by_freq", False, "accuracy"),
        "by frequency, supervised": ("sort_by_freq", True, "accuracy"),
        "hist, replaced": ("hist", False, "accuracy, attention of hist in its heads"),
        "reverse, replaced": ("reverse", False, "accuracy, attention of reverse in its heads"),
    }
    answers = {
        name: one_number(means, task=task, supervised=supervised, metric=metric)
        for name, (task, supervised, metric) in asked.items()
    }
    tell_in_words(answers, "exercise {}", "%")
    of_own_program = means["metric"].eq("agreement with " + means["task"])
    unsupervised = ~means["supervised"].astype(bool)
    tell_in_words(means[of_own_program & unsupervised], "exercise agreement {task}")
