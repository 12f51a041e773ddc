"""What the explorers of attention share in Python: what is shown, and which layer, head and query."""

from collections.abc import Sequence
from typing import Any

import traitlets

from attnlib.widgets.explorer import Examples


class AttentionView(Examples):
    """Mixin with the traits that ``attention_view.js`` reads; put it before ``anywidget.AnyWidget``.

    An entry of ``examples`` holds at least a ``label`` and a ``shape`` that ends with layers, heads, queries
    and keys; an example has ``masks``, its distinct references.
    """

    masks = traitlets.Bytes(help="The distinct references of all examples, as bits.").tag(sync=True)
    layer = traitlets.Int(0, help="The layer shown.").tag(sync=True)
    head = traitlets.Int(0, help="The head shown; -1 for the mean of heads.").tag(sync=True)
    query = traitlets.Int(-1, help="The selected query row; -1 for none.").tag(sync=True)
    show_reference = traitlets.Bool(True, help="Whether reference cells are outlined.").tag(sync=True)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Layers, heads, queries and keys of the example shown."""
        return tuple(self.examples[self.example]["shape"][-4:])

    def _places(self) -> dict[str, tuple[int, str]]:
        if not self.examples:
            return super()._places()
        layers, heads, queries, _ = self._shape
        own = {"layer": (layers, ""), "head": (heads, "the mean of heads"), "query": (queries, "none")}
        return super()._places() | own

    def _show(self, items: Sequence[Any], at: int = 0) -> None:
        with self.hold_sync():
            self.masks = b"".join(mask for item in items for mask in item.masks)
            super()._show(items, at)
