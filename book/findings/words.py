"""What became of the claims of Snell et al. 2021: classification, translation, copying."""

from __future__ import annotations

import pandas as pd

from attnlib.records import paper_verdicts
from attnlib.stats import Estimate

from .finding import Answer, Claim, Outcome, how_many, number, one, percent, points, some

TABLE = "Approximating How Single Head Attention Learns Table 1"
PREDICTED, CHANCE = "A(alpha, beta_uf)", "A_hat"

STUDY_SIZE = "length 40; 20 seeds; hidden 256"
"""Of the settings of copying, the study's own."""

LONGER = "length 40; 10 seeds; hidden 256"
"""The same, trained on."""

PAGE_SIZE = "length 20; 10 seeds; hidden 64, batch 32, learning rate 0.003"
"""The chapter's own."""

FIRST = 50
"""The checkpoint, after so many steps, that all data sets have in common."""


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
        compared = [row for row in verdicts.itertuples() if row.paper != "not found"]
        theirs = "; ".join(
            f"{row.task} {percent(one(shares, task=row.task))}, the authors {float(str(row.paper)):.0f} %"
            for row in compared
        )
        return Outcome(
            verdict,
            f"The most attended word is in its top 5 % in {_range(shares)} of the {units} of {len(shares)} "
            f"data sets, by chance in {_range(chance)}. {theirs} (n from {shares['n'].min():,}).",
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
    imdb = one(both, task="IMDB")
    looked = Estimate(*(getattr(imdb, f"{name}_attention") for name in Estimate._fields))
    return Outcome(
        how_many(first),
        f"After {FIRST} steps relevance is ahead of attention on {first.sum()} of {len(both)} data sets; "
        f"IMDB: {percent(imdb)} of the documents, attention {percent(looked)}, n = {imdb.n:,}.",
        "Ahead: the intervals of their agreement with the relevance under even attention do not touch.",
    )


def copying_fails_without_hint(rows: pd.DataFrame) -> Outcome:
    """By the difference of the shares of seeds that learn within 200 steps, at the study's size.

    The claim holds if fewer learn permutations than sequences of 40 out of 60 symbols, its interval above 0,
    and some do not learn them at all.
    """
    study = rows[rows["setting"].str.startswith(STUDY_SIZE)]
    hard, easy = (
        one(study, metric="learned", budget=200, task=task) for task in ("permutations of 40", "40 of 60")
    )
    apart = one(study, metric="learned, less permutations of 40", budget=200, task="40 of 60")
    longer = rows[rows["setting"].str.startswith(LONGER) & rows["metric"].eq("learned")]
    soon, late = (one(longer, task="permutations of 40", budget=budget) for budget in (200, 400))
    return Outcome(
        "holds" if apart.low > 0 and hard.count < hard.n else "not settled",
        f"Within 200 steps {hard.count:.0f} of {hard.n} models learn to copy permutations of 40 symbols, and "
        f"{easy.count:.0f} of {easy.n} to copy 40 out of 60: a difference of {points(apart)}.",
        f"It is later, not never: of {soon.n} models that were trained on, {soon.count:.0f} learn "
        f"permutations within 200 steps, {late.count:.0f} within 400.",
    )


def hint_is_missing(rows: pd.DataFrame) -> Outcome:
    """The claim holds if at step 20 the hint's interval is lower in permutations than in 40 out of 60."""
    hints = rows[rows["setting"].str.startswith(STUDY_SIZE) & rows["metric"].eq("hint (AUC)")]
    hard, easy = (one(hints, step=20, task=task) for task in ("permutations of 40", "40 of 60"))
    late = one(hints, step=200, task="permutations of 40")
    start = one(_of_the_page(rows), task="permutations of 20, after 20 steps of 20 of 30", budget=100)
    return Outcome(
        "holds" if hard.high < easy.low else "not settled",
        f"At step 20, even attention tells the symbol to copy from another in {number(hard)} of the cases in "
        f"permutations, in {number(easy)} in 40 out of 60 (chance: 0.50; n = {hard.n} each).",
        f"At step 200, in {late.value:.2f} in permutations, too. With 20 steps of the "
        f"easy task as a start, {start.count:.0f} of {start.n} small models learn permutations within 100.",
    )


def _of_the_page(rows: pd.DataFrame) -> pd.DataFrame:
    """How many models learned at the chapter's own size, in single precision; what was run twice, once."""
    rows = rows[rows["setting"].str.startswith(PAGE_SIZE) & ~rows["setting"].str.contains("bf16")]
    return rows[rows["metric"] == "learned"].drop_duplicates(["task", "budget"])


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


_PREDICTS = "What a model that cannot attend finds relevant predicts where attention goes"

CLAIMS = (
    Claim(
        "snell2021approximating",
        f"{_PREDICTS}, in classification.",
        "classification_dynamics",
        "Paper vs here",
        relevance_predicts(TABLE, "documents"),
    ),
    Claim(
        "snell2021approximating",
        f"{_PREDICTS}, in translation.",
        "translation_dynamics",
        "Paper vs here",
        relevance_predicts(f"{TABLE}, translation", "target tokens"),
    ),
    Claim(
        "snell2021approximating",
        "Models learn what words say first, and then where to look.",
        "classification_dynamics",
        "Which comes first",
        relevance_comes_first,
    ),
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
)
