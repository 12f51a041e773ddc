"""A Sphinx extension: the logo and the style sheet of the pages take their colours from `attnlib.colours`."""

from pathlib import Path
from string import Template
from typing import Any

from sphinx.application import Sphinx

from attnlib.colours import LINKS, LOGO, THEMES, VERDICTS

_NAMED = {
    f"{theme}_{name.replace('-', '_')}": str(colours[name])
    for theme, colours in THEMES.items()
    for name in (*VERDICTS, "reference")
}

COLOURED = {"logo.svg": LOGO, "custom.css": LINKS | _NAMED}


def fill(app: Sphinx, error: Exception | None) -> None:
    """Replace the names of colours in the files of `COLOURED`, once they are among the pages."""
    for name, colours in COLOURED.items():
        path = Path(app.outdir) / "_static" / name
        if path.is_file():
            text = Template(path.read_text(encoding="utf-8")).substitute(colours)
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("build-finished", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
