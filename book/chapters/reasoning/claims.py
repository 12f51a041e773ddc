"""What became of the claims of Spiegel et al. 2025, and of Attention Lens."""

from __future__ import annotations

from typing import Any

import pandas as pd

from attnlib.stats import table_over_seeds, with_interval
from book.chapters.findings.finding import (
    Claim,
    Outcome,
    against,
    crux,
    number,
    of_largest,
    one,
    percent,
    points,
    shown_in,
    some,
)
from book.chapters.reasoning import few_columns
from book.chapters.reasoning.looking_decides import READ
from book.chapters.reasoning.tables import correlations, extrapolation, over_seeds
from book.chapters.reasoning.verdicts import (
    CAUSE,
    HALF,
    NO_LOSS,
    PART,
    SOLVED,
    apart,
    of_seeds,
    own_positions,
    verdict_tables,
)


def attention_causes_failure(rows: pd.DataFrame) -> Outcome:
    """A kind's verdict is the chapter's: does pushing attention onto the reference bring back what was lost?

    Judged are kinds of model (of a task, supervised or not) with several seeds and a loss, on longer texts
    than in training, that have the positions of a Llama; those with others, and a language model that was
    fine-tuned, are told apart. The claim holds if attention is the cause in all, which each has to show
    without a correction for the others; in part if it is the cause or a part of it in some, which is
    corrected; and does not if in none half of the loss may come back by the upper end of its interval.
    Otherwise it is not settled: a push that does not help may have been the wrong one.
    """
    found, other = verdict_tables(rows)
    found = some(found[~apart(found) & found["verdict"].ne(NO_LOSS)])
    other = other[other["kind"].str.startswith("string reversal")]
    cause, part = (found["verdict"].eq(each) for each in (CAUSE, PART))
    tasks = found["kind"].str.removesuffix(", supervised")
    alone, back = found["low"] > 0, found["closed"] >= HALF
    none = (found["high"] < HALF * found["lost"]).all()
    verdict = "holds" if (alone & back).all() else "in part" if (cause | part).any() else "not settled"
    taught, untaught, addition = (
        one(found, kind=kind) for kind in ("string reversal, supervised", "string reversal", "long addition")
    )
    solve = other[other["ID"] >= SOLVED]
    return Outcome(
        "does not" if none else verdict,
        f"Pushed there, attention takes longer reversals from {_risen(taught)} of tokens right where a head "
        f"was taught to look there ({points(taught)}, {taught.seeds} seeds), and sums from "
        f"{_risen(addition)} ({points(addition)}).",
        f"Of {len(found)} kinds of model with a loss, in {tasks.nunique()} tasks, attention is shown to be "
        f"the cause in {cause.sum()} and a part of it in {part.sum()}, corrected for all by Holm's method "
        f"(not corrected, in {(alone & back).sum()} and {(alone & ~back).sum()}). Reversal that was "
        f"not taught depends on the seed: {points(untaught)}; in our own Transformer attention is the cause "
        f"with {solve['verdict'].eq(CAUSE).sum()} of the {len(solve)} kinds of positions with which it is "
        f"right in distribution ({solve['seeds'].min():.0f} seeds each)."
        f"{_of_a_language_model(rows)}",
        crux("gain by the push in sums, against none", addition, 0.0),
    )


def fails_on_longer(rows: pd.DataFrame) -> Outcome:
    """A task fails if the intervals of whole answers right do not touch, those of longer texts lower.

    The claim holds if all do that are recorded with several seeds, in part if some.
    """
    rows = of_seeds(rows)
    supervised = rows["kind"].str.contains("supervised")
    rows = rows[~apart(rows) & ~supervised & ~own_positions(rows)]
    rows = rows[rows["metric"].str.fullmatch("teacher-forced exact match (ID|OOD)")]
    right = table_over_seeds(some(rows), ["kind", "metric"], share=True)
    inside, outside = (
        right[right["metric"].str.endswith(f" {split}")].set_index("kind") for split in ("ID", "OOD")
    )
    fails = outside["high"].reindex(inside.index) < inside["low"]
    none = outside["value"] == 0
    most = one(outside.reset_index(), kind=outside["value"].idxmax())
    listed = ", ".join(f"{kind} {100 * value:.0f} %" for kind, value in inside["value"].items())
    return Outcome(
        shown_in(fails),
        f"No longer text is answered rightly as a whole in {none.sum()} of {len(outside)} tasks; {most.kind} "
        f"goes on, {percent(most)} ({most.n} seeds each).",
        f"In distribution: {listed}.",
        crux(f"longer texts right in {most.kind}, against as in training", most, inside["value"][most.kind]),
    )


def one_column_is_enough(rows: pd.DataFrame) -> Outcome:
    """With rotary positions: how much of the loss the steepest column of queries and keys brings back.

    By its interval over seeds the claim holds from a half up, does not below, and is not settled if that
    holds a half. Of reversal: longer sums are not learned in so many steps with all weights either.
    """
    back = few_columns.came_back(rows)
    back = some(back[back["kind"].eq("string reversal, rotary positions") & back["metric"].eq("came back")])
    column, chance, whole, everything = (
        one(back, trained=way)
        for way in (few_columns.STEEPEST, few_columns.RANDOM, few_columns.WHOLE, few_columns.ALL)
    )
    return Outcome(
        against(column.low - HALF, column.high - HALF),
        f"Of what longer reversals lose, a share of {number(column)} comes back by one column "
        f"(n = {column.n} models with rotary positions).",
        f"By a column at random {number(chance)}, by queries and keys as a whole {number(whole)}, by all "
        f"weights {number(everything)}.",
        crux("share of the loss that comes back by one column, against a half", column, HALF),
    )


def looking_goes_with_being_right(rows: pd.DataFrame) -> Outcome:
    """By the rank correlation, within tasks, of rollout on the reference (above even attention), over kinds.

    A kind of model is the mean of its seeds, which are alike: drawn one by one they make an interval that
    leaves out 0 in one of six cases in which kinds have been exchanged at random.
    "The ones" takes more than a tendency: the claim holds if its interval is above 0.5, in part if it is
    above 0, and does not if it is below. A language model that was fine-tuned is left out.
    """
    rows = rows[~rows["setting"].str.contains("fine-tuned")]
    here = rows[rows["setting"].str.contains("from scratch")]
    found = correlations(extrapolation(here))
    within, over_all = (
        one(found, attention="above uniform", over=over) for over in ("within tasks", "all models")
    )
    others = here[here["task"] != "string_reversal"]
    rest, also = (
        one(correlations(extrapolation(some)), attention="above uniform", over="within tasks")
        for some in (others, rows)
    )
    longer = one(
        correlations(extrapolation(here[here["ranges"].eq("length 1-10; OOD length 11-20")])),
        attention="above uniform",
        over="string_reversal",
    )
    verdict = against(within.low, within.high)
    return Outcome(
        "in part" if verdict == "holds" and within.low <= 0.5 else verdict,
        f"Out of distribution, the rank correlation of accuracy with attention on the reference is "
        f"{number(within)} within tasks (n = {within.n} kinds of model trained here).",
        f"Between tasks as well: {number(over_all)}. Without reversal {number(rest)}; with a language model "
        f"that learned none of the tasks {number(also)}, both within tasks. Of {longer.n} kinds that reverse "
        f"longer strings it is {longer.value:.2f}.",
        crux("rank correlation within tasks, against 0.5", within, 0.5),
    )


def layers_divide_the_work(rows: pd.DataFrame) -> Outcome:
    """Each part is a difference of attention's shares between layers, by its interval over seeds.

    The claim holds if all are above 0, in part if some are, and does not if all are below; else it is
    not settled. Of several records one counts: see `of_largest`.
    """
    rows = of_largest(rows, metric="claim: early layers look local")
    parts = some(rows[rows["metric"].str.startswith("claim: ")])
    above, below = parts["low"] > 0, parts["high"] < 0
    exact = rows[rows["run"].str.fullmatch(r"addition, seed \d+") & rows["metric"].eq("exact match")]["value"]
    said = parts["metric"].str.removeprefix("claim: ")
    listed = ", ".join(
        f"{part} {with_interval(row, signed=True)}"
        for part, row in zip(said, parts.itertuples(), strict=True)
    )
    return Outcome(
        "does not" if below.all() else shown_in(above),
        f"Of the {len(parts)} parts, shown: {above.sum()}; the other way round: {below.sum()} (of "
        f"{parts['n'].iloc[0]:.0f} models that add {100 * exact.min():.1f} to {100 * exact.max():.1f} % of "
        f"unseen sums). Differences: {listed}.",
        crux=crux("least difference between layers, against none", one(parts.nsmallest(1, "value")), 0.0),
    )


def _of_a_language_model(rows: pd.DataFrame) -> str:
    """What the push does to the reversals of the last one that was fine-tuned; nothing where none is."""
    tuned = rows[rows["setting"].str.contains("fine-tuned") & rows["task"].eq("string_reversal")]
    if tuned.empty:
        return ""
    tuned = over_seeds(tuned[tuned["record"].eq(tuned["record"].iloc[-1])], ["metric"])
    alone, pushed = (
        one(tuned, metric=f"accuracy OOD, strength {strength} onto the reference") for strength in (0, 1)
    )
    return (
        f" A fine-tuned language model goes from {percent(alone)} of the tokens of strings of 10 to 50 "
        f"letters to {percent(pushed)} (n = {pushed.n} {pushed.of})."
    )


def _risen(row: Any) -> str:
    return f"{100 * row.OOD:.0f} to {100 * row.changed:.0f} %"


CLAIMS = (
    Claim(
        "spiegel2025attend",
        "Models that solve a task fail on longer inputs than they were trained on.",
        "algorithmic_reasoning",
        "In and out of distribution",
        fails_on_longer,
    ),
    Claim(
        "spiegel2025attend",
        "They fail there because attention is not where the algorithm looks.",
        "looking_decides",
        "A verdict for every task",
        attention_causes_failure,
        of=READ,
    ),
    Claim(
        "spiegel2025attend",
        "Models that look where the algorithm looks are the ones that get it right.",
        "looking_decides",
        "Does looking at the reference tell who extrapolates?",
        looking_goes_with_being_right,
        of=READ,
    ),
    Claim(
        "spiegel2025attend",
        "Trained further on longer texts, one column of queries and keys is enough for their lengths.",
        "looking_decides",
        "Is one column enough?",
        one_column_is_enough,
        of=READ,
    ),
    Claim(
        "lens",
        "Early layers look local, middle layers find the operator, late layers combine.",
        "arithmetic_lens",
        "What an answer's digits look at",
        layers_divide_the_work,
    ),
)
