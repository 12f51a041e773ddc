"""Names, captions and alternative texts of figures and tables."""

from __future__ import annotations

import json
import re
from html import escape
from typing import TypeVar

from attnlib.checks import check

SAID = "application/vnd.attnlib.said"
"""The MIME type under which a notebook's output holds its name, caption and alternative text, as JSON. The
book numbers the figures and tables that have them (`book/_ext/numbered.py`)."""

Shown = TypeVar("Shown", bound="Captioned")

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Captioned:
    """Base of figures and tables that have a caption.

    Attributes:
        kind: "Figure" or "Table".
        name: the name for references, `[Figure name](#name)`, which the page replaces by a number.
        words: the text of the caption: one sentence or a few, in Markdown.
        alt: the alternative text; "" for a table, which a screen reader can read itself.
    """

    kind: str
    name: str = ""
    words: str = ""
    alt: str = ""

    def captioned(self: Shown, name: str, caption: str) -> Shown:
        """Sets the name and the caption, which must end with a full stop; returns the object itself."""
        check(_NAME.fullmatch(name), "a name must be in small letters and figures with hyphens between", name)
        check(caption.endswith("."), "a caption must be a sentence, with a full stop", caption)
        self.name, self.words = name, caption
        return self

    def said(self) -> dict[str, str]:
        """Name, caption and alternative text as a part of a notebook's output; {} if there are none."""
        if not self.name and not self.alt:
            return {}
        said = {"kind": self.kind, "name": self.name, "caption": self.words, "alt": self.alt}
        return {SAID: json.dumps(said)}

    def heading(self) -> str:
        """The caption in HTML, with the name in place of a number, since JupyterLab has no numbers."""
        text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(self.words))
        return f'<b id="{self.name}">{self.kind} {self.name}.</b> {text}' if self.name else ""
