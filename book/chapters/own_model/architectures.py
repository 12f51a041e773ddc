"""Which model types of transformers give the right result by which method, as a test of all of them found."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

FOUND = Path(__file__).with_name("architectures.csv")
"""A row for each model type and kind, a column for each way; `python -m tests.attnlib.campaign` writes it."""

KINDS = {
    "causal": "causal models",
    "masked": "masked models",
    "encoder-decoder": "sequence to sequence",
    "encoder": "their encoders alone",
}


def outcomes() -> pd.DataFrame:
    """By model type and kind, a column for each way: "equal", "refused", "not built", or empty: not asked."""
    return pd.read_csv(FOUND, keep_default_na=False).set_index(["model type", "kind"])


def counts(found: pd.DataFrame) -> pd.DataFrame:
    """Of each way, how many model types of each kind are equal, and of how many that were asked."""
    columns = {}
    for kind, name in KINDS.items():
        ways = found.xs(kind, level="kind").items()
        columns[name] = [_equal(said[~said.isin(["", "not built"])]) for _, said in ways]
    return pd.DataFrame(columns, index=found.columns.rename("method"))


def _equal(said: pd.Series) -> str:
    return f"{(said == 'equal').sum()} of {len(said)}" if len(said) else "–"


def asked(found: pd.DataFrame) -> int:
    """How many model types were."""
    return found[(found != "not built").all(axis=1)].index.unique("model type").size


def by_type(found: pd.DataFrame) -> pd.DataFrame:
    """Of each model type and kind, what it can be asked for."""
    rows = found.apply(_in_words, axis=1).rename("right results")
    return rows.reset_index("kind")


def _in_words(ways: pd.Series) -> str:
    equal, refused = (ways.index[ways == said].tolist() for said in ("equal", "refused"))
    if not equal:
        return "none" if refused else "not built"
    if len(equal) <= len(refused):
        return "; ".join(equal)
    return f"all but {'; '.join(refused)}" if refused else "all"
