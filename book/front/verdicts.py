"""The verdicts as one chart: a line per claim, the number that decides it, and what that is held against."""

from pathlib import Path
from textwrap import fill
from typing import Any

import pandas as pd

from attnlib.plots import Drawing, estimates
from book.chapters.findings.claims import findings
from book.chapters.findings.finding import VERDICTS

from .drawn import write_drawing

LETTERS = 46
"""Of a line of a claim."""

FIGURE = """\
```{{figure}} /book/_front/verdicts.svg
:name: front-verdicts
:alt: {alt}

Every claim with the number that speaks most against it, named in brackets, and its 95 % interval; the stroke
is what that is held against. Colour and shape are the verdict, by a rule over all numbers of the claim. The
list below and the chapters say what the intervals are over.
```"""


def verdicts(stage: Path) -> str:
    """The chart, as SVG, with its numbers; or a line that says that nothing was run."""
    found = decided()
    if found.empty:
        return "*Not run yet*: no claim has a record."
    drawn = chart(found)
    write_drawing(drawn, stage / "book/_front/verdicts.svg")
    return FIGURE.format(alt=" ".join(drawn.alt.split()))


def decided() -> pd.DataFrame:
    """A row per claim that was judged: `claim`, `verdict`, and its `Crux`; verdicts in their order."""
    rows: list[dict[str, Any]] = [
        {"claim": each.claim.words, "verdict": each.outcome.verdict, **each.outcome.crux._asdict()}
        for each in findings()
        if each.outcome.crux
    ]
    rows.sort(key=lambda row: VERDICTS.index(row["verdict"]))
    return pd.DataFrame(rows)


def chart(found: pd.DataFrame) -> Drawing:
    """The rows of `decided` as a dot plot."""
    words = found["claim"].map(lambda claim: fill(claim.replace("`", ""), LETTERS))
    notes = dict(zip(words, found["of"].map(lambda of: f"({fill(of, LETTERS)})"), strict=True))
    found = found.assign(claim=words)
    bounds = found.assign(value=found["bound"], mark="held against")[["claim", "value", "mark"]]
    label = "share, correlation, or a difference of such"
    return estimates(found, "claim", "verdict", label, marks=bounds, notes=notes, xlim=None)
