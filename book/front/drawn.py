"""Write a drawing as the files that `book/_ext/figure_data.py` expects beside a picture."""

from pathlib import Path

from attnlib.plots import Drawing
from attnlib.plots.drawing import CSV, carried


def write_drawing(drawing: Drawing, path: Path) -> None:
    """Write the light picture to `path`, x.svg, and beside it the dark one, x.dark.svg, and x.csv (data)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(drawing.svg(), encoding="utf-8")
    path.with_suffix(".dark.svg").write_text(drawing.svg("dark"), encoding="utf-8")
    path.with_suffix(".csv").write_text(carried(drawing.data)[CSV], encoding="utf-8")
