"""A Sphinx extension: the text shows a number's value; interval and origin open on demand.

`book.chapters.telling.tell_in_words` glues a number in two forms: the value ("43 %"), and the value with its
95 % confidence interval and the sample size. `` {glue:text}`name` `` shows the value as an
abbreviation whose title is the second form: the title appears under the pointer, and on focus by the keyboard
or a touch. `` {glue:text}`name, in full` `` prints the second form.

A number computed by the build's own run (`origins`), which another profile changes, is underlined, and its
title says so; a line below the box that opens a chapter explains the underline.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.core.variables import RetrievalError
from myst_nb.ext.glue.roles import PasteTextRole
from myst_nb.ext.glue.utils import retrieve_glue_data
from origins import THIS_RUN, of_page
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.transforms import SphinxTransform
from sphinx.writers.html5 import HTML5Translator

HERE = "of-this-build"
LEGEND = (
    f" numbers, and figures and tables marked {THIS_RUN}, were computed by {{build}}. "
    "All others are recorded, or the same in every build."
)


class Brief(nodes.inline):
    """A number in the text, with its interval, or its origin, in `title`."""


class BriefRole(PasteTextRole):
    """The role ``glue:text``, which also gives a number a title with its interval and its origin."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The nodes that stand for the role."""
        pasted, messages = super().run()
        if not pasted or not isinstance(pasted[0], nodes.inline):
            return pasted, messages
        name = self.text
        try:
            found = retrieve_glue_data(self.document, name)
        except RetrievalError:  # the name is followed by a format
            name = name.rpartition(":")[0]
            found = retrieve_glue_data(self.document, name)
        source = found.metadata.get("source", {})
        env = self.document.settings.env
        text = pasted[0].astext()
        here = not is_recorded(source["record"]) if "record" in source else name in of_page(env)
        here = here and any(map(str.isdigit, text))
        titles = [source["in full"]] if "in full" in source else []
        titles += [f"computed by {this_build(env.config)}"] if here else []
        if not titles:
            return pasted, messages
        classes = ["pasted-text", *["brief"] * ("in full" in source), *[HERE] * here]
        brief = Brief(text, text, classes=classes, title="; ".join(titles))
        self.set_source_info(brief)
        return [brief], messages


def is_recorded(record: str) -> bool:
    """Whether `results/` has a record of this name, which a remark " [...]" may follow."""
    return any(Path("results").glob(f"*/{glob.escape(record.partition(' [')[0])}.json"))


def this_build(config: Config) -> str:
    """The build in words."""
    return str(config.computed_by)


class Legend(SphinxTransform):
    """A line that explains underlined numbers, below a chapter's box or a `{div} underlined`."""

    default_priority = 500

    def apply(self, **_: Any) -> None:
        """Insert the line."""
        for box in list(self.document.findall(nodes.Element)):
            if {"one-minute", "underlined"} & set(box.get("classes", [])):
                line = nodes.paragraph(classes=["origins"])
                line += nodes.inline("", "Underlined", classes=[HERE])
                line += nodes.Text(LEGEND.format(build=this_build(self.config)))
                box.parent.insert(box.parent.index(box) + 1, line)


def visit(self: HTML5Translator, node: Brief) -> None:
    """Open the abbreviation, which can have the keyboard's focus."""
    self.body.append(self.starttag(node, "abbr", "", title=node["title"], tabindex="0"))


def depart(self: HTML5Translator, node: Brief) -> None:
    """Close the abbreviation."""
    self.body.append("</abbr>")


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.setup_extension("myst_nb")
    app.add_config_value("computed_by", "this build", "env", [str])
    app.add_node(Brief, override=True, html=(visit, depart))
    app.add_role_to_domain("glue", "text", BriefRole(), override=True)
    app.add_transform(Legend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
