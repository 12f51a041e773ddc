"""Claims about attention in the repository Attention Lens."""

from __future__ import annotations

from functools import partial

import pandas as pd

from book.chapters.findings.finding import Claim, Outcome, number, one, there
from book.chapters.lens.tables import SIZE, claims_at_size


def a_layer_is_for(part: str, rows: pd.DataFrame) -> Outcome:
    """A layer's attention on a kind of key minus the other layers', in models of the original's size."""
    found = one(there(claims_at_size(rows)), claim=part)
    exact = rows[rows["run"].str.fullmatch(r"addition, seed \d+") & rows["metric"].eq("exact match")]
    shares = exact.loc[exact["setting"].astype(str).str.startswith(SIZE), "value"]
    return Outcome(
        found.verdict,
        "Share of attention there, minus that in the other layers",
        number(found, "models", 0, signed=True),
        more=f"The models add {100 * shares.min():.1f} to {100 * shares.max():.1f} % of unseen sums rightly.",
    )


CLAIMS = tuple(
    Claim(
        "lens",
        name,
        words,
        "arithmetic_lens",
        "What an answer's digits look at",
        f"Over models of the original's size, {layers} more of its attention {where} than the other layers "
        "do.",
        partial(a_layer_is_for, part),
    )
    for name, words, layers, where, part in (
        (
            "early layers, local",
            "In models that add, the first layer looks locally, at the token itself and the one before.",
            "the first layer has",
            "there",
            "early layers look local",
        ),
        (
            "middle layers, operator",
            "In models that add, the middle layer finds the operator.",
            "the middle layer has",
            "on it",
            "middle layers find the operator",
        ),
        (
            "late layers, columns",
            "In models that add, the last layer combines the digits of both numbers.",
            "the last layer has",
            "on the columns of the digit",
            "late layers combine the columns",
        ),
    )
)
