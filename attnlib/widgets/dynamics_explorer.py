"""How a classifier learns where to look: the scores of a document's tokens, checkpoint by checkpoint."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import anywidget
import traitlets

from attnlib.widgets.front_end import front_end
from attnlib.widgets.naming import counted
from attnlib.widgets.over_training import Curves, OverTraining, Parts, Steps
from attnlib.widgets.scored_document import Document


class DynamicsExplorer(OverTraining, anywidget.AnyWidget):
    """A document's tokens coloured by attention, keyword relevance and influence, as they form in training.

    Every score is a row: the text again, in the colours of that score, so that they can be compared token by
    token. Scores that are never negative, as attention is, go from blank to the strongest blue by the square
    root; others in proportion from orange (negative) over blank to blue (positive). A slider, a play button
    and the chart choose the checkpoint; the prediction there is shown and judged. With ``classify``, a live
    notebook has a box in which the reader types a document; a built page shows the recorded ones, and those
    typed before.

    Args:
        documents: ``{label: {"tokens": [...], "scores": {"alpha": ..., "beta": ..., "Delta": ...},
            "predicted": [...], "gold": "...", "true_relevance": ...}}``. Every score is float ``[checkpoint
            token]``, torch or numpy; predictions are one text per checkpoint. The gold label and the true
            relevance, float ``[token]``, may be left out. A document with one checkpoint only is of the last.
        steps: training steps of the checkpoints, growing.
        curves: ``{name: one value per checkpoint}``, drawn over training; or ``{name: {step: value}}`` where
            a curve was measured at other steps. NaN or None leaves a gap.
        title: a line of text above the picture.
        classify: from a typed text to the parts of a document as above; what it cannot read it refuses with a
            ValueError, whose message the reader sees. None where nothing can be typed.
        checkpoint: index of the checkpoint shown first; -1 is the last.
        document: index of the document shown first.
        token: the token chosen first; -1 is none.
        shown: the scores shown at first, by name; None for all.

    What is shown, from ``checkpoint`` on, are traits too: set them from Python, or ``observe`` what the
    reader chose. Documents are the recorded ones, then those typed; without a token, each row follows its
    largest. ``error`` says what was wrong with the text typed last.

    Raises:
        ValueError: shapes that disagree, NaN, steps that do not grow, a curve or predictions of another
            length, a score that does not exist; the message names the document or the curve.
        traitlets.TraitError: a checkpoint, document or token that does not exist.

    Scores travel as one byte each, compressed (`attnlib.widgets.scored_document`): 3 scores of 4 documents of
    200 tokens at 20 checkpoints make a page of about 130 kB. The digits shown are right to one unit of the
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

    _noun = "document"
    _item: ClassVar[type[Document]] = Document

    documents = traitlets.List(traitlets.Dict(), help="What is shown besides the scores.").tag(sync=True)
    weights = traitlets.Bytes(help="The compressed scores of all documents, in order.").tag(sync=True)
    document = traitlets.Int(0, help="Index of the document shown.").tag(sync=True)
    token = traitlets.Int(-1, help="The chosen token; -1 for none.").tag(sync=True)
    shown = traitlets.List(traitlets.Unicode(), help="Names of the scores shown.").tag(sync=True)

    def __init__(
        self,
        documents: Mapping[str, Parts],
        steps: Steps,
        curves: Curves | None = None,
        title: str = "",
        classify: Callable[[str], Parts] | None = None,
        *,
        checkpoint: int = -1,
        document: int = 0,
        token: int = -1,
        shown: Sequence[str] | None = None,
    ) -> None:
        super().__init__(documents, steps, curves, classify, checkpoint, title=title)
        names = self._names()
        if unknown := set(names if shown is None else shown) - set(names):
            raise ValueError(f"shown has {sorted(unknown)}; the documents have scores {', '.join(names)}.")
        self.shown = names if shown is None else list(shown)
        self._show(self._items, document)
        self.token = token

    def _sizes(self) -> str:
        sizes = f"{counted(len(self.documents), self._noun)}, {counted(len(self.steps), 'checkpoint')}"
        return f"{sizes}, scores {', '.join(self._names())}"

    def _names(self) -> list[str]:
        """Every score of any document, in the order of their first appearance."""
        return list(dict.fromkeys(name for document in self._items for name in document.scores))

    def _places(self) -> dict[str, tuple[int, str]]:
        if not self.documents:
            return super()._places()
        tokens = len(self.documents[self.document]["tokens"])
        return super()._places() | {"document": (len(self.documents), ""), "token": (tokens, "none")}

    def _show(self, items: Sequence[Document], at: int) -> None:
        negative = {name for each in items for name in each.negative()}
        packed = [each.packed(negative) for each in items]
        with self.hold_sync():
            self.weights = b"".join(packed)
            self.documents = [
                each.describe(negative) | {"bytes": len(data)}
                for each, data in zip(items, packed, strict=True)
            ]
            self.document = at
            self._stay_inside()

    def _reply(self, text: str) -> None:
        before = self._names()
        with self.hold_sync():
            super()._reply(text)
            self.shown = [*self.shown, *(name for name in self._names() if name not in before)]
