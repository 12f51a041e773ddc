"""Figures in the colours of light and of dark pages, with the numbers that they show."""

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
"""MIME types of additional parts of a notebook's output: a table, arrays (as base64), the figure for dark
pages. Notebooks ignore them; the book puts them beside its pages (`book/_ext/figure_data.py`)."""

Data = pd.DataFrame | Mapping[str, np.ndarray]
"""A table; or arrays by name, where the numbers are attention."""

Drawn = tuple[Figure, Data, str]
"""A figure, the numbers that it shows, and its alternative text."""

P = ParamSpec("P")

_FAMILIES = re.compile(r"(?<=font-family: )'DejaVu Sans'[^;\"]*")
_FAMILY = "'DejaVu Sans', Verdana, sans-serif"
"""The fonts of text in SVG: the one used for the layout, and an equally wide one of other systems."""

_DPI = 192  # the resolution of rasterized parts, such as heat maps


class Drawing(Captioned):
    """A figure as a function of `plots` returns it, for a cell to show.

    Attributes:
        figure: matplotlib's figure in the colours of light pages.
        data: the numbers that the figure shows.
        alt: the alternative text, with the main numbers.
    """

    kind = "Figure"

    def __init__(self, draw: Callable[[], Drawn]) -> None:
        self._draw = draw
        self.figure, self.data, self.alt = self._drawn("light")

    def svg(self, theme: Theme = "light") -> str:
        """The figure as SVG, the same bytes every time; for dark pages drawn again, without background.

        Text is not converted to paths: it can be searched and copied, and a browser chooses the fonts.
        """
        figure = self.figure if theme == "light" else self._drawn(theme)[0]
        file = io.StringIO()
        with in_theme(theme), plt.rc_context({"svg.hashsalt": "attnlib", "svg.fonttype": "none"}):
            ground = CLEAR if theme == "dark" else "auto"
            figure.savefig(file, format="svg", dpi=_DPI, metadata={"Date": None}, facecolor=ground)
        return _FAMILIES.sub(_FAMILY, file.getvalue())

    def html(self) -> str:
        """The figure as PNG over its caption, since JupyterLab shows no SVG of an untrusted notebook."""
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
                figure.set_layout_engine("none")  # keep the layout when the figure is saved again
        finally:  # close the figure even if drawing failed
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
    """Decorator: the function returns a `Drawing` in place of a figure, its data and its alternative text."""

    @wraps(draw)
    def drawn(*given: P.args, **how: P.kwargs) -> Drawing:
        return Drawing(partial(draw, *given, **how))

    drawn.__signature__ = signature(draw).replace(return_annotation="Drawing")  # type: ignore[attr-defined]
    return cast(Callable[P, Drawing], drawn)


def carried(data: Data) -> dict[str, str]:
    """The numbers of a figure or table as a part of a notebook's output: CSV, or arrays in base64."""
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
"""A number with its interval, as `attnlib.stats.with_interval` writes it."""


COMPUTED = re.compile(r"[=+\-@\t\r].*[(|!]", re.DOTALL)
"""A text that a spreadsheet would take for a formula."""


def as_csv(rows: pd.DataFrame) -> str:
    """A table as CSV, with unrounded numbers; names of columns that have several levels are joined.

    A text such as "0.47 [0.44, 0.50]" becomes its number and, in columns of their own, the interval's ends. A
    text that a spreadsheet would take for a formula gets an apostrophe in front.
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
    )  # a table without columns, of an experiment that was not run
    table = table.map(_plain).set_axis([_plain(name) for name in table.columns], axis=1)
    return table.to_csv(index=False, lineterminator="\n")


def _plain(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and COMPUTED.match(value) else value


def labelled(tables: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """Several tables as one, with the key of each table in the column `name`."""
    return pd.concat([table.assign(**{name: of}) for of, table in tables.items()], ignore_index=True)
