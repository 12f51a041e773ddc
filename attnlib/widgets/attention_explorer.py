"""Every head of every layer on a text: where each token looks, beside where it should."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import traitlets
from jaxtyping import UInt8

from attnlib.widgets.encoding import (
    Array,
    References,
    check_tokens,
    check_weights,
    deflate,
    dequantise,
    packed_masks,
    quantise,
)
from attnlib.widgets.explorer import Examples, Explorer, Item, strongest
from attnlib.widgets.front_end import front_end


@dataclass(frozen=True)
class Attention(Item):
    """One sequence (or pair of sequences) and its attention at one checkpoint or more, checked and packed.

    Attributes:
        tokens: tokens of the keys; also of the queries where ``query_tokens`` is None.
        weights: the attention weights as bytes; see `quantise`.
        masks: the distinct references; see `packed_masks`.
        mask_of: per layer and head, the index into ``masks``; -1 where there is no reference.
        answers: the model's answers, one per checkpoint; empty where there are none.
    """

    label: str
    tokens: tuple[str, ...]
    query_tokens: tuple[str, ...] | None
    weights: UInt8[np.ndarray, "checkpoint layer head query key"]
    masks: tuple[bytes, ...]
    mask_of: tuple[tuple[int, ...], ...]
    answers: tuple[str, ...] = ()
    expected: str | None = None
    typed: bool = False

    _packed = ("weights", "masks")

    @classmethod
    def of(
        cls,
        label: str,
        tokens: Sequence[str],
        attentions: Array,
        references: References = None,
        query_tokens: Sequence[str] | None = None,
    ) -> Attention:
        """Checks and packs one checkpoint; `AttentionExplorer` describes the arguments."""
        keys = check_tokens("tokens", tokens)
        queries = None if query_tokens is None else check_tokens("query_tokens", query_tokens)
        values = check_weights(attentions, len(keys if queries is None else queries), len(keys))
        return cls(label, keys, queries, quantise(values)[None], *packed_masks(references, values.shape))

    @cached_property
    def packed(self) -> bytes:
        """The bytes of the weights, compressed, in the order of their axes."""
        return deflate(self.weights)

    def most_on_reference(self) -> tuple[int, int, int]:
        """The layer and head with the largest share of attention on their reference, and the query there.

        Shares are those of the last checkpoint, averaged over the queries that have a reference. If no head
        has a reference, the first head and no query (-1) are returned.
        """
        best, found, cells = -1.0, (0, 0, -1), self.weights.shape[-2:]
        for (layer, head), index in np.ndenumerate(np.array(self.mask_of)):
            if index < 0:
                continue
            bits = np.frombuffer(self.masks[index], np.uint8)
            mask = np.unpackbits(bits, count=int(np.prod(cells))).reshape(cells)
            inside = (dequantise(self.weights[-1, layer, head]) * mask).sum(1)
            asked = np.flatnonzero(mask.any(1))
            if len(asked) and (share := inside[asked].mean()) > best:
                best, found = share, (int(layer), int(head), int(asked[inside[asked].argmax()]))
        return found

    def describe(self) -> dict[str, Any]:
        """What the front end needs besides the bytes, as JSON can hold it."""
        return super().describe() | {"shape": list(self.weights.shape), "masks": len(self.masks)}


class AttentionView(Explorer):
    """An explorer with the traits that ``attention_view.js`` reads.

    An item's ``shape`` ends with layers, heads, queries and keys; its ``masks`` are its distinct references.
    """

    masks = traitlets.Bytes(help="The distinct references of all items, as bits.").tag(sync=True)
    layer = traitlets.Int(0, help="The layer shown.").tag(sync=True, addressed=True)
    head = traitlets.Int(0, help="The head shown; -1 for the mean of heads.").tag(sync=True, addressed=True)
    query = traitlets.Int(-1, help="The selected query row; -1 for none.").tag(sync=True, addressed=True)
    key = traitlets.Int(-1, help="The selected key in it; -1 for none.").tag(sync=True, addressed=True)
    colours = strongest("whole")
    drawn = traitlets.Enum(("map", "lines"), default_value="map", help="A heat map, or lines.").tag(
        sync=True, addressed=True
    )
    show_reference = traitlets.Bool(True, help="Whether reference cells are outlined.").tag(
        sync=True, addressed=True
    )

    @property
    def _shape(self) -> tuple[int, ...]:
        """Layers, heads, queries and keys of the item shown."""
        return tuple(self._shown["shape"][-4:])

    def _places_within(self) -> dict[str, tuple[int, str]]:
        layers, heads, queries, keys = self._shape
        own = {"layer": (layers, ""), "head": (heads, "the mean of heads")}
        own |= {"query": (queries, "none"), "key": (keys, "none")}
        return super()._places_within() | own

    def _show(self, items: Sequence[Any], at: int = 0) -> None:
        with self.hold_sync():
            self.masks = b"".join(mask for item in items for mask in item.masks)
            super()._show(items, at)


class AttentionExplorer(AttentionView, Examples):
    """Shows what every query attends to, in every layer and head, and where it should look.

    The last value of a notebook cell is the widget itself; a built page gets the same picture from the same
    front end, in one piece of HTML that needs neither kernel nor network.

    Args:
        tokens: tokens of the keys (the columns), and of the queries (the rows) unless ``query_tokens`` is
            given. They are shown as plain text; spaces, line breaks and empty tokens are made visible.
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

    The arguments from ``layer`` on are traits too: set them from Python, or ``observe`` what the reader
    chose. Further traits are ``key``, selected in the query's row; ``drawn``, "map" or "lines"; ``colours``,
    a scale to the largest possible weight ("whole") or to the largest one shown ("shown"); and ``item``, the
    index of the example shown (`from_examples`). The reader can save the picture as SVG, PNG or CSV.

    Raises:
        ValueError: shapes that disagree, NaN, weights outside [0, 1], or a reference that is not bool.
        traitlets.TraitError: a layer, head, query or item that does not exist.

    Weights travel as one byte each, compressed (`attnlib.widgets.encoding`), so that 60 tokens with 4 layers
    of 8 heads make a page of at most 200 kB; the page grows by at most 4/3 byte for each weight. A weight is
    off by at most 0.004, small ones by less, and the digits shown are right to one unit of the last.

    Example:
        >>> import torch
        >>> attentions = torch.softmax(torch.randn(2, 4, 5, 5), dim=-1)
        >>> AttentionExplorer(list("hello"), attentions, title="Untrained")
        AttentionExplorer 'Untrained': 5 tokens, 2 layers x 4 heads
    """

    _esm, _css = front_end("attention_explorer.js")
    _pack = Attention.of

    reference_rows = traitlets.Bool(False, help="Only queries with a reference are shown.").tag(
        sync=True, addressed=True
    )

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
        item = Attention.of("", tokens, attentions, references, query_tokens)
        self._show([item])
        if layer is head is query is None:
            self.layer, self.head, self.query = item.most_on_reference()
        else:
            self.layer, self.head, self.query = layer or 0, head or 0, -1 if query is None else query

    def _sizes(self) -> str:
        layers, heads, queries, keys = self._shape
        sizes = f"{keys} tokens" if queries == keys else f"{queries} queries and {keys} keys"
        return f"{sizes}, {layers} layers x {heads} heads{self._several()}"
