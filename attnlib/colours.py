"""All colours of the figures, the explorers and the book's logo. Change a colour only here.

Blue shows attention; orange shows reference attention and negative values. People with any common colour
deficiency can tell these two hues apart. Lightness within a scale is strictly monotone, so that grey print
shows it, too. Figures are drawn once for each theme (`attnlib.plots.themes`). The explorers get the colours
when their front end is built (`attnlib.widgets.front_end`), the logo and the links when the book is built.
"""


def _stops(colours: str) -> list[str]:
    return colours.split()


BLUE, ORANGE, TEAL, RED = "#155fa3", "#e8590c", "#0f766e", "#b42318"
BLUE_ON_DARK, ORANGE_ON_DARK, TEAL_ON_DARK, RED_ON_DARK = "#82b4e0", "#ffa94d", "#5fd0c0", "#ff9b8a"
BLACK, WHITE = "#0b111b", "#ffffff"

THEMES = {
    "light": {
        "page": WHITE,
        "surface": WHITE,
        "ink": "#1c2330",
        "faint": "#5b6577",
        "line": "#d8dee8",
        "field": "#f5f7fa",
        "accent": BLUE,
        "reference": ORANGE,
        "right": TEAL,
        "wrong": RED,
        "reproduced": TEAL,
        "not-reproduced": RED,
        "inconclusive": "#92610a",
        "not-run": "#5b6577",
        "curves": [BLUE, ORANGE, TEAL, "#7c3aed", "#92610a", "#be185d"],
        "blues": _stops("#eaf2fa #d5e5f4 #b7d4ea #86bcdc #559fcd #2f7fbc #155fa3 #084387 #08285a"),
        "oranges": _stops("#fdf0e3 #fbddc1 #f7c191 #ee9c58 #dc7a2a #bd5c10 #94440b #6b2f07 #431d04"),
    },
    "dark": {
        "page": "#0f131a",
        "surface": "#151a23",
        "ink": "#eef2f8",
        "faint": "#a3adbd",
        "line": "#323b4a",
        "field": "#202735",
        "accent": BLUE_ON_DARK,
        "reference": ORANGE_ON_DARK,
        "right": TEAL_ON_DARK,
        "wrong": RED_ON_DARK,
        "reproduced": TEAL_ON_DARK,
        "not-reproduced": RED_ON_DARK,
        "inconclusive": "#e3c65b",
        "not-run": "#a3adbd",
        "curves": [BLUE_ON_DARK, ORANGE_ON_DARK, TEAL_ON_DARK, "#c4a7f5", "#e3c65b", "#f59ac0"],
        "blues": _stops("#1c2a3d #1b3653 #1b4670 #235d92 #3578b3 #5595cd #82b4e0 #b4d3ef #ebf5fd"),
        "oranges": _stops("#34271b #4b3118 #684016 #8b531a #b06c26 #cf8c47 #e5af79 #f4d4b2 #fdf1e4"),
    },
}
"""Colours of figures, explorers and verdicts on light and dark pages. ``blues`` run from the page's colour to
its opposite as weights grow, ``oranges`` likewise for negative values."""

INKS = ["#000000", WHITE]
"""The two colours of text on a tinted cell: on any tint, one of them has a contrast of at least 4.5."""

CLEAR = "none"
"""The transparent background, which shows the page's own."""

LOGO = {"weight": "#3b78b5", "reference": ORANGE}
VERDICTS = ("reproduced", "not-reproduced", "inconclusive", "not-run")
"""The keys in a theme of the colours for verdicts on claims, on the book's pages and in their figure."""

LINKS = {"light": "#0b5bc4", "dark": "#8ab6f9"}
"""The colours of links on the book's pages; legible on shaded backgrounds, too."""
