"""A Sphinx extension: docstrings may use Markdown's `code`, $x$ and $$equations$$.

Types are given by annotations, so a colon in the text of a constant or of a `Returns:` section is
punctuation, although Napoleon would take the words before it for a type. `|x|` is a size or an absolute
value, never a substitution of reStructuredText.
"""

import inspect
import re
import sys
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring

LITERAL = re.compile(r"(?<![`:\w])`([^`]+)`(?!`)(?=(\w?))")
EQUATION = re.compile(r"^( *)\$\$(.+?)\$\$", re.MULTILINE | re.DOTALL)
FORMULA = re.compile(r"(?<![\w$\\])\$([^$`]+?)\$(?!\$)(?=(\w?))")
WHOLE = re.compile(r"(``.+?``|:math:`.+?`|^ *\.\. math:: .+?$)", re.DOTALL | re.MULTILINE)

OURS = ("attnlib", "book")
UNPARSABLE = [("<factory>", "..."), (r"<function (\w+) at \w+>", r"\1"), (r"<class '([\w.]+)'>", r"\1")]
ARRAY_LIKE = r"\S*_?Buffer \| \S*_SupportsArray\[\S+\] \| \S*_NestedSequence\[\S+\]"
ARRAY_LIKE += r" \| complex \| bytes \| str \| \S*_NestedSequence\[complex \| bytes \| str\]"


def plain(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Turn `code` into a literal and $x$ into mathematics, and escape bars, in place, before Napoleon."""
    text = LITERAL.sub(lambda found: f"``{found[1]}``" + (r"\ " if found[2] else ""), "\n".join(lines))
    text = EQUATION.sub(lambda found: f"{found[1]}.. math:: {_on_one_line(found[2])}\n", text)
    parts = WHOLE.split(text)
    parts[::2] = [_formulas(part) for part in parts[::2]]
    parts = WHOLE.split("".join(parts))
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def _on_one_line(tex: str) -> str:
    return " ".join(tex.split())


def _formulas(text: str) -> str:
    """Text with its $x$ as roles; an escaped blank separates a role from a following letter."""
    return FORMULA.sub(lambda found: f":math:`{_on_one_line(found[1])}`" + (r"\ " if found[2] else ""), text)


def returns(self: GoogleDocstring, preprocess_types: bool = False) -> list[tuple[str, str, list[str]]]:
    """The whole text of a `Returns:` section, without looking for a type."""
    text = self._dedent(self._consume_to_next_section())
    return [("", "", text)] if text else []


def parsable(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Make a signature readable: replace defaults that are not Python, and numpy's long type `ArrayLike`."""
    for pattern, name in [*UNPARSABLE, (ARRAY_LIKE, "ArrayLike")]:
        signature = signature and re.sub(pattern, name, signature)
    return signature, returned


def foreign(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Skip a field whose default is another project's class or function, such as `tuple`."""
    theirs = inspect.isclass(obj) or inspect.isroutine(obj)
    return True if theirs and str(getattr(obj, "__module__", None)).split(".")[0] not in OURS else None


def at_home(app: Sphinx, module: str, name: str) -> str | None:
    """The module that defines an annotated type, which itself reports `builtins`; `None` for other values."""
    value = getattr(sys.modules.get(module), name, None)
    return module if getattr(value, "__module__", None) == "builtins" else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Hook into autodoc and viewcode, and into the two places where Napoleon looks for types."""
    app.connect("autodoc-process-docstring", plain, priority=100)
    app.connect("autodoc-process-signature", parsable)
    app.connect("autodoc-skip-member", foreign)
    app.connect("viewcode-follow-imported", at_home)
    GoogleDocstring._parse_attribute_docstring = lambda self: self._consume_to_end()  # type: ignore[method-assign]
    GoogleDocstring._consume_returns_section = returns  # type: ignore[method-assign]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
