"""What became of the claims of Snell et al. 2021 about classification."""

from __future__ import annotations

import pandas as pd

from attnlib.stats import Estimate
from book.chapters.classification.recorded import (
    CHANCE,
    FIRST,
    PREDICTED,
    over_models,
    which_comes_first,
)
from book.chapters.findings.finding import Answer, Claim, Outcome, crux, one, percent, shown_in, some
from book.chapters.records import counted, paper_verdicts

TABLE = "Approximating How Single Head Attention Learns Table 1"

PREDICTS = "What a model that cannot attend finds relevant predicts where attention goes"


def relevance_predicts(table: str, units: str) -> Answer:
    """The rule for classification, or for translation.

    Args:
        table: of the paper's figures.
        units: what the shares are of.
    """

    def answer(rows: pd.DataFrame) -> Outcome:
        """By the chapter's verdicts: above chance, and against the authors' figure where there is one.

        Intervals are over models that differ by their seed. The claim holds if on all data sets it is above
        chance and not below the authors' figure, in part if it is above chance on some; else it is not
        settled.
        """
        rows = over_models(rows)
        verdicts = some(paper_verdicts(rows, table, PREDICTED, CHANCE))
        above, lower = (verdicts["verdict"].str.contains(word) for word in ("above chance", "lower than"))
        verdict = shown_in(above)
        if verdict == "holds" and lower.any():
            verdict = "in part"
        shares, chance = (rows[rows["metric"] == name] for name in (PREDICTED, CHANCE))
        least = one(shares.nsmallest(1, "value"))
        by_chance = one(chance, task=least.task)
        compared = [row for row in verdicts.itertuples() if row.original != "not found"]
        theirs = "; ".join(
            f"{row.task} {percent(one(shares, task=row.task))}, the authors {float(str(row.original)):.0f} %"
            for row in compared
        )
        return Outcome(
            verdict,
            f"The most attended word is in its top 5 % in {_range(shares)} of the {units} of {len(shares)} "
            f"data sets, by chance in {_range(chance)}; more than by chance is shown in {above.sum()} of "
            f"them. {theirs} (intervals over n = {counted(shares['n'])} models).",
            crux=crux(f"{units} in {least.task}, the fewest, against chance", least, by_chance.value),
        )

    return answer


def relevance_comes_first(rows: pd.DataFrame) -> Outcome:
    """A data set shows it if relevance is ahead after `FIRST` steps, and has half of its rise sooner.

    Compared are the agreements of the model's own relevance with the even model's, and of its attention with
    that. Two curves that end at different heights can be apart at every step, so that being ahead does not
    tell what came first. Intervals are over documents of one model; which checkpoint is the earlier has none.
    The claim holds if all data sets show it, in part if some do; else it is not settled.
    """
    both = some(which_comes_first(rows))
    shown = both["ahead"] & both["sooner"]
    least = one(both.loc[[(both["value"] - both["value_attention"]).idxmin()]])
    imdb = one(both, task="IMDB")
    looked = Estimate(*(getattr(imdb, f"{name}_attention") for name in Estimate._fields))
    named = f" ({', '.join(both.loc[shown, 'task'])})" if shown.any() else ""
    return Outcome(
        shown_in(shown),
        f"After {FIRST} steps relevance is ahead of attention on {both['ahead'].sum()} of {len(both)} data "
        f"sets, one model each, and on {shown.sum()} of these{named} it has half of its own rise at an "
        "earlier checkpoint, which has no interval.",
        f"On IMDB it then agrees with the relevance under even attention in {percent(imdb)} of the "
        f"documents, attention in {percent(looked)}, n = {imdb.n:,}. Ahead: the intervals do not touch.",
        crux(f"relevance in {least.task}, against attention", least, least.value_attention),
    )


def _range(rows: pd.DataFrame) -> str:
    return f"{100 * some(rows)['value'].min():.0f} to {100 * rows['value'].max():.0f} %"


CLAIMS = (
    Claim(
        "snell2021approximating",
        f"{PREDICTS}, in classification.",
        "classification_dynamics",
        "Paper vs here",
        relevance_predicts(TABLE, "documents"),
    ),
    Claim(
        "snell2021approximating",
        "Models learn what words say first, and then where to look.",
        "classification_dynamics",
        "Which comes first",
        relevance_comes_first,
    ),
)
