"""A Sphinx extension: buttons that open a chapter on Binder or Colab, where a public repository is named.

`repository: url:` in `_config.yml` is the one setting. Without it there is no button and no address.
"""

from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

BUTTONS = {
    "notebook_interface": "jupyterlab",
    "binderhub_url": "https://mybinder.org",
    "colab_url": "https://colab.research.google.com",
}


def add_buttons(app: Sphinx, config: Config) -> None:
    """Switch the theme's buttons on, or leave them off."""
    options = config.html_theme_options
    if options.get("repository_url"):
        options["launch_buttons"] = dict(BUTTONS)
        options["use_repository_button"] = True


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("config-inited", add_buttons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
