"""What became of the claims of Weiss, Goldberg and Yahav 2021."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from attnlib.generators.rasp import LANGUAGES
from attnlib.stats import corrected, p_over_seeds, table_over_seeds
from book.chapters.findings.finding import Claim, Outcome, crux, number, one, percent, shown_in, some
from book.chapters.rasp.tables import (
    SCALE,
    accuracy_by_length,
    each_once,
    lost_when_smaller,
    of_scale,
    trained_models,
)

LEARNED = 0.95
"""The share of tokens from which on a task counts as learned."""

LEVEL = 0.05
"""Of all cases of a claim together."""

MATTERS = 0.01
"""So large a share of the tokens has to be lost for a part of the model to be called needed."""

TELLS = 0.9
"""Where even attention has more than this on the program's keys, a head cannot be told from any other."""

WITH_A_SIZE = {name for name, definition in LANGUAGES.items() if definition.paper_size}
"""Languages that the paper gives layers and heads."""

LONGER = 40
"""Sequences of up to so many symbols, where training ended at 30."""


def size_is_enough(rows: pd.DataFrame) -> Outcome:
    """A language is learned if the interval over seeds of tokens right is above `LEARNED`.

    Languages that the paper has no model of have no size to be enough. The claim holds if all others that are
    recorded are learned, in part if some are, and is not settled else.
    """
    models = trained_models(_of_scale(rows))
    models = models[models["ablation"].eq("") & ~models["supervised"].astype(bool)]
    models = models[models["language"].isin(WITH_A_SIZE)]
    right = table_over_seeds(some(models[models["metric"] == "accuracy"]), ["language"], share=True)
    learned = right["low"] > LEARNED
    longer = some(accuracy_by_length(models).query("up_to == @LONGER"))["value"]
    rest = right[~learned] if not learned.all() else right.nsmallest(1, "value")
    least = one(right.nsmallest(1, "value"))
    best, listed = one(right.nlargest(1, "value")), ", ".join(map(_named, rest.itertuples()))
    return Outcome(
        shown_in(learned),
        f"{learned.sum()} of {len(right)} languages are learned, best {_named(best)} of the tokens of unseen "
        f"sequences; {'least well' if learned.all() else 'not shown for'} {listed}; {best.n} seeds each.",
        f"Learned: the interval is above {100 * LEARNED:.0f} %. Of sequences of {LONGER - 4} to {LONGER} "
        f"symbols, where training ended at 30, "
        f"{100 * longer.min():.0f} to {100 * longer.max():.0f} % of the tokens are right.",
        crux(f"tokens right in {least.language}, the worst learned, against 95 %", least, LEARNED),
    )


def size_is_needed(rows: pd.DataFrame) -> Outcome:
    """What was taken away is needed if the model without it is worse than the whole one, seed by seed.

    The claim holds if it is in every language and way to make the model smaller, by `MATTERS` at least, and p
    corrected for all of them says so, too; in part if in some; else it is not settled.
    """
    models = trained_models(_of_scale(rows))
    models = models[~models["supervised"].astype(bool) & models["metric"].eq("accuracy")]
    smaller = some(models[models["ablation"].ne("")])
    right = table_over_seeds(smaller, ["language", "ablation"], share=True)
    lost = lost_when_smaller(models)
    reverse, hist2, sort = (
        one(right, language=name, ablation="one layer fewer") for name in ("reverse", "hist2", "sort")
    )
    shown = corrected(p_over_seeds(lost)) < LEVEL
    worse, better = lost["low"] > 0, lost["high"] < 0
    needed, least = (lost["low"] > MATTERS) & shown, one(lost.nsmallest(1, "value"))
    return Outcome(
        shown_in(needed),
        f"Without one of two layers, {percent(reverse)} of the tokens of `reverse` are right and "
        f"{percent(hist2)} of `hist2`, but {percent(sort, 1)} of `sort`; {sort.n} seeds each.",
        f"In {(worse & shown).sum()} of {len(lost)} cases the smaller model is shown to be worse, seed by "
        f"seed and corrected by Holm's method, by more than a point in {needed.sum()}; not corrected, it is "
        f"worse in {worse.sum()} and better in {better.sum()}.",
        crux(f"loss in {least.language}, {least.ablation}, against a point", least, MATTERS),
    )


def heads_look_where_told(rows: pd.DataFrame) -> Outcome:
    """A head looks there if the interval of its attention's share there, told, is above the one untold.

    A head whose program looks at all keys says nothing, and does not count (see `TELLS`). The claim holds if
    every other head does and no language loses accuracy by it (told, the interval of tokens right is below
    the one untold), in part if some head does, and is not settled else.
    """
    rows = _of_scale(rows)
    both = rows[rows["ablation"].eq("") & rows["metric"].str.match("mass |accuracy$")]
    both = both[~both["uniform"].gt(TELLS)]
    both = table_over_seeds(some(both), ["task", "metric", "supervised"], share=True)
    told, untold = (
        both[both["supervised"].astype(bool) == way].set_index(["task", "metric"]) for way in (True, False)
    )
    pairs = some(told.merge(untold, on=["task", "metric"], suffixes=("", "_untold")))
    is_mass = pairs.index.get_level_values("metric") != "accuracy"
    heads, accuracies = pairs[is_mass], pairs[~is_mass]
    risen = heads["low"] > heads["high_untold"]
    fallen = accuracies["high"] < accuracies["low_untold"]
    verdict = shown_in(risen)
    if verdict == "holds" and fallen.any():
        verdict = "in part"
    least = one(heads.reset_index().nsmallest(1, "value"))
    price = [
        f", and `{row.task}` falls from {100 * row.value_untold:.2f} to {percent(row, 2)} of tokens right"
        for row in _each(accuracies[fallen])
    ]
    return Outcome(
        verdict,
        f"The share of attention where the program looks rises in {risen.sum()} of {len(heads)} heads; least "
        f"is there in `{least.task}`: {number(least)}, from {least.value_untold:.2f} untold{''.join(price)}; "
        f"{least.n} seeds each.",
        crux=crux(f"attention where told in {least.task}, against untold", least, least.value_untold),
    )


def _of_scale(rows: pd.DataFrame) -> pd.DataFrame:
    """Models of `SCALE` that begin with BOS and are told from others by their seed."""
    rows = of_scale(rows, **SCALE)
    return each_once(rows[rows["bos"].eq(True) & rows["seed"].notna() & rows["ablation"].notna()])


def _each(table: pd.DataFrame) -> Iterator[Any]:
    return table.reset_index().itertuples()


def _named(right: Any) -> str:
    return f"`{right.language}` {percent(right, 1)}"


CLAIMS = (
    Claim(
        "weiss2021thinking",
        "A transformer of the size of its RASP program learns the program's task.",
        "rasp_languages",
        "Paper vs here",
        size_is_enough,
    ),
    Claim(
        "weiss2021thinking",
        "With fewer layers or heads it does not.",
        "rasp_languages",
        "Paper vs here",
        size_is_needed,
    ),
    Claim(
        "weiss2021thinking",
        "Told where the program looks, heads look there.",
        "rasp_languages",
        "Where the heads look",
        heads_look_where_told,
    ),
)
