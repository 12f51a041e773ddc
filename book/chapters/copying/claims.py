"""What became of the claims of Snell et al. 2021 about copying."""

from __future__ import annotations

import pandas as pd

from book.chapters.findings.finding import Claim, Outcome, crux, number, one, points

STUDY_SIZE = "length 40; 20 seeds; hidden 256"
"""Of the settings of copying, the study's own."""

LONGER = "length 40; 10 seeds; hidden 256"
"""The same, trained on."""

PAGE_SIZE = "length 20; 10 seeds; hidden 64, batch 32, learning rate 0.003"
"""The chapter's own."""

HEADS_SIZE = "hidden 256, batch 128; learning rate 0.001; base 0"
"""Of the settings of heads, the study's own, with the base of which most were drawn."""

CHANCE = 0.5
"""The hint of a look that tells nothing."""


def copying_fails_without_hint(rows: pd.DataFrame) -> Outcome:
    """By the difference of the shares of seeds that learn within 200 steps, at the study's size.

    The claim holds if fewer learn permutations than sequences of 40 out of 60 symbols, its interval above 0,
    and some do not learn them at all.
    """
    study = rows[rows["setting"].str.startswith(STUDY_SIZE)]
    hard, easy = (
        one(study, metric="learned", budget=200, task=task) for task in ("permutations of 40", "40 of 60")
    )
    both_ways, two_more = (
        one(study, metric="learned", budget=200, task=task)
        for task in ("permutations of 40, both directions", "40 of 42")
    )
    apart = one(study, metric="learned, less permutations of 40", budget=200, task="40 of 60")
    longer = rows[rows["setting"].str.startswith(LONGER) & rows["metric"].eq("learned")]
    soon, late = (one(longer, task="permutations of 40", budget=budget) for budget in (200, 400))
    return Outcome(
        "holds" if apart.low > 0 and hard.count < hard.n else "not settled",
        f"Within 200 steps {hard.count:.0f} of {hard.n} models learn to copy permutations of 40 symbols, and "
        f"{easy.count:.0f} of {easy.n} to copy 40 out of 60: a difference of {points(apart)}.",
        f"It is later, not never: of {soon.n} models that were trained on, {soon.count:.0f} learn "
        f"permutations within 200 steps, {late.count:.0f} within 400. With an encoder that reads in both "
        f"directions, {both_ways.count:.0f} of {both_ways.n} do within 200; where two of 42 symbols are not "
        f"there, {two_more.count:.0f} of {two_more.n}.",
        crux("difference of models that learn, against none", apart, 0.0),
    )


def hint_is_missing(rows: pd.DataFrame) -> Outcome:
    """The claim holds if at step 20 the hint's interval is lower in permutations than in 40 out of 60.

    And in part if the one of permutations, too, is above chance.
    """
    hints = rows[rows["setting"].str.startswith(STUDY_SIZE) & rows["metric"].eq("hint (AUC)")]
    hard, easy = (one(hints, step=20, task=task) for task in ("permutations of 40", "40 of 60"))
    late = one(hints, step=200, task="permutations of 40")
    start = one(_of_the_page(rows), task="permutations of 20, after 20 steps of 20 of 30", budget=100)
    return Outcome(
        "not settled" if hard.high >= easy.low else "in part" if hard.low > CHANCE else "holds",
        f"At step 20, even attention tells the symbol to copy from another in {number(hard)} of the cases in "
        f"permutations, in {number(easy)} in 40 out of 60 (chance: {CHANCE:.2f}; n = {hard.n} each).",
        f"At step 200, in {late.value:.2f} in permutations, too. With 20 steps of the easy task as a start, "
        f"{start.count:.0f} of {start.n} small models learn permutations within 100 more.",
        crux("hint in permutations, against 40 out of 60", hard, easy.value),
    )


def luck_is_in_the_head(rows: pd.DataFrame) -> Outcome:
    """By the heads of the study's size: how often a second run is good, after a good first one and a bad one.

    The claim holds if the first share's interval is above that of the second, and the interval of the AUC
    with which attention before training tells good heads from others is above 0.5; in part, if one is.
    """
    heads = rows[rows["setting"].str.contains(HEADS_SIZE)]
    good, bad = (
        one(heads, metric=f"good, share of second runs after a {first} first") for first in ("good", "bad")
    )
    told = one(heads, metric="AUC of beyond place, good against not good")
    all_bad = one(heads, metric="bad, share of heads")
    several = one(heads, metric="learned, several heads")
    shown = [good.low > bad.high, told.low > CHANCE]
    return Outcome(
        "holds" if all(shown) else "in part" if any(shown) else "not settled",
        f"At the study's size, on one base, {good.count:.0f} of {good.n} second runs are good after a good "
        f"first one, and {bad.count:.0f} of {bad.n} after a bad one. There, a head's attention before "
        f"training tells good heads from all others with an AUC of {number(told)} (chance: {CHANCE:.2f}; n = "
        f"{told.n} heads).",
        f"Only {all_bad.count:.0f} of {all_bad.n} heads are bad in all their runs, so that models of bad "
        "heads, with one good one or none, could not be had; of models of eight heads that nobody graded, "
        f"{several.count:.0f} of {several.n} learn. In small models, that attention is not shown to tell.",
        crux("second runs that are good after a good first one, against after a bad one", good, bad.value),
    )


def _of_the_page(rows: pd.DataFrame) -> pd.DataFrame:
    """How many models learned at the chapter's own size, in single precision; what was run twice, once."""
    rows = rows[rows["setting"].str.startswith(PAGE_SIZE) & ~rows["setting"].str.contains("bf16")]
    return rows[rows["metric"] == "learned"].drop_duplicates(["task", "budget"])


CLAIMS = (
    Claim(
        "snell2021approximating",
        "Where every symbol is in every input, learning to copy frequently fails.",
        "sequence_copying",
        "Paper vs here",
        copying_fails_without_hint,
    ),
    Claim(
        "snell2021approximating",
        "Early in training, nothing hints there at where to look.",
        "sequence_copying",
        "Why: the hint",
        hint_is_missing,
    ),
    Claim(
        "snell2021approximating",
        "Whether a head learns is luck of its initial weights: a good head stays good.",
        "sequence_copying",
        "At the study's own size",
        luck_is_in_the_head,
    ),
)
