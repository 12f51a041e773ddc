"""A box in a live explorer: the reader types a text, a function in the kernel answers."""

import logging
from typing import Any

import traitlets

from attnlib.widgets.explorer import Explorer

_log = logging.getLogger(__name__)


def nobody(text: str) -> Any:
    """Stands in for a function that answers where none was given."""
    raise ValueError("This explorer has nobody to ask: it was made without a function that answers.")


class Asking(Explorer):
    """Mixin with the traits that ``ask_box.js`` reads; put it before ``anywidget.AnyWidget``.

    A subclass sets ``asks`` where there is someone to ask, and says in ``_reply`` what happens then. A built
    page has no kernel: it shows what was asked last, and in place of the box a line that there was one.
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
        """What the button does: shows the answer to a text. What goes wrong becomes the trait ``error``.

        A ValueError is a refusal, in words for the reader. Of anything else the traceback is logged, so that
        who wrote the function that answers can mend it.
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
        """In a static page there is no kernel to ask."""
        return super()._state() | {"asks": False, "recorded": self.asks, "busy": False, "error": ""}
