"""A figure in the colours of light and of dark pages, with the numbers that it shows."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Mapping
from functools import partial, wraps
from html import escape
from inspect import signature
from typing import Any, ParamSpec, cast

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from attnlib.colours import CLEAR
from attnlib.plots.captions import Captioned
from attnlib.plots.themes import Theme, in_theme

CSV, NPZ, DARK = "text/csv", "application/vnd.attnlib.npz", "application/vnd.attnlib.dark+svg"
"""Kinds of what an output of a notebook holds beside what is shown: a table, arrays (as base64), the figure
on dark pages. Notebooks ignore them; the book puts them beside its pages (`book/_ext/figure_data.py`)."""

Data = pd.DataFrame | Mapping[str, np.ndarray]
"""A table; or arrays by name, where the numbers are attention."""

Drawn = tuple[Figure, Data, str]
"""A figure, the numbers that it shows, and what is to be seen in it, in words."""

P = ParamSpec("P")

_FAMILIES = re.compile(r"(?<=font-family: )'DejaVu Sans'[^;\"]*")
_FAMILY = "'DejaVu Sans', Verdana, sans-serif"
"""The fonts of text in SVG: the one that it is laid out in, and one as wide, which other systems have."""

_DPI = 192  # of dots and heat maps, which are pictures inside the drawing


class Drawing(Captioned):
    """What a function of `plots` returns, for a cell to show.

    Attributes:
        figure: matplotlib's figure, as it is on light pages.
        data: the numbers that it shows.
        alt: what is to be seen, in words with its own numbers.
    """

    kind = "Figure"

    def __init__(self, draw: Callable[[], Drawn]) -> None:
        self._draw = draw
        self.figure, self.data, self.alt = self._drawn("light")

    def svg(self, theme: Theme = "light") -> str:
        """The figure as SVG, the same bytes every time; on dark pages it is drawn again, without a ground.

        Text stays text: it can be searched and copied, and a browser finds letters of every script.
        """
        figure = self.figure if theme == "light" else self._drawn(theme)[0]
        file = io.StringIO()
        with in_theme(theme), plt.rc_context({"svg.hashsalt": "attnlib", "svg.fonttype": "none"}):
            ground = CLEAR if theme == "dark" else "auto"
            figure.savefig(file, format="svg", dpi=_DPI, metadata={"Date": None}, facecolor=ground)
        return _FAMILIES.sub(_FAMILY, file.getvalue())

    def html(self) -> str:
        """The figure over its caption; a picture, for JupyterLab shows no SVG of what it does not trust."""
        file = io.BytesIO()
        with in_theme("light"):
            self.figure.savefig(file, format="png", dpi=96)
        source = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
        caption = f"<figcaption>{self.heading()}</figcaption>" if self.name else ""
        return f'<figure><img src="{source}" alt="{escape(self.alt)}">{caption}</figure>'

    def _drawn(self, theme: Theme) -> Drawn:
        before = plt.get_fignums()
        try:
            with in_theme(theme):
                figure, data, alt = self._draw()
                figure.draw_without_rendering()  # ticks take their look from the theme when they are made
                figure.set_layout_engine("none")  # laid out: saved again, it is the same
        finally:  # also one that was refused half drawn
            for number in {*plt.get_fignums()} - {*before}:
                plt.close(number)
        return figure, data, alt

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        shown = {"image/svg+xml": self.svg(), "text/html": self.html()}
        return shown | {
            "text/plain": repr(self),
            DARK: self.svg("dark"),
            **carried(self.data),
            **self.said(),
        }


def drawing(draw: Callable[P, Drawn]) -> Callable[P, Drawing]:
    """Makes a function that draws, and says what is to be seen, one that returns a `Drawing` of it."""

    @wraps(draw)
    def drawn(*given: P.args, **how: P.kwargs) -> Drawing:
        return Drawing(partial(draw, *given, **how))

    drawn.__signature__ = signature(draw).replace(return_annotation="Drawing")  # type: ignore[attr-defined]
    return cast(Callable[P, Drawing], drawn)


def carried(data: Data) -> dict[str, str]:
    """Numbers as a part of a notebook's output."""
    if isinstance(data, pd.DataFrame):
        return {CSV: as_csv(data)}
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **data)
    return {NPZ: base64.b64encode(file.getvalue()).decode()}


_NUMBER = r"-?(?:[\d,]*\.)?[\d,]*\d(?:e[+-]?\d+)?"
INTERVAL = re.compile(
    rf"^\+?(?P<value>{_NUMBER})(?: %| points)? "
    rf"\[(?:\+?(?P<low>{_NUMBER}), \+?(?P<high>{_NUMBER})|no interval|[^\]]*never)[^\]]*\].*$"
)
"""A number with its interval, as tables say it (`attnlib.stats.with_interval`)."""


COMPUTED = re.compile(r"[=+\-@\t\r].*[(|!]", re.DOTALL)
"""A text that a spreadsheet would take for a formula."""


def as_csv(rows: pd.DataFrame) -> str:
    """A table as CSV, its numbers whole; names of columns that have several levels are joined.

    A text such as "0.47 [0.44, 0.50]" becomes its number and, in columns of their own, the interval's ends. A
    text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    if rows.columns.nlevels > 1:
        rows = rows.set_axis([", ".join(filter(None, map(str, name))) for name in rows.columns], axis=1)
    columns: list[pd.Series] = []
    for name in rows:
        texts = rows[name].astype(str)
        ends = texts.str.extract(INTERVAL).replace(",", "", regex=True)
        columns += [
            rows[name] if ends.isna().all(axis=None) else ends["value"].fillna(texts).rename(str(name))
        ]
        columns += [ends[end].rename(f"{name}, {end}") for end in ("low", "high") if ends[end].notna().any()]
    table = (
        pd.concat(columns, axis=1) if columns else rows
    )  # of what was not run, a page has a table of nothing
    table = table.map(_plain).set_axis([_plain(name) for name in table.columns], axis=1)
    return table.to_csv(index=False, lineterminator="\n")


def _plain(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and COMPUTED.match(value) else value


def labelled(tables: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """Tables of several panels or lines as one, what each is of in the column `name`."""
    return pd.concat([table.assign(**{name: of}) for of, table in tables.items()], ignore_index=True)
