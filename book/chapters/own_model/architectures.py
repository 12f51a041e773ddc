"""The model types of transformers for which each method gave the right result in a test of all types."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

FOUND = Path(__file__).with_name("architectures.csv")
"""A row per model type and kind, a column per method; `python -m tests.attnlib.campaign` writes it."""

KINDS = {
    "causal": "causal models",
    "masked": "masked models",
    "encoder-decoder": "sequence to sequence",
    "encoder": "their encoders alone",
}


def outcomes() -> pd.DataFrame:
    """Outcomes by model type and kind, a column per method: equal, refused, not built, or empty (not run)."""
    return pd.read_csv(FOUND, keep_default_na=False).set_index(["model type", "kind"])


def counts(found: pd.DataFrame) -> pd.DataFrame:
    """The number of model types with right results among those tested, by method and kind."""
    columns = {}
    for kind, name in KINDS.items():
        ways = found.xs(kind, level="kind").items()
        columns[name] = [_equal(said[~said.isin(["", "not built"])]) for _, said in ways]
    return pd.DataFrame(columns, index=found.columns.rename("method"))


def _equal(said: pd.Series) -> str:
    return f"{(said == 'equal').sum()} of {len(said)}" if len(said) else "–"


def asked(found: pd.DataFrame) -> int:
    """The number of model types with at least one kind that was built and tested."""
    return found[(found != "not built").all(axis=1)].index.unique("model type").size


def by_type(found: pd.DataFrame) -> pd.DataFrame:
    """The methods that give right results, for each model type and kind."""
    rows = found.apply(_in_words, axis=1).rename("right results")
    return rows.reset_index("kind")


def _in_words(ways: pd.Series) -> str:
    equal, refused = (ways.index[ways == said].tolist() for said in ("equal", "refused"))
    if not equal:
        return "none" if refused else "not built"
    if len(equal) <= len(refused):
        return "; ".join(equal)
    return f"all but {'; '.join(refused)}" if refused else "all"
