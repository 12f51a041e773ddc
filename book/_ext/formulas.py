"""A Sphinx extension: pages with formulas load KaTeX, a copy of which lies beside the pages.

KaTeX also writes every formula as MathML for screen readers. No formula is a tab stop.
"""

from typing import Any

from myst_parser.sphinx_ext.mathjax import html_visit_displaymath
from sphinx.application import Sphinx
from sphinx.ext.mathjax import html_visit_math

KATEX = "../vendor/katex"  # from _static; see html_extra_path in _config.yml


def load(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Load KaTeX on a page with formulas; a build into a single page loads it if any document has some."""
    domain = app.env.get_domain("math")
    if domain.data["has_equations"].get(page) or (app.builder.name != "html" and domain.has_equations()):
        app.add_css_file(f"{KATEX}/katex.min.css")
        app.add_js_file(f"{KATEX}/katex.min.js", defer="defer")
        app.add_js_file("formulas.js", defer="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.add_html_math_renderer("katex", (html_visit_math, None), (html_visit_displaymath, None))
    app.connect("html-page-context", load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
