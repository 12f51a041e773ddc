"""What explorers of scores share: the documents, their scores at every checkpoint, and the token chosen."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import anywidget
import traitlets

from attnlib.widgets.naming import counted
from attnlib.widgets.over_training import Curves, OverTraining, Parts, Steps
from attnlib.widgets.scored_document import Document


class ScoresExplorer(OverTraining, anywidget.AnyWidget):
    """The explorer whose traits ``scores_view.js`` reads; a subclass says which front end shows them."""

    _noun = "document"
    _item: ClassVar[type[Document]] = Document

    documents = traitlets.List(traitlets.Dict(), help="What is shown besides the scores.").tag(sync=True)
    weights = traitlets.Bytes(help="The compressed scores of all documents, in order.").tag(sync=True)
    document = traitlets.Int(0, help="Index of the document shown.").tag(sync=True)
    token = traitlets.Int(-1, help="The chosen token; -1 for none.").tag(sync=True)

    def __init__(
        self,
        documents: Mapping[str, Parts],
        steps: Steps,
        curves: Curves | None,
        title: str,
        answer: Callable[[str], Parts] | None,
        *,
        checkpoint: int,
        document: int,
    ) -> None:
        super().__init__(documents, steps, curves, answer, checkpoint, title=title)
        self._show(self._items, document)

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
