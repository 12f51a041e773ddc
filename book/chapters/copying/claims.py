"""The claims of Snell et al. 2021 about copying."""

from __future__ import annotations

import pandas as pd
from statsmodels.stats.proportion import confint_proportions_2indep

from book.chapters.copying.tables import AT_SIZE, SECOND, SIZE, of_bases
from book.chapters.findings.finding import Claim, Outcome, each_of, fraction, number, one, there
from book.chapters.findings.rules import above, every, within
from book.chapters.records import paper_figures

STUDY_SIZE = "length 40; 20 seeds; hidden 256"
"""How the setting of records at the study's own size begins."""

LONGER = "length 40; 10 seeds; hidden 256"
"""How the setting of longer training begins: ten of the same seeds, which are not counted twice."""

PAGE_SIZE = "length 20; 10 seeds; hidden 64, batch 32, learning rate 0.003"
"""The setting of the chapter's own, smaller models."""

HARD, EASY = "permutations of 40", "40 of 60"

TABLE = "Sequence copying, seeds that learn within 200 steps"
"""The name of the study's figure in `paper_figures`."""

SOON, LATE = 200, 400
"""Training steps in the study, and in longer training."""

CHANCE = 0.5
"""The KTIW signal by chance."""

MARGIN = 0.05
"""A signal within this distance of chance counts as none."""

HALF = 0.5
""""Cannot learn" means that more than this share of the models fails."""

TELLS = "AUC of beyond place, good against not good"


def fewer_learn_permutations(rows: pd.DataFrame) -> Outcome:
    """The difference of the shares of seeds that learn within 200 steps, at the paper's size."""
    study = rows[rows["setting"].str.startswith(STUDY_SIZE)]
    hard, easy, both_ways, two_more = (
        one(study, metric="learned", budget=SOON, task=task)
        for task in (HARD, EASY, f"{HARD}, both directions", "40 of 42")
    )
    apart = one(study, metric=f"learned, less {HARD}", budget=SOON, task=EASY)
    theirs = paper_figures().query("table == @TABLE").set_index("task")["value"]
    return Outcome(
        above(apart),
        f"{hard.count:.0f} of {hard.n} models learn permutations, {easy.count:.0f} of {easy.n} the others; "
        "difference",
        number(apart, "models", 0, unit="points", signed=True),
        more=f"With an encoder that reads in both directions, {both_ways.count:.0f} of {both_ways.n} learn "
        f"permutations; where two of 42 symbols are not there, {two_more.count:.0f} of {two_more.n}.",
        paper=f"{theirs[EASY] - theirs[HARD]:+.0f} points (read off a figure)",
    )


def none_learns_permutations(rows: pd.DataFrame) -> Outcome:
    """The share of models that do not learn permutations, trained for twice as long, against a half."""
    longer = rows[rows["setting"].str.startswith(LONGER) & rows["metric"].eq("learned")]
    soon, late = (one(longer, task=HARD, budget=budget) for budget in (SOON, LATE))
    fail = late._replace(value=1 - late.value, low=1 - late.high, high=1 - late.low)
    return Outcome(
        above(fail, HALF),
        f"Share of models that still fail at step {LATE}",
        number(fail, "models", HALF, unit="%"),
        more=f"By step {SOON}, {soon.count:.0f} of {soon.n} have learned them, by step {LATE} "
        f"{late.count:.0f}.",
    )


def no_ktiw_signal(rows: pd.DataFrame) -> Outcome:
    """The KTIW signal at step 20 in permutations, at the paper's size, against chance."""
    hints = rows[rows["setting"].str.startswith(STUDY_SIZE) & rows["metric"].eq("hint (AUC)")]
    hard, easy = (one(hints, step=20, task=task) for task in (HARD, EASY))
    late = one(hints, step=SOON, task=HARD)
    start = rows[rows["setting"].str.startswith(PAGE_SIZE) & ~rows["setting"].str.contains("bf16")]
    start = start[
        start["metric"].eq("learned") & start["task"].eq("permutations of 20, after 20 steps of 20 of 30")
    ]
    started = start[start["budget"].eq(100)].drop_duplicates("task")
    return Outcome(
        within(hard, CHANCE, MARGIN),
        f"KTIW signal at step 20 (by chance {CHANCE:.2f})",
        number(hard, "models", CHANCE + MARGIN),
        more=f"In {EASY} it is {fraction(easy)}; at step {SOON}, {late.value:.2f} in permutations, too."
        + "".join(
            f" With 20 steps of an easy task as a start, {row.count:.0f} of {row.n} small models learn "
            "permutations within 100 more."
            for row in each_of(started)
        ),
    )


def good_heads_stay_good(rows: pd.DataFrame) -> Outcome:
    """How much more often second runs are good after a good first one than after a bad one, on every base."""
    found = _of_bases(rows)
    good, bad = (
        found[found["asked"].eq(AT_SIZE[SECOND.format(first)])].set_index("base") for first in ("good", "bad")
    )
    both = there(good.join(bad.add_suffix("_bad"), how="inner").reset_index())
    counts = [
        (round(row.value * row.n), row.n, round(row.value_bad * row.n_bad), row.n_bad)
        for row in each_of(both)
    ]
    ends = [confint_proportions_2indep(*each, method="newcomb", compare="diff") for each in counts]
    apart = both.assign(
        value=both["value"] - both["value_bad"],
        low=[low for low, _ in ends],
        high=[high for _, high in ends],
        n=both["n"] + both["n_bad"],
    )
    cases = every(apart, seeds=False)
    told = ", ".join(f"{a} of {n} and {b} of {m}" for a, n, b, m in counts)
    return Outcome(
        cases.verdict,
        f"Shown on {cases.shown} of {cases.n} bases. Smaller difference between good and bad heads",
        number(cases.least, "runs", 0, unit="points", signed=True),
        more=f"Second runs that are good after a good first one, and after a bad one, base by base: {told}.",
    )


def attention_predicts_good_heads(rows: pd.DataFrame) -> Outcome:
    """The AUC with which a head's attention before training tells good heads from others, on every base."""
    found = _of_bases(rows)
    told = there(found[found["asked"].eq(AT_SIZE[TELLS])])
    small = of_bases(rows, asked={TELLS: TELLS}).dropna(subset="value")
    cases = every(pd.concat([told, small], ignore_index=True), CHANCE, seeds=False)
    at_size = every(told, CHANCE, seeds=False)
    several = rows[
        rows["metric"].eq("learned, several heads") & rows["setting"].str.contains(f"hidden {SIZE}")
    ]
    learned = f"{several['count'].sum():.0f} of {several['n'].sum():.0f}"
    return Outcome(
        cases.verdict,
        f"Shown on {cases.shown} of {cases.n} bases. Less certain AUC (by chance {CHANCE:.2f})",
        number(cases.least, "heads", CHANCE),
        more="By attention on the symbol to copy, less what it gets anyway: one measure of seven, found in "
        f"small models. At the paper's size it is shown on {at_size.shown} of {at_size.n} bases. Of models "
        f"of eight heads that nobody graded, {learned} learn.",
    )


def _of_bases(rows: pd.DataFrame) -> pd.DataFrame:
    return there(of_bases(rows, SIZE, AT_SIZE))


CLAIMS = tuple(
    Claim("snell2021approximating", name, words, "sequence_copying", section, rule, answer)
    for name, words, section, rule, answer in (
        (
            "copying, fewer learn",
            "If every symbol is in every input, fewer models learn to copy within 200 steps than otherwise.",
            "Do models fail to learn permutations?",
            "At the paper's size, fewer seeds learn permutations of 40 symbols than sequences of 40 out of "
            "60.",
            fewer_learn_permutations,
        ),
        (
            "copying, none learns",
            "If every symbol is in every input, models cannot learn to copy.",
            "Do models fail to learn permutations?",
            f"At the paper's size, more than half of the models have not learned it by step {LATE}.",
            none_learns_permutations,
        ),
        (
            "copying, the hint",
            "If every symbol is in every input, models early in training "
            "have no knowledge to translate individual words (KTIW).",
            "Is KTIW what permutations lack?",
            f"At step 20 the KTIW signal, an AUC under uniform attention, is at chance within {MARGIN:g}.",
            no_ktiw_signal,
        ),
        (
            "heads, a good one stays good",
            "A head that learned to copy once does so again with new data, and a head that failed does not.",
            "What makes a head good?",
            "At the paper's size, on every base: second runs are good more often after a good first one "
            "than after a bad one.",
            good_heads_stay_good,
        ),
        (
            "heads, told before training",
            "A head's attention before training predicts whether it will learn to copy.",
            "What makes a head good?",
            "On every base, at the paper's size and at the reduced one: it separates good heads from all "
            "others better than chance.",
            attention_predicts_good_heads,
        ),
    )
)
