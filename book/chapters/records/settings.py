"""Settings of recorded runs in words that tell every run from every other, so that no table merges two."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd


def completed(rows: pd.DataFrame, columns: Iterable[Any], parameters: Mapping[str, Any]) -> pd.DataFrame:
    """Rows with those further columns that were a parameter of their run: one value in all rows."""
    given = {name: parameters.get(name) for name in columns if name not in rows}
    return rows.assign(**{name: value for name, value in given.items() if isinstance(value, str | int)})


def told_apart(rows: pd.DataFrame, parameters: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of several records, with what tells runs of one setting apart added to the column `setting`.

    Records of the same `task` and `setting` get those parameters in which they differ; several runs of one
    record (its seeds) get their names.

    Args:
        rows: with a column `record`; `task`, `setting` and `run`, if there are such.
        parameters: of each record.
    """
    if "setting" not in rows:
        return rows
    setting = rows["setting"].astype(object)
    for _, same in rows.groupby([name for name in ("task", "setting") if name in rows], sort=False):
        more = same["record"].map(_differences({name: parameters[name] for name in same["record"].unique()}))
        setting[same.index] += more.map(lambda words: f"; {words}" if words else "")
        if "run" in same:
            several = same.groupby("record")["run"].transform("nunique") > 1
            setting[same.index] += ("; " + same["run"]).where(several, "")
    return rows.assign(setting=setting)


def _differences(parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What tells each record from the others, as parameters: "steps 700; seeds [1]"; of one alone, ""."""
    texts = {
        record: {name: json.dumps(value) for name, value in given.items()}
        for record, given in parameters.items()
    }
    names = dict.fromkeys(name for given in texts.values() for name in given)
    other = [name for name in names if len({given.get(name) for given in texts.values()}) > 1]
    return {
        record: "; ".join(f"{name} {given[name]}" for name in other if name in given)
        for record, given in texts.items()
    }
