"""One front end for two uses: live by anywidget, and in a static page without a kernel.

A widget's front end is one plain ES module whose last line is ``export default { render };``. In JupyterLab
anywidget imports it and connects it to the kernel. In a built book or a file, `StaticTwin` puts the same
source into the page as a classic script, together with the widget's state and a short script that replaces
the kernel and keeps the reader's choices in the page's address. The page needs no network, and equal widgets
give equal bytes.
"""

import base64
import hashlib
import html
import json
import re
import zlib
from pathlib import Path
from typing import Any

import anywidget

from attnlib.attended import is_attended
from attnlib.checks import check
from attnlib.colours import THEMES
from attnlib.files import write_atomically
from attnlib.widgets.front_end import FRONT

EXPORT = re.compile(r"^export default \{ render \};\s*$", re.MULTILINE)

STAND_IN = "\n" + re.sub(r"\s*// .*$|^ +", "", (FRONT / "stand_in.js").read_text("utf-8"), flags=re.MULTILINE)
"""The script that replaces the kernel, once per explorer; `to_html` fills in ``KEY`` and ``STATE``."""

WITHOUT = (
    "interactive, but its script did not run: it needs JavaScript and, in JupyterLab, a trusted notebook"
)
"""The text in place of a widget where scripts are switched off or were removed."""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; scrollbar-gutter: stable; }}
body {{ margin: 0 auto; padding: 1rem; max-width: 1200px; font-family: system-ui, sans-serif;
  background: {light[page]}; color: {light[ink]}; }}
@media (prefers-color-scheme: dark) {{ body {{ background: {dark[page]}; color: {dark[ink]}; }} }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def whole_page(title: str, body: str) -> str:
    """A complete HTML page in the reader's light or dark colour scheme; title is plain text, body HTML."""
    return PAGE.format(title=html.escape(title), body=body, **THEMES)


class StaticTwin:
    """Mixin that gives an anywidget its static HTML; put it before ``anywidget.AnyWidget``.

    The widget's module, ``_esm``, must end with the line ``export default { render };`` and import nothing;
    it may call only these methods of the model: ``get``, ``set``, ``on("change:x", f)``, ``off`` and
    ``save_changes``. The page holds every synced trait of the class; the module receives bytes as
    ``Uint8Array`` (live, as ``DataView``).
    """

    _esm: Any
    _css: Any

    def summary(self) -> str:
        """One line of plain text: the widget's repr, and what a page shows where scripts do not run."""
        return type(self).__name__

    def __repr__(self) -> str:
        return self.summary()

    def to_html(self) -> str:
        """The widget at its present state as one self-contained piece of HTML."""
        style, state = str(self._css), _json(self._state())
        module, exports = EXPORT.subn("", str(self._esm))
        check(exports == 1, "the front end must have one line 'export default { render };'", exports)
        ends = "</" in module or "<!--" in module or "</" in style
        check(not ends, "the front end must not hold '</' or '<!--', which end a script", self._esm)
        # Equal widgets share this key: each script fills the first element with it that is still empty.
        key = hashlib.sha256("\0".join((module, style, state)).encode()).hexdigest()[:16]
        script = STAND_IN.replace("KEY", key).replace("STATE", state)
        return (
            f'<div data-attnlib="{key}"></div>\n'
            f"<p>{html.escape(self.summary())} ({WITHOUT})</p>\n"
            f"<style>\n{style}</style>\n"
            f'<script>\n(() => {{\n"use strict";\n{module}{script}}})();\n</script>'
        )

    def save_html(self, path: str | Path, title: str | None = None) -> Path:
        """Writes a complete page that works from disk, without kernel or network, and returns its path."""
        write_atomically(Path(path), whole_page(title or self.summary(), self.to_html()).encode())
        return Path(path)

    def _state(self) -> dict[str, Any]:
        """The values of the synced traits that the widget adds to those of every anywidget."""
        own = set(self.trait_names(sync=True)) - set(anywidget.AnyWidget.class_trait_names())  # type: ignore[attr-defined]
        return {name: getattr(self, name) for name in own if not name.startswith("_")}

    def open(self) -> None:
        """Opens the connection to the front end, unless a program executes the notebook without one."""
        if is_attended():
            super().open()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The static HTML, for pages without a kernel; in an attended notebook, also the live view."""
        static = {"text/plain": repr(self), "text/html": self.to_html()}
        if not is_attended():
            return static, {}
        bundle = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if bundle is None:
            return None
        data, metadata = bundle
        return {**data, **static}, metadata


def _json(state: dict[str, Any]) -> str:
    """The state as JSON for a script: in ASCII, with bytes in base64 and their Adler-32 checksum.

    ``<`` is escaped: ``</script>`` in a token would end the script, ``<!--<script>`` keep it from ending.
    """

    def bytes_to_base64(value: object) -> dict[str, Any]:
        if isinstance(value, bytes):
            return {"base64": base64.b64encode(value).decode("ascii"), "adler32": zlib.adler32(value)}
        raise TypeError(f"a synced trait holds a {type(value).__name__}, which has no place in JSON")

    text = json.dumps(state, default=bytes_to_base64, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")
