"""A Sphinx extension: the logo in the pages has its colours from `attnlib.colours`."""

from pathlib import Path
from string import Template
from typing import Any

from sphinx.application import Sphinx

from attnlib.colours import LOGO


def fill(app: Sphinx, error: Exception | None) -> None:
    """Put a colour in the place of each name in the logo, once it lies among the pages."""
    path = Path(app.outdir) / "_static" / "logo.svg"
    if path.is_file():
        path.write_text(Template(path.read_text()).substitute(LOGO))


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("build-finished", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
