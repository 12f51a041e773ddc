"""What a figure or table is called by, what its caption says, and what is to be seen in it."""

from __future__ import annotations

import json
import re
from html import escape
from typing import TypeVar

from attnlib.checks import check

SAID = "application/vnd.attnlib.said"
"""Kind of what an output of a notebook holds beside what is shown: its name, caption and alternative text, as
JSON. The book numbers what has them (`book/_ext/numbered.py`)."""

Shown = TypeVar("Shown", bound="Captioned")

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Captioned:
    """What a cell shows under a caption.

    Attributes:
        kind: "Figure" or "Table".
        name: what it is referred to by: `[Figure name](#name)`, which the page turns into its number.
        words: of the caption: one sentence or a few, in Markdown.
        alt: what is to be seen, in words; of a table nothing, since a table can be read out.
    """

    kind: str
    name: str = ""
    words: str = ""
    alt: str = ""

    def captioned(self: Shown, name: str, caption: str) -> Shown:
        """Gives it a name and a caption; returns it, for a cell to show."""
        check(_NAME.fullmatch(name), "a name must be in small letters and figures with hyphens between", name)
        check(caption.endswith("."), "a caption must be a sentence, with a full stop", caption)
        self.name, self.words = name, caption
        return self

    def said(self) -> dict[str, str]:
        """Name, caption and alternative text as a part of a notebook's output; nothing if there are none."""
        if not self.name and not self.alt:
            return {}
        said = {"kind": self.kind, "name": self.name, "caption": self.words, "alt": self.alt}
        return {SAID: json.dumps(said)}

    def heading(self) -> str:
        """The caption in HTML, under the name: JupyterLab knows no numbers."""
        text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(self.words))
        return f'<b id="{self.name}">{self.kind} {self.name}.</b> {text}' if self.name else ""
