"""Numbers and clauses that the sentences of `algorithmic_reasoning` quote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from attnlib import stats
from attnlib.generators.algorithmic import task
from attnlib.generators.base import Head
from attnlib.models.stored import StoredModel
from attnlib.stats import Estimate
from book.chapters.reasoning import tables
from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning
from book.chapters.reasoning.measures import RANDOM, REFERENCE, SPLITS, reinforcement_rows
from book.chapters.records import one_number
from book.chapters.telling import side_clause, tell, tell_in_words
from book.chapters.this_run import if_learned

REVERSAL = "string reversal"

WHOLE = "teacher-forced exact match {}".format
"""The metric for the share of completely right answers, by split."""

ALONE = f"accuracy {{}}, strength 0 onto {REFERENCE}".format
PUSHED = f"accuracy {{}}, strength 1 onto {REFERENCE}".format
AT_RANDOM = f"accuracy {{}}, strength 1 onto {RANDOM}".format
"""The metrics of accuracy as trained, and with heads redirected to the reference or to random keys."""


# ---- Numbers of this run -------------------------------------------------------------------------------


def tell_solved(by_kind: pd.DataFrame) -> None:
    """Tell how many whole answers are right, in distribution and on longer inputs."""
    exact = by_kind[by_kind["how"].eq("teacher-forced") & by_kind["metric"].eq("exact match")]
    inside, outside = (exact[exact["split"] == split].set_index("kind")["value"] for split in SPLITS)
    tell({"solved": if_learned(inside.max(), 0.0, solved_clause(inside, outside))})


def tell_places(rows: pd.DataFrame) -> None:
    """Tell the accuracy at places of longer answers that also occur in training, and at later places."""
    inside, outside = (rows[rows["split"] == split] for split in SPLITS)
    beyond = outside["position"] > outside["run"].map(inside.groupby("run")["position"].max())
    table = stats.answer_accuracy(outside.assign(beyond=beyond), ["run", "beyond"])
    accuracy = table[table["metric"] == "accuracy"].set_index(["run", "beyond"])["value"]
    accuracy = pd.to_numeric(accuracy, errors="coerce")  # NaN where there are too few
    solved = inside.groupby("run")["correct"].mean()
    for run, right in solved[solved.index.isin([REVERSAL, "long addition"])].items():
        clause = places_clause(*(accuracy.get((run, place), np.nan) for place in (False, True)))
        tell({f"{run}: places": if_learned(right, 0.1, clause)})


def tell_comparisons(tests: pd.DataFrame) -> None:
    """Tell in which models the reference gets less attention on longer inputs, and where they are wrong.

    It also tells how many comparisons there are, and in how many the published test gives another verdict.
    """
    named = tests.assign(run=tests["run"].str.replace("(.+), supervised", r"supervised \1", regex=True))
    lengths = named[tests["measure"].eq("rollout above uniform")]
    within = named[tests["measure"].eq("rollout") & tests["compared"].eq("OOD: right - wrong")]
    clauses = {
        "lengths": signs_clause(lengths, "lower on longer inputs", "higher on longer inputs"),
        "right and wrong": signs_clause(within, "higher for right tokens", "lower for right tokens"),
    }
    tell(clauses, "rollout, {}")
    successor = tests[tests["run"].eq("successor") & tests["compared"].eq("ID - OOD")]
    tell(successor, "{run}, {compared}: {measure}", of="difference")
    moved = int((tests["differs"] != tests["published_differs"]).sum())
    tell({"tests": len(tests), "tests that change their verdict": moved})


def tell_redirected(pushes: pd.DataFrame | None, heads: int) -> None:
    """Tell what redirecting the attention of so many heads does to each model."""
    tell({"reinforced_heads": heads})
    if pushes is None:
        return
    whole = pushes[pushes["run"].eq(REVERSAL) & pushes["metric"].eq("exact match")]
    tell_in_words(whole, "{run}: {metric} {split}, {strength} onto {onto}", "%")
    tokens = pushes[pushes["metric"] == "accuracy"].sort_values("strength", kind="stable")
    ends: dict[Any, tuple[pd.Series, pd.Series]] = {
        key: (part.iloc[0], part.iloc[-1])  # as trained, and redirected the most
        for key, part in tokens.groupby(["run", "split", "onto"])
    }
    for (run, split, onto), (trained, pushed) in ends.items():
        if onto == REFERENCE:
            clause = redirected_clause(trained, pushed, ends[run, split, RANDOM][1])
            right = ends[run, "ID", REFERENCE][0]["value"]
            tell({f"redirected, {run} {split}": if_learned(right, 0.1, clause)})


def tell_perfect(p: AlgorithmicReasoning, scores: pd.DataFrame) -> None:
    """Tell the published score of attention to the reference alone; for products, to the corrected one."""
    published = scores["as published"]
    tell(scores[scores["task"] == "long_addition"], "perfect: {task} {split}", of="as published")
    ours, theirs = (
        p.generator("long_multiplication", "id", plain=True, as_published=kind) for kind in (False, True)
    )
    right, labelled = (generator.batch(generator.samples(200)) for generator in (ours, theirs))
    assert right.reference is not None and labelled.reference is not None and labelled.evaluated is not None
    mass = stats.reference_mass(
        right.reference.float(), labelled.reference, labelled.evaluated, as_published=True
    )
    shifted = float(mass.nanmean())
    tell({"lowest": published.min(), "highest": published.max(), "shifted": shifted}, "perfect: {}")


# ---- Recorded numbers ----------------------------------------------------------------------------------


def tell_stored(small: StoredModel, heads: Sequence[Head]) -> None:
    """Tell how many symbols of longer strings a stored model predicts, with heads redirected or not."""
    longer = task("string_reversal", small.task.tokenizer, length=(11, 20), split="test")
    rows = reinforcement_rows(small.model, longer.in_batches(longer.samples(200)), heads, [0.0, 1.0])
    accuracy = stats.answer_accuracy(rows, ["onto", "strength"])
    accuracy = accuracy[accuracy["metric"].eq("accuracy") & accuracy["onto"].eq(REFERENCE)]
    tell_in_words(accuracy, "small, pushed by {strength:.0f}", "%")


def tell_false_alarms(alarms: Mapping[str, Estimate]) -> None:
    """Tell how often each test finds a difference where there is none."""
    tell({name: alarm.value for name, alarm in alarms.items()}, "false alarms: {}", "%")


def tell_recorded(came_with: pd.DataFrame) -> None:
    """Tell what recorded models do with longer strings, as "In one minute" says it, and in flip-flop."""
    rows = tables.shares_of_seeds(came_with)
    rows = rows[~tables.apart(rows)]
    over_seeds = stats.table_over_seeds(rows, ["kind", "metric"], share=True)
    asked = {
        REVERSAL: {"whole ID": WHOLE("ID"), "whole OOD": WHOLE("OOD")},
        f"{REVERSAL}, supervised": {
            "tokens, alone": ALONE("OOD"),
            "tokens, pushed": PUSHED("OOD"),
            "tokens, random": AT_RANDOM("OOD"),
        },
    }
    for kind, metrics in asked.items():
        tell_metrics(over_seeds, metrics, "minute {}", kind=kind)
    kept = rows.loc[rows["kind"].eq("flip flop") & rows["metric"].eq(WHOLE("OOD")), "value"]
    tell({"least": kept.min(), "most": kept.max()}, "flip flop kept, {}", "%")


def tell_exercises_on_lengths(came_with: pd.DataFrame) -> None:
    """Tell what the solutions quote: of reversal and flip-flop in other ranges, and of products."""
    rows = tables.shares_of_seeds(came_with)
    rows = rows[tables.apart(rows)]
    over_seeds = stats.table_over_seeds(rows, ["kind", "metric"], share=True)
    splits = {split: WHOLE(split) for split in SPLITS}
    asked = {
        REVERSAL: splits | {"tokens": ALONE("OOD"), "pushed": PUSHED("OOD")},
        f"{REVERSAL}, supervised": splits,
        "flip flop": splits | {"ten": "exact match, length 10"},
    }
    for kind, metrics in asked.items():
        tell_metrics(over_seeds, metrics, f"exercise {kind}, {{}}", kind=kind)
    of_models = rows[rows["kind"].eq(REVERSAL)].pivot_table("value", "seed", "metric")
    lowered = (of_models[PUSHED("OOD")] < of_models[ALONE("OOD")]).sum()
    tell({f"exercise {REVERSAL}, lowered": lowered})

    products = came_with[
        came_with["kind"].eq("long multiplication") & came_with["run"].str.contains(", seed ")
    ]
    for way, stages in {"recipe": "of 4 stages", "longer": "of 6 stages"}.items():
        trained = products[products["setting"].str.contains(stages)].sort_values("seed")
        inside, outside, three, one = (
            trained.loc[trained["metric"].eq(metric), "value"]
            for metric in (*splits.values(), "exact match, length 3", "exact match, length 1")
        )
        found = {
            way: ", ".join(f"{100 * share:.0f} %" for share in inside),
            f"{way}: said, OOD": most_clause(outside),
            f"{way}: least, three": three.min(),
            f"{way}: most, one": one.max(),
        }
        tell(found, "exercise products, {}", "%")


def tell_metrics(rows: pd.DataFrame, metrics: dict[str, str], name: str = "{}", **where: str) -> None:
    """Tell the shares of recorded metrics; each metric should have one row."""
    found = {short: one_number(rows, metric=metric, **where) for short, metric in metrics.items()}
    tell_in_words(found, name, "%")


# ---- Clauses -------------------------------------------------------------------------------------------


def solved_clause(inside: pd.Series, outside: pd.Series) -> str:
    """How many answers are right, in distribution and on longer inputs, as the end of a sentence."""
    least, most = (f"{100 * end:.0f} %" for end in (inside.min(), inside.max()))
    beside = " in any task but flip-flop" if "flip flop" in outside else ""
    return (
        f"between {least} and {most} of the answers are right at every token in distribution, depending on "
        f"the task; on longer inputs, {most_clause(outside.drop('flip flop', errors='ignore'))}{beside}"
    )


def redirected_clause(trained: pd.Series, pushed: pd.Series, at_random: pd.Series) -> str:
    """The effect of redirection, with the shares of right tokens, as the end of a sentence."""
    alone, onto_reference, control = (f"{100 * row['value']:.0f} %" for row in (trained, pushed, at_random))
    words = ("lowers accuracy", "does not change accuracy significantly", "raises accuracy")
    effect = side_clause(pushed, *words, bound=trained)
    return (
        f"redirecting {effect}: {alone} of the tokens are right as trained, "
        f"{onto_reference} with the reference, and {control} with random keys"
    )


def most_clause(shares: pd.Series) -> str:
    """The largest of some shares of answers, as the middle of a sentence."""
    if shares.empty:
        return "(not run)"
    most = f"{100 * shares.max():.0f}"
    return "no answer is right" if most == "0" else f"at most {most} % of the answers are right"


def places_clause(known: float, beyond: float) -> str:
    """Whether longer answers go wrong only where answers in training have ended, as the end of a sentence."""
    if np.isnan(known) or np.isnan(beyond):
        return "there are too few longer answers in this run"
    shares = f"{100 * known:.0f} % of the tokens are right at places that answers in training have, and "
    tied = (
        "what the model has learned is tied to places" if known > 2 * beyond else "the model fails everywhere"
    )
    return f"{shares}{100 * beyond:.0f} % at places beyond: {tied}"


def signs_clause(tests: pd.DataFrame, positive: str, negative: str) -> str:
    """Which runs differ significantly, by the sign of the difference: "lower in a and b"."""
    difference = pd.to_numeric(tests["difference"], errors="coerce")
    found = tests["differs"].eq("yes")
    cases = {
        positive: found & difference.gt(0),
        negative: found & difference.lt(0),
        "not significantly different": tests["differs"].eq("no"),
        "without enough data": ~tests["differs"].isin(["yes", "no"]),
    }
    said = [f"{words} in {in_a_row(tests['run'][case])}" for words, case in cases.items() if case.any()]
    return "; ".join(said) or "not compared"


def in_a_row(names: Iterable[str]) -> str:
    """Names as a list within a sentence: "a", "a and b", "a, b, and c"."""
    *first, last = [*names] or [""]
    return f"{', '.join(first)}{',' * (len(first) > 1)} and {last}" if first else last
