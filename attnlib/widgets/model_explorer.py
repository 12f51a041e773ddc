"""A model that runs in the page: type, and see its output, its attention, and what a swapped head changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets

from attnlib.models.transformer import head_names
from attnlib.widgets.attention_view import AttentionView
from attnlib.widgets.encoding import checked_tokens
from attnlib.widgets.front_end import front_end
from attnlib.widgets.naming import counted, named
from attnlib.widgets.packed_model import PackedModel, checked

SWAPS = ("even", "program", "off")
"""What a head's attention can be swapped for."""


class ModelExplorer(AttentionView, anywidget.AnyWidget):
    """Models computed in the page itself, with or without a kernel: the reader types, the model answers.

    Shown are the model's output beside the right one, and every head's attention; outlined is where the
    language's program looks, what a digit of a sum depends on, or where the symbol to write stands. Any
    head's attention can be swapped: for even attention, for the program's (in string reversal, the
    reference's), or off, which brings nothing; the output with the swap stands beside the one without. In
    rows where the program selects nothing, a head keeps its own attention, as it does in
    `book.chapters.rasp.measures`.

    Args:
        models: ``{label: {"model": ..., "task": ..., "texts": [...], "note": "..."}}``. A model is a
            `Transformer`; its task a `Language`, an `Arithmetic` or a `StringReversalGenerator` (a token per
            symbol, nothing around it); texts, one or more, are offered to begin with; the note, a line about
            the model, may be left out. The right output of what is typed is known for the languages of the
            paper, arithmetic and reversal; of a language of your own, for its texts.
        text: what is typed at first; "": the first text of the model shown first.
        title: a line of text above the picture.
        example: index of the model shown first.
        layer: the layer shown first.
        head: the head shown first; -1 is the mean of the layer's heads.
        query: the query row selected first; -1 is none.
        show_reference: whether the program's cells are outlined at first.
        swaps: by the name of a head, such as "L0H1", what stands in place of its attention: "even", "program"
            or "off".
        strength: how much of it does: $s$ in $(1 - s) A + s A'$, from 0 to 1, as in
            `attnlib.models.attention.reinforced`; a slider for the reader.

    What is shown, from ``text`` on, are traits too: set them from Python, or ``observe`` what the reader
    chose. A ``text`` that cannot be asked, set later or typed, is refused in the page, with the reason. A
    head has a program only where the language has one for it; elsewhere that swap changes nothing.

    Raises:
        ValueError: a model of another kind, or not of its task; a text outside the alphabet, empty, or longer
            than the model's positions. The message names the model.
        traitlets.TraitError: a model, layer, head, query or swap that does not exist, or a strength outside
            [0, 1].

    The page grows by about 2.3 bytes for each weight in half precision, as stored models have it
    (`book.chapters.storing.store_model`), and by about 5 otherwise.

    Example:
        >>> from attnlib.generators.rasp import language
        >>> from attnlib.models import Transformer, TransformerConfig
        >>> sort = language("sort", 10, bos=True)
        >>> model = Transformer(TransformerConfig(len(sort.tokenizer), len(sort.classes), max_length=31))
        >>> ModelExplorer({"untrained": {"model": model, "task": sort, "texts": ["badge"]}})
        ModelExplorer: 1 model, untrained
    """

    _esm, _css = front_end("model_explorer.js")

    text = traitlets.Unicode(help="What is typed.").tag(sync=True)
    swaps = traitlets.Dict(help="What stands in place of a head's attention, by its name.").tag(sync=True)
    strength = traitlets.Float(1.0, min=0.0, max=1.0, help="How much of it does.").tag(sync=True)

    def __init__(
        self,
        models: Mapping[str, Mapping[str, Any]],
        text: str = "",
        title: str = "",
        *,
        example: int = 0,
        layer: int = 0,
        head: int = 0,
        query: int = -1,
        show_reference: bool = True,
        swaps: Mapping[str, str] | None = None,
        strength: float = 1.0,
    ) -> None:
        super().__init__(title=title, show_reference=show_reference)
        self._show(named(PackedModel.of, "model", models), example)
        label, shown = list(models.items())[self.example]
        if text:
            (text,) = checked_tokens("text", [text])
            try:
                checked(shown["model"], shown["task"], text)
            except ValueError as error:
                raise ValueError(f"model {label!r}: {error}") from error
        self.text = text or self.examples[self.example]["task"]["texts"][0]["text"]
        self.layer, self.head, self.query = layer, head, query
        self.swaps, self.strength = dict(swaps or {}), strength

    @traitlets.validate("swaps")
    def _can_be_swapped(self, proposal: dict[str, Any]) -> dict[str, str]:
        names = head_names(*self._shape[:2]) if self.examples else []
        for head, swap in proposal["value"].items():
            if self.examples and head not in names:
                raise traitlets.TraitError(f"swaps names the head {head!r}; there are {', '.join(names)}.")
            if swap not in SWAPS:
                raise traitlets.TraitError(f"a swap must be one of {', '.join(SWAPS)}; got {swap!r}.")
        return dict(proposal["value"])

    def _addressed(self) -> list[str]:
        return [*super()._addressed(), "text"]

    def _sizes(self) -> str:
        labels = "; ".join(each["label"] for each in self.examples)
        return f"{counted(len(self.examples), 'model')}, {labels}"
