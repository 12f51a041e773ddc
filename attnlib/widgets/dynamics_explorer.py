"""How a classifier learns where to look: scores of a document's tokens at every checkpoint."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attnlib.widgets.front_end import front_end
from attnlib.widgets.over_training import Curves, Parts, Steps
from attnlib.widgets.scores import Document, ScoresOverTraining


class DynamicsExplorer(ScoresOverTraining):
    """A document's tokens coloured by attention, keyword relevance and influence, as they form in training.

    Every score is a row: the text again, in the colours of that score, so that they can be compared token by
    token. Scores that are never negative, as attention is, go from blank to the strongest blue by the square
    root; others in proportion from orange (negative) over blank to blue (positive). A slider, a play button
    and the chart choose the checkpoint; the prediction there is shown, and compared with the gold label. With
    ``classify``, a live notebook has a box in which the reader types a document; a built page shows the
    recorded documents, and those typed before.

    Args:
        documents: ``{label: {"tokens": [...], "scores": {"alpha": ..., "beta": ..., "Delta": ...},
            "predicted": [...], "gold": "...", "true_relevance": ...}}``. Every score is float ``[checkpoint
            token]``, torch or numpy; predictions are one text per checkpoint. The gold label and the true
            relevance, float ``[token]``, may be left out. Scores with one checkpoint only are of the last.
        steps: training steps of the checkpoints, growing.
        curves: ``{name: one value per checkpoint}``, drawn over training; or ``{name: {step: value}}`` where
            a curve was measured at other steps. NaN or None leaves a gap.
        title: a line of text above the picture.
        classify: a function from a typed text to the parts of a document as above; it raises a ValueError for
            a text that it cannot read, and the reader sees the message. None: nothing can be typed.
        checkpoint: index of the checkpoint shown first; -1 is the last.
        item: index of the document shown first.
        token: the token chosen first; -1 is none.
        shown: the scores shown at first, by name; None for all.

    The arguments from ``checkpoint`` on are traits too: set them from Python, or ``observe`` what the reader
    chose. The recorded documents come first, then the typed ones. Beside each row is the curve of the chosen
    token, or if none is chosen, of the row's largest. ``error`` says what was wrong with the text typed last.

    Raises:
        ValueError: shapes that disagree, NaN, steps that do not grow, a curve or predictions of another
            length, a score that does not exist; the message names the document or the curve.
        traitlets.TraitError: a checkpoint, document or token that does not exist.

    Scores travel as one byte each, compressed (`attnlib.widgets.scores`): 3 scores of 4 documents of
    200 tokens at 20 checkpoints make a page of about 160 kB. The digits shown are right to one unit of the
    last.

    Example:
        >>> import torch
        >>> scores = {"alpha": torch.softmax(torch.randn(3, 4), -1), "beta": torch.randn(3, 4)}
        >>> document = {"tokens": "a really great film".split(), "scores": scores,
        ...             "predicted": ["bad", "good", "good"], "gold": "good"}
        >>> DynamicsExplorer({"a review": document}, [0, 10, 50], {"accuracy": [0.5, 0.7, 0.9]})
        DynamicsExplorer: 1 document, 3 checkpoints, scores alpha, beta
    """

    _esm, _css = front_end("dynamics_explorer.js")
    _noun, _pack = "document", Document.of

    def __init__(
        self,
        documents: Mapping[str, Parts],
        steps: Steps,
        curves: Curves | None = None,
        title: str = "",
        classify: Callable[[str], Parts] | None = None,
        *,
        checkpoint: int = -1,
        item: int = 0,
        token: int = -1,
        shown: Sequence[str] | None = None,
    ) -> None:
        how: dict[str, Any] = {"checkpoint": checkpoint, "item": item, "shown": shown}
        super().__init__(documents, steps, curves, title, classify, **how)
        self.token = token
