"""A Sphinx extension: pages load only the twenty icons that they show, not the theme's two thousand.

The theme loads all icons twice, as a script of 1.5 MB and as a font of 0.2 MB. The script is removed. The
font is reduced to the icons that pages and style sheet name: a few kilobytes, embedded in the style sheet.
Screen readers skip icons, since the words beside them have the same meaning.
"""

import base64
import io
import re
from pathlib import Path
from typing import Any

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from sphinx.application import Sphinx

SCRIPT = re.compile(r'\s*<!-- So that users[^>]*-->\s*<script src="[^"]*fontawesome\.js[^>]*></script>')
NAME = re.compile(r"\bfa-[a-z0-9-]+")
SILENT = re.compile(r'<i (?=class="[^"]*\bfa[sr-])')
RULE = re.compile(r'((?:\.fa-[a-z0-9-]+:before,?)+)\{content:"([^"]+)"\}')
OF_THEME = re.compile(r'--pst-icon-[a-z-]+:"([^"]+)"')
ESCAPED = re.compile(r"\\([0-9a-f]+) ?")
SOURCE = re.compile(r"src:url\([^)]*fa-solid-900\.woff2\)[^;}]*")


def in_use(sheet: str, names: set[str]) -> tuple[str, str]:
    """A style sheet without the rules of unused icons, and the characters of the icons that it keeps."""
    characters = OF_THEME.findall(sheet)

    def keep(rule: re.Match[str]) -> str:
        if not names & set(NAME.findall(rule[1])):
            return ""
        characters.append(rule[2])
        return rule[0]

    sheet = RULE.sub(keep, sheet)
    return sheet, ESCAPED.sub(lambda code: chr(int(code[1], 16)), "".join(characters))


def font_of(path: Path, characters: str) -> str:
    """A font with these characters alone, as a data URL."""
    font = TTFont(path, recalcTimestamp=False)
    chosen = Subsetter(Options(notdef_outline=True))
    chosen.populate(text=characters)
    chosen.subset(font)
    font.flavor = "woff"
    font.save(whole := io.BytesIO())
    return f"data:font/woff;base64,{base64.b64encode(whole.getvalue()).decode()}"


def lighten(app: Sphinx, error: Exception | None) -> None:
    """Remove the script from every page, and unused icons from style sheet and font."""
    if error is not None or app.builder.format != "html":
        return
    static, names = Path(app.outdir, "_static"), set[str]()
    for path in Path(app.outdir).rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        names |= set(NAME.findall(page))
        path.write_text(SILENT.sub('<i aria-hidden="true" ', SCRIPT.sub("", page)), encoding="utf-8")
    for path in static.glob("scripts/*.js"):
        if path.name == "fontawesome.js":
            path.unlink()
        else:
            names |= set(NAME.findall(path.read_text(encoding="utf-8")))
    path = static / "styles/pydata-sphinx-theme.css"
    sheet, characters = in_use(path.read_text(encoding="utf-8"), names)
    font = font_of(static / "vendor/fontawesome/webfonts/fa-solid-900.ttf", characters)
    path.write_text(SOURCE.sub(f'src:url({font}) format("woff")', sheet), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("build-finished", lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
