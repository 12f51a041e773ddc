"""The summary figure of "which judge can be trusted?", as its chapter's record has it."""

from pathlib import Path

from book.chapters.judging.figures import kept, kept_rankings
from book.chapters.judging.predictions import HEADS_TOLD
from book.chapters.tells.figures import measures_ranked

from .drawn import write_drawing

FIGURE = """\
```{{figure}} /book/_front/summary.svg
:name: front-summary
:alt: {alt}

How far each measure gets from noise alone (0) to the truth (1), the most plausible first: in plausibility
(circles), and in faithfulness by the judge that was chosen by known answers (squares). Means and 95 %
intervals over {n} settings, of questions that are answered rightly (the list above has the others, too). In
{told} of these, heads are a program's or were told where to look, which speaks for attention and rollout.
{{numref}}`judging-measures-recorded` shows each setting.
```"""


def summary(stage: Path) -> str:
    """The figure, as SVG, with its numbers; or a line that says that its run was not done."""
    rankings = kept_rankings(kept())
    if not rankings:
        return "*Not run yet*: `papermill` with the profile `paper` of `judging_measures`."
    drawing = measures_ranked(rankings)
    write_drawing(drawing, stage / "book/_front/summary.svg")
    n = int(next(iter(rankings.values()))["n"].max())
    return FIGURE.format(alt=drawing.alt, n=n, told=HEADS_TOLD)
