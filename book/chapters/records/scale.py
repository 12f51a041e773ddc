"""The scale of our runs relative to the originals': shares of steps, data and seeds."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from book.chapters.records import runs


@functools.cache
def paper_scales() -> pd.DataFrame:
    """The scale of the originals' runs: `table`, `task`, `what`, `parameter` and `value`, all as published.

    `parameter` is the chapter's parameter for the same quantity; a row without a task holds for all tasks.
    """
    return pd.read_csv(Path(__file__).with_name("paper_scales.csv"), comment="#")


def share_of_scale(here: pd.DataFrame, table: str) -> list[str]:
    """The share of the original's scale for each of our numbers: "steps 2.5 %, data 40 %"."""
    scales = paper_scales()
    scales = scales[scales["table"].eq(table.removesuffix(", BLEU"))]  # of the same runs as the table before
    names = here["record"].unique() if "record" in here else ()
    made = {name: runs.provenance_of(name) for name in names}
    texts = []
    row: Any
    for row in here.itertuples():
        of_task = scales[scales["task"].isna() | scales["task"].eq(row.task)]
        found = {
            each["what"]: ours / each["value"]
            for each in of_task.to_dict("records")
            if (ours := _ours(each["parameter"], row, made.get(getattr(row, "record", None), {})))
        }
        texts.append(", ".join(f"{what} {_percent(share)}" for what, share in found.items()))
    return texts


def _ours(parameter: str, row: Any, provenance: Mapping[str, Any]) -> float | None:
    """Our value of a parameter (the length of a list), or None; default steps are those of the training."""
    value = provenance.get("parameters", {}).get(parameter)
    if parameter == "steps" and not value:
        value = provenance.get("training", {}).get(getattr(row, "run", ""), {}).get("steps")
    return len(value) if isinstance(value, list) else value


def _percent(share: float) -> str:
    """A share in percent with two significant digits."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
