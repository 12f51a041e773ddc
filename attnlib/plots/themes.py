"""The look of figures on light and on dark pages: width, fonts of 9 points, colours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Literal

import matplotlib.pyplot as plt
from cycler import cycler
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.font_manager import fontManager

from attnlib.colours import CLEAR, INKS, THEMES

Theme = Literal["light", "dark"]

COLUMN = 7.2
"""The width of a figure in inches: the book's column of text in a window of 1280 pixels."""

POINTS = 9
"""The size of text in figures."""

_SCRIPTS = (
    *("Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala"),
    *("Thai", "Khmer", "Myanmar", "Ethiopic", "Cherokee", "Gothic", "Symbols2"),
)

FONTS = (
    "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "PingFang SC", "Hiragino Sans"),
    *("Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Arial Unicode MS"),
    *(f"Noto Sans {script}" for script in _SCRIPTS),
    *("Noto Serif Tibetan", "FreeSans", "Lohit Devanagari", "Kohinoor Devanagari", "Nirmala UI"),
    *("Leelawadee UI", "Ebrima", "Noto Emoji", "Segoe UI Emoji", "Symbola"),
)
"""The fonts in which a letter is looked for, in this order; those for other scripts are often installed."""

_theme: ContextVar[Theme] = ContextVar("theme", default="light")


@contextmanager
def in_theme(theme: Theme) -> Iterator[None]:
    """A context in which figures are drawn for pages of this theme."""
    before = _theme.set(theme)
    try:
        with plt.rc_context(_settings()), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font")  # drawn as a box
            yield
    finally:
        _theme.reset(before)


def colour(name: str) -> str:
    """A colour of the theme, by its name in `attnlib.colours.THEMES`."""
    return str(THEMES[_theme.get()][name])


def colours() -> list[str]:
    """The theme's colours of lines and points, one per group."""
    return list(THEMES[_theme.get()]["curves"])


def weights() -> LinearSegmentedColormap:
    """The colour map of attention, from 0 (nearly the page's own colour) to 1."""
    return LinearSegmentedColormap.from_list("weights", list(THEMES[_theme.get()]["blues"]))


def signed() -> LinearSegmentedColormap:
    """The colour map of signed values: orange below zero, the page's own colour at zero, blue above."""
    theme = THEMES[_theme.get()]
    return LinearSegmentedColormap.from_list(
        "signed", [*reversed(theme["oranges"]), theme["page"], *theme["blues"]]
    )


def ink_on(ground: Any) -> str:
    """Black or white, whichever is more legible on a background, by relative luminance as in WCAG 2."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(ground)]
    luminance = sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))
    return INKS[0] if luminance > 0.179 else INKS[1]


@cache
def installed_fonts() -> list[str]:
    """Those of `FONTS` whose files exist, since matplotlib's cached list may name removed fonts."""
    here = {font.name for font in fontManager.ttflist if Path(font.fname).exists()}
    return [name for name in FONTS if name in here]


def _settings() -> dict[str, Any]:
    import seaborn as sns

    ink, faint = colour("ink"), colour("faint")
    sizes = ["font.size", "axes.labelsize", "axes.titlesize", "xtick.labelsize", "ytick.labelsize"]
    sizes += ["legend.fontsize", "legend.title_fontsize", "figure.labelsize", "figure.titlesize"]
    return {
        **sns.axes_style("ticks"),
        **sns.plotting_context("paper"),
        **dict.fromkeys(sizes, POINTS),
        "font.family": installed_fonts(),
        "figure.constrained_layout.use": True,
        "text.hinting": "none",  # text is equally wide at every resolution, so that none is cut off
        "figure.figsize": (COLUMN, 3.2),
        "figure.facecolor": colour("page"),
        "axes.facecolor": CLEAR,
        "axes.edgecolor": faint,
        "axes.labelcolor": ink,
        "axes.titlecolor": ink,
        "axes.prop_cycle": cycler(color=colours()),
        "grid.color": faint,
        "text.color": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "hatch.color": faint,
        "hatch.linewidth": 0.6,
    }
