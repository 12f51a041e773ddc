"""The heat map of every layer and head: live in JupyterLab, and without a kernel in the built book."""

from collections.abc import Mapping, Sequence
from typing import Any

import anywidget

from attnlib.widgets.attention_view import AttentionView
from attnlib.widgets.encoding import Array, Example, References
from attnlib.widgets.front_end import front_end
from attnlib.widgets.naming import named

NEEDED = ("tokens", "attentions")
OPTIONAL = ("references", "query_tokens")


class AttentionExplorer(AttentionView, anywidget.AnyWidget):
    """Shows what every query attends to, in every layer and head, and where it should look.

    The last value of a notebook cell is the widget itself; a built page gets the same picture from the same
    front end, in one piece of HTML that needs neither kernel nor network.

    Args:
        tokens: of the keys (the columns), and of the queries (the rows) unless ``query_tokens`` is given.
            Shown as text whatever they hold; spaces, line breaks and empty tokens are made visible.
        attentions: weights in [0, 1], float ``[layer head query key]``, torch or numpy.
        references: where a query should look: bool ``[query key]`` for all heads, a dict
            ``{(layer, head): bool [query key]}`` for some, or None.
        query_tokens: tokens of the queries where they are another sequence than the keys, as in
            cross-attention; None where they are the same.
        title: a line of text above the picture.
        layer: the layer shown first.
        head: the head shown first; -1 is the mean of the layer's heads.
        query: the query row selected first; -1 is none.
        show_reference: whether reference cells are outlined at first.

    Attributes:
        example: index of the example shown, in the order given to `from_examples`; 0 otherwise.
        layer: the layer shown.
        head: the head shown; -1 for the mean of heads.
        query: the selected query row; -1 for none.
        show_reference: whether reference cells are outlined.

    The attributes are traits: set them from Python, or ``observe`` what the reader chose.

    Raises:
        ValueError: shapes that disagree, NaN, weights outside [0, 1], or a reference that is not bool.
        traitlets.TraitError: a layer, head, query or example that does not exist.

    Weights travel as one byte each (`attnlib.widgets.encoding`), so that 60 tokens with 4 layers of 8 heads
    make a page of about 200 kB; the page grows by 4/3 byte for each weight. A weight is off by at most 0.004,
    small ones by less, and the digits shown are right to one unit of the last.

    Example:
        >>> import torch
        >>> attentions = torch.softmax(torch.randn(2, 4, 5, 5), dim=-1)
        >>> AttentionExplorer(list("hello"), attentions, title="Untrained")
        AttentionExplorer 'Untrained': 5 tokens, 2 layers x 4 heads
    """

    _esm, _css = front_end("attention_explorer.js")

    def __init__(
        self,
        tokens: Sequence[str],
        attentions: Array,
        *,
        references: References = None,
        query_tokens: Sequence[str] | None = None,
        title: str = "",
        layer: int = 0,
        head: int = 0,
        query: int = -1,
        show_reference: bool = True,
    ) -> None:
        example = Example.of("", tokens, attentions, references, query_tokens)
        super().__init__(**_packed([example]), title=title, show_reference=show_reference)
        self.layer, self.head, self.query = layer, head, query

    @classmethod
    def from_examples(
        cls, examples: Mapping[str, Mapping[str, Any]], *, example: int = 0, **settings: Any
    ) -> "AttentionExplorer":
        """An explorer with a drop-down of named examples, such as variants of a model or several texts.

        Args:
            examples: ``{label: {"tokens": ..., "attentions": ..., "references": ..., "query_tokens": ...}}``;
                only the first two are needed. Examples may differ in every size.
            example: index of the example shown first.
            **settings: title, layer, head, query and show_reference, as for the class.

        Raises:
            ValueError: there is no example, or one of them is not valid; the message names it.

        Example:
            ``AttentionExplorer.from_examples({"with supervision": dict(tokens=tokens, attentions=trained),
            "without": dict(tokens=tokens, attentions=plain)}, title="String reversal")``
        """
        if not examples:
            raise ValueError("examples is empty; there must be at least one {label: {tokens, attentions}}.")
        packed = [
            named(Example.of, "example", label, parts, NEEDED, OPTIONAL) for label, parts in examples.items()
        ]
        first = next(iter(examples.values()))
        chosen = {name: settings.pop(name) for name in ("layer", "head", "query") if name in settings}
        explorer = cls(**first, **settings)
        with explorer.hold_sync():
            explorer.set_trait("example", 0)
            for name, value in _packed(packed).items():
                explorer.set_trait(name, value)
            explorer.example = example
            for name, value in chosen.items():
                explorer.set_trait(name, value)
        return explorer

    def summary(self) -> str:
        """The name, the title and the sizes, on one line."""
        layers, heads, queries, keys = self._shape
        sizes = f"{keys} tokens" if queries == keys else f"{queries} queries and {keys} keys"
        title = f" {self.title!r}" if self.title else ""
        several = f", {len(self.examples)} examples" if len(self.examples) > 1 else ""
        return f"AttentionExplorer{title}: {sizes}, {layers} layers x {heads} heads{several}"


def _packed(examples: Sequence[Example]) -> dict[str, Any]:
    """The traits that hold the data, in the order in which the front end unpacks them."""
    return {
        "examples": [example.describe() for example in examples],
        "weights": b"".join(example.weights.tobytes() for example in examples),
        "masks": b"".join(mask for example in examples for mask in example.masks),
    }
