"""Numbers for the text of a page, which quotes them by name, as in ``{glue:text}`sort: accuracy:.1f```.

`tell` glues numbers, which the text rounds. `tell_in_words` glues each number twice: under its name the value
("43 %"), whose interval opens on demand, and under "name, in full" the value with the interval
("43 % [40, 47; n = 1,000]"). Both take a table with one number per row, or a mapping from names to numbers::

    tell(rows, "{run}: {metric}", "%")
    tell(rows, "{run}: {metric}, {of}", "%", of=["low", "high"])
    tell({"questions": len(questions), "leader": best})
    tell_in_words(rows, "minute {run}", "%")
    tell_in_words({"delta": row, "rest": None}, "minute {}", "%", 1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from attnlib.stats.significance import NOT_ENOUGH
from book.chapters.records.numbers import in_words


def tell(
    numbers: pd.DataFrame | pd.Series | Mapping[Any, Any],
    name: str = "{}",
    unit: str = "",
    *,
    of: str | Sequence[str] = "value",
) -> None:
    """Glue numbers, words or counts for the text, under their names."""
    for row, about in _named(numbers):
        columns = [of] if isinstance(of, str) else of
        told = {column: row[column] for column in columns} if isinstance(numbers, pd.DataFrame) else {"": row}
        for column, value in told.items():
            _glue(name.format(*about, **(row | {"of": column} if column else {})), _number(value, unit))


def tell_in_words(
    numbers: pd.DataFrame | Mapping[Any, Any], name: str = "{}", unit: str = "", digits: int | None = None
) -> None:
    """Glue the values under their names, and values with intervals (see `in_words`) under "name, in full"."""
    for row, about in _named(numbers):
        columns = row if isinstance(numbers, pd.DataFrame) else {}
        words, called = in_words(row, unit, digits), name.format(*about, **columns)
        _glue(called, words.brief)
        _glue(f"{called}, in full", words)


def side_clause(
    number: Any, below: str, neither: str, above: str, *, bound: Any = 0.0, lacking: str = "not run"
) -> str:
    """One of three clauses, by the side of a bound on which a number's interval lies; `lacking` without one.

    The bound is a value, or another number with its interval.
    """
    if number is None or bound is None:
        return lacking
    least, most = (bound["low"], bound["high"]) if hasattr(bound, "keys") else (bound, bound)
    if pd.isna([number["low"], number["high"], least, most]).any():
        return lacking
    if number["low"] > most:
        return above
    return below if number["high"] < least else neither


def _named(numbers: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Every row or number with the values that fill `{}` in its name."""
    if isinstance(numbers, pd.DataFrame):
        table = numbers if numbers.index.names == [None] else numbers.reset_index()
        yield from ((row, ()) for row in table.to_dict("records"))
        return
    for key, number in numbers.items():
        yield number, key if isinstance(key, tuple) else (key,)


def _number(value: Any, unit: str) -> Any:
    """A number as a Python number in its unit (NaN for `None` and `NOT_ENOUGH`); words stay as they are."""
    if value is None or isinstance(value, str):
        return float("nan") if value in (None, NOT_ENOUGH) else value
    value = value.item() if hasattr(value, "item") else value
    return 100 * value if unit in ("%", "points") else value


def _glue(name: str, value: Any) -> None:
    import myst_nb  # part of the extra `book`; a live kernel replaces its `glue`

    myst_nb.glue(name, value, display=False)
