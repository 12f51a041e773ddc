"""What became of the claims of Snell et al. 2021 about classification."""

from __future__ import annotations

import pandas as pd

from attnlib.stats import Estimate
from book.chapters.findings.finding import Answer, Claim, Outcome, crux, how_many, one, percent, some
from book.chapters.records import paper_verdicts

TABLE = "Approximating How Single Head Attention Learns Table 1"
PREDICTED, CHANCE = "A(alpha, beta_uf)", "A_hat"

FIRST = 50
"""The checkpoint, after so many steps, that all data sets have in common."""

PREDICTS = "What a model that cannot attend finds relevant predicts where attention goes"


def relevance_predicts(table: str, units: str) -> Answer:
    """The rule for classification, or for translation.

    Args:
        table: of the paper's figures.
        units: what the shares are of.
    """

    def answer(rows: pd.DataFrame) -> Outcome:
        """By the chapter's verdicts: above chance, and against the authors' figure where there is one.

        The claim holds if on all data sets the interval is above chance and not below the authors' figure,
        in part if it is above chance on some.
        """
        rows = _reported(rows)
        verdicts = some(paper_verdicts(rows, table, PREDICTED, CHANCE))
        above, lower = (verdicts["verdict"].str.contains(word) for word in ("above chance", "lower than"))
        verdict = how_many(above)
        if verdict == "holds" and lower.any():
            verdict = "in part"
        shares, chance = (rows[rows["metric"] == name] for name in (PREDICTED, CHANCE))
        least = one(shares.nsmallest(1, "value"))
        by_chance = one(chance, task=least.task)
        compared = [row for row in verdicts.itertuples() if row.paper != "not found"]
        theirs = "; ".join(
            f"{row.task} {percent(one(shares, task=row.task))}, the authors {float(str(row.paper)):.0f} %"
            for row in compared
        )
        return Outcome(
            verdict,
            f"The most attended word is in its top 5 % in {_range(shares)} of the {units} of {len(shares)} "
            f"data sets, by chance in {_range(chance)}. {theirs} (n from {shares['n'].min():,}).",
            crux=crux(f"{units} in {least.task}, the fewest, against chance", least, by_chance.value),
        )

    return answer


def relevance_comes_first(rows: pd.DataFrame) -> Outcome:
    """A data set shows it if, after `FIRST` steps, the intervals of the two agreements do not touch.

    The agreements are of the model's own relevance with the even model's, and of its attention with that;
    the first has to be the higher one. The claim holds if all data sets show it, in part if some do.
    """
    rows = _reported(rows)
    relevance, attention = (
        rows[rows["metric"] == f"step {FIRST}: A({name}_t, beta_uf)"] for name in ("beta", "alpha")
    )
    both = some(relevance.merge(attention, on="task", suffixes=("", "_attention")))
    first = both["low"] > both["high_attention"]
    least = one(both.loc[[(both["value"] - both["value_attention"]).idxmin()]])
    imdb = one(both, task="IMDB")
    looked = Estimate(*(getattr(imdb, f"{name}_attention") for name in Estimate._fields))
    return Outcome(
        how_many(first),
        f"After {FIRST} steps relevance is ahead of attention on {first.sum()} of {len(both)} data sets; "
        f"IMDB: {percent(imdb)} of the documents, attention {percent(looked)}, n = {imdb.n:,}.",
        "Ahead: the intervals of their agreement with the relevance under even attention do not touch.",
        crux(f"relevance in {least.task}, against attention", least, least.value_attention),
    )


def _reported(rows: pd.DataFrame) -> pd.DataFrame:
    """Agreements on test samples that chose nothing; a set trained again in bf16 counts once."""
    if "accuracy" in rows:
        rows = rows[rows["accuracy"] == "tokens"]
    rows = rows.query("measure == 'top match' and split == 'test' and checkpoints == 'held out'")
    rows = rows[rows["interval"].isin(["documents", "sentences"])]
    again = rows["setting"].str.contains("bf16") & rows.groupby("task")["record"].transform("nunique").gt(1)
    return rows[~again]


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
