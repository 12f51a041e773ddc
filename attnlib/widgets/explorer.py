"""Base classes of all explorers: a title, the items to show, and the traits that the reader chooses."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import anywidget
import traitlets

from attnlib.widgets.naming import counted, named, seen
from attnlib.widgets.static import StaticTwin

E = TypeVar("E", bound="Examples")
_log = logging.getLogger(__name__)


class Item:
    """Base of the dataclasses that explorers show: checked data, a ``label``, and bytes, ``packed``."""

    _packed: ClassVar[tuple[str, ...]] = ("packed",)
    """Names of the fields that are sent as bytes, and not as JSON."""

    def describe(self) -> dict[str, Any]:
        """What the front end needs besides the bytes: all other fields, as JSON can hold them."""
        names = [each.name for each in fields(self) if each.name not in self._packed]  # type: ignore[arg-type]
        told: dict[str, Any] = json.loads(json.dumps({name: getattr(self, name) for name in names}))
        return told


class Explorer(StaticTwin, anywidget.AnyWidget):
    """Base of all explorers: the picture of one of several `Item`s, which a subclass checks and packs."""

    title = traitlets.Unicode(help="A line of text above the picture.").tag(sync=True)
    items = traitlets.List(traitlets.Dict(), help="What is shown besides the bytes.").tag(sync=True)
    weights = traitlets.Bytes(help="The bytes of all items, one after the other.").tag(sync=True)
    item = traitlets.Int(0, help="Index of the item shown.").tag(sync=True, addressed=True)
    addressed = traitlets.Dict(help="The kind of each trait that a reader chooses, by name.").tag(sync=True)

    @traitlets.default("addressed")
    def _chosen_by_readers(self) -> dict[str, str]:
        """The traits with the tag `addressed`: the page's address holds them, a step back restores them.

        They may be integers from -1, floats in [0, 1], booleans, texts, lists of texts without `~`, and
        dictionaries of short texts without `.` and `~`.
        """
        return {name: type(trait).__name__ for name, trait in sorted(self.traits(addressed=True).items())}

    @traitlets.validate("title")
    def _readable(self, proposal: dict[str, Any]) -> str:
        return seen(proposal["value"])

    def summary(self) -> str:
        """The class's name, the title and the sizes of the data, on one line."""
        title = f" {self.title!r}" if self.title else ""
        return f"{type(self).__name__.removeprefix('Live')}{title}: {self._sizes()}"

    def _sizes(self) -> str:
        raise NotImplementedError

    @property
    def _shown(self) -> dict[str, Any]:
        """The description (`Item.describe`) of the item shown."""
        return self.items[self.item]

    def _show(self, items: Sequence[Any], at: int = 0) -> None:
        """Replaces all items, in one message to the front end, and shows the item with the index `at`."""
        with self.hold_sync():
            self.weights = b"".join(item.packed for item in items)
            self.items = [item.describe() | {"bytes": len(item.packed)} for item in items]
            self.item = at
            self._stay_inside()

    def _places(self) -> dict[str, tuple[int, str]]:
        """By trait: how many values an index can have, and what -1 means; "" where -1 is not allowed."""
        return {"item": (len(self.items), "")} | self._places_within() if self.items else {}

    def _places_within(self) -> dict[str, tuple[int, str]]:
        """The part of `_places` that depends on the item shown."""
        return {}

    @traitlets.validate("checkpoint", "generated", "head", "item", "key", "layer", "query", "token")
    def _exists(self, proposal: dict[str, Any]) -> int:
        name, value, places = proposal["trait"].name, proposal["value"], self._places()
        if name in places:  # not while the widget is being made
            count, none = places[name]
            first, also = (-1, f" (-1 for {none})") if none else (0, "")
            if not first <= value < count:
                raise traitlets.TraitError(f"{name} must be from {first} to {count - 1}{also}; got {value}.")
        return int(value)

    @traitlets.observe("item")
    def _stay_inside(self, change: object = None) -> None:
        """Resets indices that the item shown does not have: to none where -1 means that, else to the last."""
        for name, (count, none) in self._places().items():
            if getattr(self, name) >= count:
                setattr(self, name, -1 if none == "none" else count - 1)


class Examples(Explorer):
    """An explorer of one item that can also hold several, with a drop-down list (`from_examples`)."""

    _pack: ClassVar[Any]
    """The function that checks and packs an item."""

    @classmethod
    def from_examples(
        cls: type[E], examples: Mapping[str, Mapping[str, Any]], *, item: int = 0, **settings: Any
    ) -> E:
        """An explorer with a drop-down list of named examples: variants of a model, say, or several texts.

        Examples may differ in every size; `settings` are further arguments of the class, such as its title.
        """
        items = named(cls._pack, "example", examples)
        explorer = cls(**next(iter(examples.values())))
        explorer._show(items)
        for name, value in {"item": item, **settings}.items():
            explorer.set_trait(name, value)
        return explorer

    def _several(self) -> str:
        return f", {counted(len(self.items), 'example')}" if len(self.items) > 1 else ""


def strongest(default: str) -> Any:
    """A trait for the value that the strongest colour stands for: "whole" or "shown", at first `default`."""
    said = "The strongest colour: of all there can be (whole), or the largest of what is shown (shown)."
    return traitlets.Enum(("whole", "shown"), default_value=default, help=said).tag(sync=True, addressed=True)


def nobody(text: str) -> Any:
    """Refuses a text: the default where an explorer was made without a function that answers."""
    raise ValueError("This explorer has nobody to ask: it was made without a function that answers.")


class Asking(Explorer):
    """An explorer with the traits that ``ask_box.js`` reads.

    A subclass sets ``asks`` where texts can be answered, and implements the answer in ``_reply``.
    """

    asked = traitlets.Unicode(help="The text in the box of a live explorer.").tag(sync=True)
    asks = traitlets.Bool(False, help="Whether there is a box to type a text in.").tag(sync=True)
    recorded = traitlets.Bool(False, help="Whether there was one: true in its static page.").tag(sync=True)
    busy = traitlets.Bool(False, help="Whether an answer is being computed.").tag(sync=True)
    error = traitlets.Unicode(help="What went wrong with the last text.").tag(sync=True)

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.on_msg(lambda _, content, buffers: self.ask(str(content.get("text", ""))))

    def ask(self, text: str) -> None:
        """Shows the answer to a text, as the button does; an error's message becomes the trait ``error``.

        The message of a ValueError is shown as it is; any other error is also logged with its traceback.
        """
        self.asked, self.error, self.busy = text, "", True
        try:
            if not text.strip():
                raise ValueError("There is no text. Type some first.")
            self._reply(text)
        except KeyboardInterrupt:
            self.error = "Stopped."
        except ValueError as error:
            self.error = str(error)
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            _log.exception("The function that answers failed on %r.", text)
        finally:
            self.busy = False

    def _reply(self, text: str) -> None:
        """Puts the answer to a text, which is not blank, into the picture."""
        nobody(text)

    def _state(self) -> dict[str, Any]:
        """The state for a static page, which has no kernel that could answer."""
        return super()._state() | {"asks": False, "recorded": self.asks, "busy": False, "error": ""}
