"""Every head of every layer on a text: where each token looks, beside where it should."""

from collections.abc import Sequence

import anywidget
import traitlets

from attnlib.widgets.attention_view import AttentionView
from attnlib.widgets.encoding import Array, Example, References
from attnlib.widgets.explorer import NamedExamples
from attnlib.widgets.front_end import front_end


class AttentionExplorer(AttentionView, NamedExamples, anywidget.AnyWidget):
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
        layer: the layer shown first. If neither layer, head nor query is given, these are the head with the
            largest share of its attention on its reference, and the query there.
        head: the head shown first; -1 is the mean of the layer's heads.
        query: the query row selected first; -1 is none.
        show_reference: whether reference cells are outlined at first.
        reference_rows: whether only the queries that have a reference in some head are shown at first.

    What is shown, from ``layer`` on, are traits too, and so is ``example``, the index of the one shown where
    there are several (`from_examples`): set them from Python, or ``observe`` what the reader chose.

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
    _item = Example

    reference_rows = traitlets.Bool(False, help="Only queries with a reference are shown.").tag(sync=True)

    def __init__(
        self,
        tokens: Sequence[str],
        attentions: Array,
        *,
        references: References = None,
        query_tokens: Sequence[str] | None = None,
        title: str = "",
        layer: int | None = None,
        head: int | None = None,
        query: int | None = None,
        show_reference: bool = True,
        reference_rows: bool = False,
    ) -> None:
        super().__init__(title=title, show_reference=show_reference, reference_rows=reference_rows)
        example = Example.of("", tokens, attentions, references, query_tokens)
        self._show([example])
        if layer is head is query is None:
            self.layer, self.head, self.query = example.most_on_reference()
        else:
            self.layer, self.head, self.query = layer or 0, head or 0, -1 if query is None else query

    def _sizes(self) -> str:
        layers, heads, queries, keys = self._shape
        sizes = f"{keys} tokens" if queries == keys else f"{queries} queries and {keys} keys"
        return f"{sizes}, {layers} layers x {heads} heads{self._several()}"
