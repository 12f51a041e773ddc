"""Clauses of the page on random programs, which depend on numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from book.chapters.display import display_name
from book.chapters.findings.finding import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from book.chapters.programs.predictions import MARGIN

ORDER = {
    REPRODUCED: {
        "order headline": "The order of methods carries over to trained transformers.",
        "order clause": "So a method that does well on compiled programs can be expected to do well on "
        "trained ones.",
        "summary order": "The order of methods is the same in compiled and in trained transformers.",
    },
    NOT_REPRODUCED: {
        "order headline": "The order of methods does not carry over to trained transformers.",
        "order clause": "So a method that does well on compiled programs need not do well on trained ones.",
        "summary order": "The order of methods depends on how the weights came about. Do not choose a method "
        "for a trained model by its score on compiled ones.",
    },
    INCONCLUSIVE: {
        "order headline": "Whether the order of methods carries over to trained transformers is open.",
        "order clause": "Whether a method that does well on compiled programs does so on trained ones is "
        "open.",
        "summary order": "Do not choose a method for a trained model by its score on compiled ones before "
        "more is known.",
    },
}
"""What the page says of the order of methods in trained transformers, by the verdict on the prediction."""


TWICE = {
    REPRODUCED: "So the two sizes give similar orders of methods.",
    NOT_REPRODUCED: "So the two sizes give different orders of methods.",
    INCONCLUSIVE: "Whether the two sizes give similar orders of methods is therefore open.",
}
"""What the page says of transformers of twice the size, by the verdict on the prediction."""


def found_again(rows: pd.DataFrame) -> str:
    """Whether scores that were computed again equal the recorded ones, to their five decimals."""
    if rows.empty:
        return "none of them is recorded"
    same = int(np.isclose(rows["now"], rows["recorded"], rtol=0, atol=2e-5).sum())
    if same == len(rows):
        return "every score is as recorded"
    return f"{same:,} of {len(rows):,} scores are as recorded"


def settings_clause(significant: int, pairs: int, settings: int) -> str:
    """How many pairs of methods the settings that were chosen by hand tell apart."""
    found = f"{significant:,}" if significant else "none"
    return f"Over {settings} settings of another chapter, chosen by hand, {found} of {pairs} pairs do."


def same_clause(firsts: Mapping[str, str]) -> str:
    """Whether one method is first by both truths."""
    if len(set(firsts.values())) == 1:
        return "The two agree in this."
    return "No method is first in both."


def mean_clause(lead: Any) -> str:
    """Rollout's lead over mean attention, as a comparative."""
    if lead.low > MARGIN:
        return "much more"
    if lead.low > 0:
        return "slightly more"
    return "less" if lead.high < 0 else "not significantly more"


def norm_clause(lead: Any) -> str:
    """A sentence on gradient norm against rollout."""
    if lead.low > 0:
        return "A plain gradient norm finds more than either."
    if lead.high < 0:
        return "A plain gradient norm finds less than rollout."
    return "A plain gradient norm does not differ significantly from rollout."


def order_words(both: pd.DataFrame) -> str:
    """A sentence on which methods come first by *causes* in trained and in compiled transformers."""
    rows = both[both["truth"] == "causes"]
    first = {
        weights: display_name(str(part.sort_values("value")["method"].iloc[-1]))
        for weights, part in rows.groupby("weights")
    }
    begin = "At finding the tokens whose replacement changes the output,"
    if first["trained"] == first["compiled"]:
        return f"{begin} {first['trained']} is best in both."
    return f"{begin} {first['trained']} is best in trained ones, and {first['compiled']} in compiled ones."


def plain_clause(both: pd.DataFrame) -> str:
    """A sentence on whether the disguises explain what rollout lacks in compiled transformers, by *reads*."""
    rows = both[(both["truth"] == "reads") & (both["method"] == "rollout")].set_index("weights")["value"]
    if "compiled, plain" not in rows:
        return ""
    gap = rows["trained"] - rows["compiled"]
    share = (rows["compiled, plain"] - rows["compiled"]) / gap if gap > 0 else 1.0
    if share > 2 / 3:
        return "The disguises explain most of the difference: without them, rollout does as well."
    if share > 1 / 3:
        return "The disguises explain a part of the difference; without them, rollout is in between."
    return "The disguises do not explain the difference: without them, rollout does hardly better."


def summary_clause(firsts: Mapping[str, str]) -> str:
    """The first sentence of the summary."""
    reads, causes = (display_name(firsts[truth]) for truth in ("reads", "causes"))
    if reads == causes:
        return f"Over this population, {reads} is the best method by both truths."
    return f"Over this population, {reads} is best by reads, and {causes} by causes."
