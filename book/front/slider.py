"""The page with the slider: a model that reverses strings, and the record of a larger one."""

from pathlib import Path

from attnlib.widgets import ModelExplorer
from book.chapters.findings.finding import NotRunError
from book.chapters.reasoning.figures import redirecting

from .cards import percent, reversals
from .explorer import placed

LARGER = """\
The same repair works in a language model that was fine-tuned on up to 20 letters. On strings of up to 50
letters, it gets {before} of the letters right, and {after} with eight of its 270 heads redirected. Redirected
to random keys instead, it gets {random}."""


def slider(stage: Path) -> str:
    """The explorer with the slider, the tiles and the curve."""
    return placed(ModelExplorer(**redirecting()), stage, "slider")


def in_a_language_model(stage: Path) -> str:
    """A paragraph on the record of the fine-tuned language model, or a line if there is no record."""
    try:
        curves = reversals()
    except NotRunError:
        return "*Not run yet*: the record of the language model is not there."
    (before, *_, after), (*_, random) = curves["the reference"], curves["random keys"]
    return LARGER.format(before=percent(before), after=percent(after), random=percent(random))
