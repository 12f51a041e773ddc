"""The summary figure of "where attention tells", as its chapter draws it from the records."""

from pathlib import Path

from book.chapters.records import records
from book.chapters.tells import figures
from book.chapters.tells.tables import of_record, widest

from .drawn import write_drawing

FIGURE = """\
```{{figure}} /book/_front/summary.svg
:name: front-summary
:alt: {alt}

How far each measure gets from chance (0) to perfect (1): in plausibility (circles) and in faithfulness
(squares). Means and 95 % intervals over settings; {{numref}}`tells-recorded` shows each setting.
```"""


def summary(stage: Path) -> str:
    """The figure, as SVG, with its numbers; or a line that says that its run was not done."""
    _, rankings = of_record(widest(records("where_attention_tells")))
    if not rankings:
        return "*Not run yet*: `papermill` with the profile `seeds` of `where_attention_tells`."
    drawing = figures.measures_ranked(rankings)
    write_drawing(drawing, stage / "book/_front/summary.svg")
    return FIGURE.format(alt=drawing.alt)
