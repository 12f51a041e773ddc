"""A Sphinx extension: pages are read and written by as many processes as there are cores.

Jupyter Book does not pass a number of processes to Sphinx. Two of the extensions that it adds do not declare
whether they can run in parallel; they can, since both keep no state while pages are read.
"""

import os
from typing import Any

from sphinx.application import Sphinx

UNSAID = ("sphinx_jupyterbook_latex", "sphinx_multitoc_numbering")
"""Extensions of Jupyter Book that do not declare whether pages can be read in parallel."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.parallel = (os.cpu_count() or 1) + 1  # Sphinx counts the process that hands out pages

    def declare(app: Sphinx) -> None:
        for name in UNSAID:
            if name in app.extensions:
                app.extensions[name].parallel_read_safe = True

    app.connect("builder-inited", declare)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
