"""The claims of Spiegel et al. 2025."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import permutation_test, rankdata, spearmanr

from attnlib.stats.intervals import DRAWS, interval
from book.chapters.findings.finding import (
    INCONCLUSIVE,
    NOT_REPRODUCED,
    REPRODUCED,
    Claim,
    NotRunError,
    Number,
    Outcome,
    each_of,
    fraction,
    number,
    one,
    points,
    there,
)
from book.chapters.findings.rules import LEVEL, above, every, paired, some
from book.chapters.reasoning import few_columns, recipes, tables
from book.chapters.reasoning.attention_intervention import READ
from book.chapters.reasoning.tables import (
    HALF,
    LONGER,
    NO_LOSS,
    apart,
    extrapolation,
    kinds_judged,
    of_seeds,
    own_positions,
)

REVERSAL = "string reversal"
TAUGHT = f"{REVERSAL}, supervised"
ROTARY = f"{REVERSAL}, rotary positions"


def fails_on_longer(rows: pd.DataFrame) -> Outcome:
    """The loss of exact match from texts as long as in training to longer ones, paired by model."""
    rows = of_seeds(rows)
    rows = rows[~apart(rows) & ~rows["kind"].str.contains("supervised") & ~own_positions(rows)]
    exact = rows["metric"].str.extract("^teacher-forced exact match (ID|OOD)$")[0]
    lost = paired(there(rows[exact.eq("ID")]), rows[exact.eq("OOD")], ["kind"])
    cases = every(lost)
    least = cases.least
    none = lost["second"].eq(0).sum()
    listed = ", ".join(f"{row.kind} {100 * row.first:.0f} %" for row in each_of(lost))
    return Outcome(
        cases.verdict,
        f"Shown in {cases.shown} of {cases.n} tasks. Smallest loss of correct answers, {least.kind}",
        number(least, "models", 0, unit="points", signed=True),
        more=f"No longer text is answered rightly as a whole in {none} of {cases.n} tasks. In distribution: "
        f"{listed}.",
    )


def is_the_cause(models: str, kind: str, rows: pd.DataFrame) -> Outcome:
    """The accuracy that redirected attention regains in each kind of models, against half of the loss.

    The loss is treated as known exactly. The intervention is selected on other texts, but the same models.
    """
    found = kinds_judged(rows)
    found = found[found["verdict"].ne(NO_LOSS) & found["kind"].str.fullmatch(kind)]
    found = there(found[found["models"].str.fullmatch(models)])
    cases = every(found.assign(half=HALF * found["lost"]), "half")
    least = cases.least
    which = (
        "Accuracy" if cases.n == 1 else f"Shown in {cases.shown} of {cases.n} kinds. In the weakest, accuracy"
    )
    return Outcome(
        cases.verdict,
        f"{which} regained, of {100 * least.lost:.0f} points lost",
        number(least, "models", least.half, unit="points", signed=True),
        more=" ".join(f"{_named(row)}: {points(row)} of {100 * row.lost:.0f}." for row in each_of(found))
        + _rescued(found),
    )


def who_looks_is_right(rows: pd.DataFrame) -> Outcome:
    """The rank correlation of accuracy with attention on the reference, over kinds of models for reversal.

    The permutation test is exact and two-sided; the interval is a bootstrap over the models of each kind.
    """
    rows = rows[rows["setting"].str.contains("from scratch")]
    models = there(extrapolation(rows[rows["ranges"].eq(LONGER) & ~rows["supervised"].astype(bool)]))
    kinds = tables.by_kind(models)
    found = order_test(kinds)
    value, (low, high) = float(found.statistic), _models_again(models)
    shown = bool(found.pvalue < LEVEL)
    return Outcome(
        (REPRODUCED if value > 0 else NOT_REPRODUCED) if shown else INCONCLUSIVE,
        f"Rank correlation of accuracy with attention there (p = {found.pvalue:.3f})",
        Number(value, min(low, value), max(high, value), len(kinds), "kinds of model", 0),
        more="In the other tasks all kinds are about equally right, and cannot be asked: within all tasks "
        f"together it is {fraction(_within(rows))}.",
    )


def order_test(kinds: pd.DataFrame) -> Any:
    """The exact permutation test of the rank correlation of accuracy with attention, over kinds of models."""
    return permutation_test(
        (kinds["above uniform"],),
        partial(_spearman, kinds["accuracy"]),
        permutation_type="pairings",
        n_resamples=math.inf,
        vectorized=False,
    )


def steepest_column(rows: pd.DataFrame) -> Outcome:
    """The share of the loss that training the column with the largest gradient regains, against a half."""
    back = _came_back(rows)
    column, chance, whole, everything = (
        one(back, trained=way) for way in (recipes.STEEPEST, recipes.RANDOM, recipes.WHOLE, recipes.ALL)
    )
    return Outcome(
        above(column, HALF),
        "Share of the loss that it brings back",
        number(column, "models", HALF),
        more=f"A column at random brings back {fraction(chance)}, queries and keys as a whole "
        f"{fraction(whole)}, all weights {fraction(everything)}.",
    )


def any_column(rows: pd.DataFrame) -> Outcome:
    """The share of the loss that the best column regains, against a half.

    Only a test of all columns can show that none regains half of it.
    """
    back = _came_back(rows)
    numbered = back["trained"].str.extract(f"^{few_columns.COLUMN}$").astype(float)
    whole = bool(len(back) and numbered[0].nunique() == numbered[1].max())
    tried = (
        back[numbered[0].notna()] if whole else back[back["trained"].isin([recipes.STEEPEST, recipes.RANDOM])]
    )
    cases = some(tried, HALF, whole=whole)
    how_many = "" if whole else " (of more)"
    return Outcome(
        cases.verdict,
        f"Share of the loss regained by the best of {cases.n} columns{how_many}",
        number(cases.least, "models", HALF),
    )


ENOUGH = {
    REPRODUCED: "One column can be enough in these models.",
    NOT_REPRODUCED: "No column is enough in these models.",
    INCONCLUSIVE: "Whether one column is enough in these models is open.",
}
"""The sentence of the text for each verdict of `any_column`."""


def enough_clause(rows: pd.DataFrame) -> str:
    """The sentence of `ENOUGH` for the rows of records; without such rows, that it was not run."""
    try:
        return ENOUGH[any_column(rows).verdict]
    except NotRunError:
        return "Whether one column is enough was not run."


def _spearman(right: pd.Series, looks: Any) -> float:
    return float(spearmanr(looks, right).statistic)


def _models_again(models: pd.DataFrame) -> tuple[float, float]:
    """The bootstrap interval of the rank correlation over kinds, resampling the models of each kind."""
    rng = np.random.default_rng(0)
    parts = [
        part.to_numpy(float) for _, part in models.groupby("model", sort=False)[["above uniform", "accuracy"]]
    ]
    means = np.stack([part[rng.integers(0, len(part), (DRAWS, len(part)))].mean(1) for part in parts], axis=1)
    ranks = rankdata(means, axis=1)
    ranks = ranks - ranks.mean(1, keepdims=True)
    draws = (ranks[..., 0] * ranks[..., 1]).sum(1) / np.sqrt((ranks**2).sum(1).prod(-1))
    return interval(draws)


def _within(rows: pd.DataFrame) -> Any:
    return one(tables.correlations(extrapolation(rows)), attention="above uniform", over="within tasks")


def _came_back(rows: pd.DataFrame) -> pd.DataFrame:
    back = few_columns.came_back(there(rows[rows["metric"].str.startswith(few_columns.FURTHER)]))
    return there(back[back["kind"].eq(ROTARY) & back["metric"].eq("came back")])


def _named(row: Any) -> str:
    return f"{row.kind[:1].upper()}{row.kind[1:]}, {row.models}"


def _rescued(found: pd.DataFrame) -> str:
    if len(found) > 1:
        return ""
    row = found.iloc[0]
    return f" At least half comes back in {row['closed in']:.0f} of {row['seeds']:.0f} models."


CAUSE = "Does redirecting attention repair the failures?"
HALF_BACK = (
    "In every such kind of model that loses accuracy on longer texts, more than half of the loss comes back "
    "(mean over models) when attention is redirected in the way that is best on other texts."
)
LM = tables.FINE_TUNED

CLAIMS = (
    Claim(
        "spiegel2025attend",
        "longer texts",
        "In all six tasks, models are less accurate on texts that are longer than those in training.",
        "algorithmic_reasoning",
        "Accuracy on longer inputs",
        "In every task recorded with several seeds, fewer whole answers are right, model by model.",
        fails_on_longer,
    ),
    *(
        Claim(
            "spiegel2025attend",
            name,
            words,
            "attention_intervention",
            CAUSE,
            HALF_BACK,
            partial(is_the_cause, models, kind),
            of=READ,
        )
        for name, words, models, kind in (
            (
                "cause, reversal, language model",
                "A language model fine-tuned to reverse strings fails on longer ones because of where it "
                "attends.",
                LM,
                REVERSAL,
            ),
            (
                "cause, reversal, supervised head",
                "A small Llama with a supervised head fails on longer strings because of where it attends.",
                tables.LLAMA,
                TAUGHT,
            ),
            (
                "cause, reversal, Llama",
                "A small Llama without supervision fails on longer strings because of where it attends.",
                tables.LLAMA,
                REVERSAL,
            ),
            (
                "cause, reversal, positions",
                "The book's own transformers fail on longer strings because of where they attend, with any "
                "encoding of positions.",
                tables.OWN_BLOCKS,
                f"{REVERSAL}, .+",
            ),
            (
                "cause, successor",
                "Models that continue number sequences fail on longer ones because of where they attend.",
                ".*",
                "successor.*",
            ),
            (
                "cause, value assignment",
                "Models that look values up in a table fail on longer tables because of where they attend.",
                ".*",
                "value assignment.*",
            ),
            (
                "cause, addition",
                "Models that add fail on longer numbers because of where they attend.",
                ".*",
                "long addition.*",
            ),
            (
                "cause, multiplication",
                "Models that multiply fail on longer numbers because of where they attend.",
                ".*",
                "long multiplication.*",
            ),
        )
    ),
    Claim(
        "spiegel2025attend",
        "who looks is right",
        "In reversal, kinds of models that attend more to the right "
        "symbols are more accurate on longer strings.",
        "attention_intervention",
        "Do models that attend to the reference generalize better?",
        "The rank correlation over kinds of model is above 0, by an exact test of all orders.",
        who_looks_is_right,
        of=READ,
    ),
    Claim(
        "spiegel2025attend",
        "one column, the steepest",
        "Training only the query-key column with the steepest "
        "gradient regains half of the accuracy lost on longer reversals.",
        "attention_intervention",
        "Is it enough to train one column?",
        "In models with rotary positions, more than half, over seeds.",
        steepest_column,
        of=READ,
    ),
    Claim(
        "spiegel2025attend",
        "one column, any",
        "Training one column of queries and keys can be enough to reverse longer strings.",
        "attention_intervention",
        "Is it enough to train one column?",
        "In models with rotary positions some column brings back more than half, corrected for all columns; "
        "or all are recorded, and each brings back less.",
        any_column,
        of=READ,
    ),
)
