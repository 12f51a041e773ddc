"""Recorded numbers in words, as in the box at the beginning of each chapter."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from attnlib.stats import with_interval
from book.chapters.records import runs
from book.sealing import read_sealed

NOT_RUN = "not run"

_WAY = r"(from scratch|fine-tuned|as it is)"


class Words(str):
    """A number in words with its recorded source, which glued outputs keep in their metadata.

    Attributes:
        source: the row's `record`, `run`, `metric` and `value`, as far as it has them; `{}` without a row.
    """

    source: dict[str, Any]

    def __new__(cls, words: str, source: dict[str, Any]) -> Words:
        """The words with their source."""
        made = super().__new__(cls, words)
        made.source = source
        return made

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """The output in a notebook: the same text as for any string, and the source as metadata."""
        return {"text/plain": repr(str(self))}, {"source": self.source}

    @property
    def brief(self) -> Words:
        """The value alone: "43 %"; the source has the value with its interval under "in full"."""
        value, bracket, _ = self.partition(" [")
        record = f"; run {self.source['record']}" if "record" in self.source else ""
        said = {"in full": f"{self}: 95 % confidence interval{record}"} if bracket else {}
        return Words(value, self.source | said)


def came_with_the_book(notebook: str, **parameters: Any) -> pd.DataFrame:
    """Rows of a chapter's runs that came with the book: see `book.chapters.records.runs.table_of`."""
    rows = runs.records(notebook, None)
    if rows.empty or not parameters:
        return rows
    names = rows["record"].str.partition(" [")[0]
    files = {path.stem: path.with_suffix(".json") for path in runs.paths_of(notebook)}
    made = {name: read_sealed(files[name])["parameters"] for name in names.unique()}
    return rows[names.isin(name for name, given in made.items() if parameters.items() <= given.items())]


def made_alike(names: Iterable[str], but: Collection[str]) -> dict[str, str]:
    """Record -> the first one that agrees in all parameters of both except `but`; these can be pooled."""
    made = {name: runs.provenance_of(name).get("parameters", {}) for name in names}
    first: dict[str, str] = {}
    for name, given in made.items():
        kinds = dict.fromkeys(first.values())
        same = (kind for kind in kinds if _agree(given, made[kind], but))
        first[name] = next(same, name)
    return first


def _agree(one: Mapping[str, Any], other: Mapping[str, Any], but: Collection[str]) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys() - set(but))


def learned_best(rows: pd.DataFrame, kinds: Sequence[str], metric: str, way: str = "record") -> pd.DataFrame:
    """For each combination of `kinds`, the rows of the `way` of training with the best mean of `metric`."""
    if rows.empty:
        return rows
    learned = rows[rows["metric"].eq(metric)].groupby([*kinds, way])["value"].mean()
    less = learned[learned < learned.groupby(level=list(kinds)).transform("max")]
    return rows[~pd.MultiIndex.from_frame(rows[[*kinds, way]]).isin(less.index)]


def one_number(rows: pd.DataFrame, **where: Any) -> pd.Series | None:
    """The row with these values, or `None`; of several, that with the largest `n`, then the latest."""
    if rows.empty or not set(where) <= set(rows.columns):
        return None
    found = rows[rows[list(where)].eq(pd.Series(where)).all(axis=1)]
    ways = found["setting"].str.extract(_WAY)[0].unique() if "setting" in found else ()
    if len(ways) > 1:
        raise ValueError(f"rows of models {' and '.join(map(str, ways))} have {where}: say which is meant")
    order = [name for name in ("n", "recorded") if name in found]
    return None if found.empty else found.sort_values(order, kind="stable").iloc[-1]


def counted(units: pd.Series) -> str:
    """The range of numbers of units, for a caption: "3", or "1 to 3"; "0" without numbers."""
    least, most = (int(end) for end in (units.min(), units.max())) if len(units) else (0, 0)
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def in_words(number: Any, unit: str = "", digits: int | None = None) -> Words:
    """A number with its 95 % interval and number of units: "43 % [40, 47; n = 1,000]"."""
    if number is None:
        return Words(NOT_RUN, {})
    if isinstance(number["value"], str):
        return Words(number["value"], {})
    record, _, mark = str(number.get("record", "")).partition(" [")
    words = with_interval(number, unit, digits, beside=[f"n = {int(number['n']):,}", mark.removesuffix("]")])
    own = {name: number[name] for name in ("run", "metric") if name in number}
    return Words(words, {"record": record, **own, "value": float(number["value"])} if record else {})
