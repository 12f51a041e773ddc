"""The style of all tables, and the notation of names in figures."""

from __future__ import annotations

import hashlib
import re
from functools import partial
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from attnlib.plots.captions import Captioned
from attnlib.plots.drawing import carried

NUMBERS = "numbers"
"""The key in `DataFrame.attrs` for the numbers that a table of texts was written from."""


ABSENT = "–"
"""The text in place of a number that was not measured or is not defined."""


class Table(Captioned, Styler):
    """A table as `table` returns it; a notebook's output also holds its unrounded numbers."""

    kind = "Table"
    data: pd.DataFrame

    @property
    def numbers(self) -> pd.DataFrame:
        """The numbers of the table: its rows, or for a table of texts, a row per number behind them."""
        if NUMBERS not in self.data.attrs:
            return self.data
        numbers = pd.DataFrame(self.data.attrs[NUMBERS])
        known = set(numbers.select_dtypes(exclude="number").to_numpy().ravel())
        added = self.data.set_index(self.data.columns[0]).select_dtypes("number")
        added = added.drop(columns=[name for name in added if name in known])
        more = added.melt(var_name="metric", ignore_index=False).rename_axis("of").reset_index()
        return pd.concat([numbers, more], ignore_index=True) if len(more) else numbers

    def captioned(self, name: str, caption: str) -> Table:
        """Sets name and caption, as for a figure; the caption of a table without rows says so."""
        return super().captioned(name, caption + (" This run has no such rows." if self.data.empty else ""))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        if self.name:
            self.set_caption(self.heading())
        shown = {"text/html": self.to_html(), "text/plain": repr(self)}
        return shown | carried(self.numbers) | self.said()


P_VALUES = re.compile(r"(p|log_rank|\w+_p)(_holm)?")
"""Names of columns that hold p-values."""


def table(rows: pd.DataFrame, digits: int = 4) -> Table:
    """A table as the pages show it: the index is a column like the others, texts are aligned to the left.

    An index without a name, which only numbers the rows, is left out. A p-value is never shown as 0: below
    0.001 it is "< 0.001". Whole numbers (ranks, counts) have no decimals, and a missing value is a dash.
    """
    of_rows = rows.index.names == [None] and pd.api.types.is_integer_dtype(rows.index)
    rows = rows.reset_index(drop=of_rows)
    texts = [name for name in rows if not pd.api.types.is_numeric_dtype(rows[name])]
    style = Table(rows, cell_ids=False)  # a rule per column, none per cell: pages have thousands of cells
    style.hide(axis="index").format(na_rep=ABSENT)
    fractions = [name for name in rows if pd.api.types.is_float_dtype(rows[name])]
    style.format(partial(_number, digits=digits), na_rep=ABSENT, subset=fractions)
    counts = [name for name in rows if _counts(rows[name])]
    style.format(partial(_number, digits=0), na_rep=ABSENT, subset=counts)
    p_values = [name for name in rows if P_VALUES.fullmatch(str(name)) and name not in texts]
    style.format(partial(_p_value, digits=digits), na_rep=ABSENT, subset=p_values)
    style.format(partial(_text, digits=digits), escape="html", na_rep=ABSENT, subset=texts)
    style.format_index(partial(_heading, digits=digits), escape="html", axis="columns")
    style.set_table_styles({name: [{"selector": "td", "props": "text-align: left"}] for name in texts})
    identity = hashlib.sha256(rows.to_csv().encode()).hexdigest()  # pandas' own is random: pages would differ
    style.set_uuid(identity[:8]).set_table_attributes('class="dataframe"')
    return style


def _counts(column: pd.Series) -> bool:
    """Whether a column holds whole numbers, and not only ones and zeros, which may be shares."""
    if not pd.api.types.is_float_dtype(column):
        return False
    there = column.dropna()
    return bool((there == there.round()).all() and there.abs().gt(1).any())


_SIGN = re.compile(r"(?<![^\s\[])-(?=\.?\d)")
"""A hyphen before a number, by itself or in brackets, which a minus sign replaces."""


def _number(number: Any, digits: int) -> str:
    return _SIGN.sub("−", f"{number:z.{digits}f}")  # "z" turns -0 into 0


def _text(shown: Any, digits: int) -> str:
    return _number(shown, digits) if pd.api.types.is_float(shown) else _SIGN.sub("−", lettered(str(shown)))


def _heading(shown: Any, digits: int) -> str:
    """The name of a column as a heading: p_holm becomes "p holm"."""
    text = _text(shown, digits)
    return text.replace("_", " ") if re.fullmatch(r"[a-z]+(_[a-z]+)+", text) else text


def _p_value(p: Any, digits: int) -> str:
    return "&lt; 0.001" if p < 0.001 else f"{p:.{digits}f}"


def plain(name: object) -> str:
    """A name as a label or title, with $ escaped: matplotlib takes text between two $ as a formula."""
    return str(name).replace("$", r"\$")


def visible(word: str) -> str:
    """A token as a label: visible signs for blanks and line ends, $ escaped, "∅" if it is empty."""
    return plain(word.replace("\n", "⏎").replace(" ", "␣")) or "∅"


_LETTERS = {"alpha": "α", "beta": "β", "delta": "Δ", "xi": "ξ", "A_hat": "Â"}
_MARKS = {"t": "ₜ", "uf": "ᵘᶠ", "px": "ᵖˣ", "logistic": "ˡᵒᵍⁱˢᵗⁱᶜ"}
_SCORES = re.compile(rf"\b({'|'.join(_LETTERS)})(?:_({'|'.join(_MARKS)}))?(?!\w|\.\w)")


def lettered(text: str) -> str:
    """The text with scores in mathematical notation: A(beta_t, beta_uf) becomes A(βₜ, βᵘᶠ).

    Unicode letters look the same in figures, tables, explorers and drop-down lists, unlike formulas.
    """
    return _SCORES.sub(lambda found: _LETTERS[found[1]] + _MARKS.get(found[2], ""), text)
