"""What the explorers of attention share in Python: what is shown, and which layer, head and query."""

from typing import Any

import traitlets

from attnlib.widgets.static import StaticTwin


class AttentionView(StaticTwin, traitlets.HasTraits):
    """Mixin with the traits that ``attention_view.js`` reads; put it before ``anywidget.AnyWidget``.

    An entry of ``examples`` holds at least a ``label`` and a ``shape`` that ends with layers, heads, queries
    and keys.
    """

    title = traitlets.Unicode(help="A line of text above the picture.").tag(sync=True)
    examples = traitlets.List(traitlets.Dict(), help="What is shown besides weights and masks.").tag(
        sync=True
    )
    weights = traitlets.Bytes(help="The quantised weights of all examples, one after the other.").tag(
        sync=True
    )
    masks = traitlets.Bytes(help="The distinct references of all examples, as bits.").tag(sync=True)
    example = traitlets.Int(0, help="Index of the example shown.").tag(sync=True)
    layer = traitlets.Int(0, help="The layer shown.").tag(sync=True)
    head = traitlets.Int(0, help="The head shown; -1 for the mean of heads.").tag(sync=True)
    query = traitlets.Int(-1, help="The selected query row; -1 for none.").tag(sync=True)
    show_reference = traitlets.Bool(True, help="Whether reference cells are outlined.").tag(sync=True)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Layers, heads, queries and keys of the example shown."""
        return tuple(self.examples[self.example]["shape"][-4:])

    @traitlets.validate("example", "layer", "head", "query")
    def _check_index(self, proposal: dict[str, Any]) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        if not self.examples:  # while the widget is being made
            return value
        first = -1 if name in ("head", "query") else 0
        counts = {
            "example": len(self.examples),
            **dict(zip(("layer", "head", "query"), self._shape, strict=False)),
        }
        if not first <= value < counts[name]:
            none = {"head": " (-1 for the mean of heads)", "query": " (-1 for none)"}.get(name, "")
            raise traitlets.TraitError(
                f"{name} must be from {first} to {counts[name] - 1}{none}; got {value}."
            )
        return value

    @traitlets.observe("example")
    def _stay_inside(self, change: dict[str, Any]) -> None:
        """Another example may have fewer layers, heads or queries than the one shown before."""
        layers, heads, queries, _ = self._shape
        self.layer = min(self.layer, layers - 1)
        self.head = min(self.head, heads - 1)
        self.query = self.query if self.query < queries else -1
