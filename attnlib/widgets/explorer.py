"""What every explorer has in Python: a title, and places in what it shows that the reader chooses."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import traitlets

from attnlib.widgets.naming import counted, named, seen
from attnlib.widgets.static import StaticTwin

E = TypeVar("E", bound="NamedExamples")


class Explorer(StaticTwin, traitlets.HasTraits):
    """Mixin of all explorers; put it before ``anywidget.AnyWidget``."""

    title = traitlets.Unicode(help="A line of text above the picture.").tag(sync=True)

    @traitlets.validate("title")
    def _readable(self, proposal: dict[str, Any]) -> str:
        return seen(proposal["value"])

    def summary(self) -> str:
        """The name, the title and the sizes, on one line."""
        title = f" {self.title!r}" if self.title else ""
        return f"{type(self).__name__.removeprefix('Live')}{title}: {self._sizes()}"

    def _sizes(self) -> str:
        raise NotImplementedError

    def _places(self) -> dict[str, tuple[int, str]]:
        """By trait: how many places there are, and what -1 stands for, if for anything."""
        return {}

    def _addressed(self) -> list[str]:
        return [*self._places()]

    @traitlets.validate("checkpoint", "document", "example", "generated", "head", "layer", "query", "token")
    def _exists(self, proposal: dict[str, Any]) -> int:
        name, value, places = proposal["trait"].name, proposal["value"], self._places()
        if name in places:  # not while the widget is being made
            count, none = places[name]
            first, also = (-1, f" (-1 for {none})") if none else (0, "")
            if not first <= value < count:
                raise traitlets.TraitError(f"{name} must be from {first} to {count - 1}{also}; got {value}.")
        return int(value)

    @traitlets.observe("document", "example")
    def _stay_inside(self, change: object = None) -> None:
        """What is shown now may have fewer places than what was before: the last, or none, is chosen."""
        for name, (count, none) in self._places().items():
            if getattr(self, name) >= count:
                setattr(self, name, -1 if none == "none" else count - 1)


class Examples(Explorer):
    """Mixin of explorers of one of several examples; each has its bytes, ``packed``, and ``describe()``."""

    examples = traitlets.List(traitlets.Dict(), help="What is shown besides the bytes.").tag(sync=True)
    weights = traitlets.Bytes(help="The bytes of all examples, one after the other.").tag(sync=True)
    example = traitlets.Int(0, help="Index of the example shown.").tag(sync=True)

    def _places(self) -> dict[str, tuple[int, str]]:
        return super()._places() | ({"example": (len(self.examples), "")} if self.examples else {})

    def _show(self, items: Sequence[Any], at: int = 0) -> None:
        """Puts these in the place of what was shown, at once."""
        with self.hold_sync():
            self.weights = b"".join(item.packed for item in items)
            self.examples = [item.describe() for item in items]
            self.example = at
            self._stay_inside()

    def _several(self) -> str:
        return f", {counted(len(self.examples), 'example')}" if len(self.examples) > 1 else ""


class NamedExamples(Examples):
    """Mixin of explorers of one example, which can be made of several."""

    _item: ClassVar[Any]
    """The class that checks and packs an example."""

    @classmethod
    def from_examples(
        cls: type[E], examples: Mapping[str, Mapping[str, Any]], *, example: int = 0, **settings: Any
    ) -> E:
        """An explorer with a drop-down of named examples: variants of a model, say, or several texts.

        Args:
            examples: by name, what the class takes to show one. Examples may differ in every size.
            example: index of the example shown first.
            **settings: what else the class takes: the title, and what is shown first.

        Raises:
            ValueError: there is no example, or one of them is not valid; the message names it.
        """
        items = named(cls._item.of, "example", examples)
        explorer = cls(**next(iter(examples.values())))
        explorer._show(items)
        for name, value in {"example": example, **settings}.items():
            explorer.set_trait(name, value)
        return explorer
