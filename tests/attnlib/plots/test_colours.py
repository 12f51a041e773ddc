"""Every colour is in one file, and whatever is drawn takes it from there."""

import re
import subprocess
from pathlib import Path
from string import Template

import matplotlib.colors
import pytest

from attnlib import colours
from attnlib.plots.themes import colour, in_theme
from attnlib.widgets.front_end import FRONT, front_end

ROOT = Path(__file__).parents[3]
NAMES = "|".join(matplotlib.colors.CSS4_COLORS)
# A colour as a number, anywhere; as a name where a style sheet, a script or a picture takes one; and whatever
# is said in quotes to matplotlib or seaborn about colours.
NUMBERS = r"(?<![&\w])#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{3,4}|[0-9a-fA-F]{8})\b(?![-\w])|\b(?:rgb|hsl)a?\(\s*\d"
STYLED = rf"(?:color|background|border|fill|stroke|Style)[\w-]*[\"']?\s*[:=][^;:{{}}]*\b(?:{NAMES})\b(?![-(])"
DRAWN = r"\b(?:colors?|cmap|palette|edgecolor|facecolor|ec|fc)\"?\s*[=:]\s*[\"'0]|color_palette\([\"']"
LITERALS = {
    **dict.fromkeys([".css", ".svg", ".js"], re.compile(f"{NUMBERS}|{STYLED}")),
    **dict.fromkeys([".py", ".md", ".ipynb"], re.compile(f"{NUMBERS}|{DRAWN}|[\"']C\\d[\"']")),
}
"""By the ending of a file: what only `attnlib.colours` may hold."""


def literals(name: str, text: str) -> list[str]:
    return [found[0] for found in LITERALS[Path(name).suffix].finditer(text)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.css", ".x { color: #fff; }"),
        ("a.css", ".x { background: rgb(1 2 3); }"),
        ("a.js", 'const A = ["#e8590c"];'),
        ("a.svg", '<g fill="navy">'),
        ("a.py", 'axis.plot(x, color="0.4")'),
        ("a.py", 'look = {"cmap": "Blues"}'),
        ("a.py", 'PAGE = "body { background: #0f131a; }"'),
    ],
)
def test_a_colour_is_found(name: str, text: str) -> None:
    assert literals(name, text)


def test_no_other_file_holds_a_colour() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: there is no list of files to look through")
    found = {}
    for name in listed.stdout.splitlines():
        elsewhere = name.startswith(("tests/", "book/assets/")) or name == "attnlib/colours.py"
        if Path(name).suffix in LITERALS and not elsewhere and (ROOT / name).is_file():
            found[name] = literals(name, (ROOT / name).read_text())
    assert len(found) > 100
    assert {name: colours for name, colours in found.items() if colours} == {}


def test_the_explorers_know_every_colour_that_their_styles_name() -> None:
    for explorer in FRONT.glob("*_explorer.js"):
        script, style = front_end(explorer.name)
        own = {"part"}  # how far a slider or a bar reaches
        for mode, theme in colours.THEMES.items():
            assert set(re.findall(r"var\(--([\w-]+)", style)) <= {*theme, *own}
            assert theme["accent"] in style and theme["accent"] in script, mode
    assert colours.THEMES["light"].keys() == colours.THEMES["dark"].keys()


def test_a_changed_colour_reaches_figures_explorers_logo_and_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(colours.THEMES["light"], "reference", "#123456")
    with in_theme("light"):
        assert colour("reference") == "#123456"
    with in_theme("dark"):
        assert colour("reference") == colours.ORANGE_ON_DARK
    assert all("#123456" in part for part in front_end("attention_explorer.js"))
    logo = (ROOT / "book/_static/logo.svg").read_text()
    assert Template(logo).substitute(weight="#123456", reference="#654321").count("#654321") == 2
    style = Template((ROOT / "book/_static/custom.css").read_text())
    names = style.get_identifiers()
    assert {"light", "dark_inconclusive"} <= {*names}
    assert style.substitute(dict.fromkeys(names, "#123456")).count("#123456") == len(names)
    assert colours.LOGO["reference"] == colours.ORANGE
