"""A figure that a reader draws anew by choosing what it is of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets

VIEW = "application/vnd.jupyter.widget-view+json"
"""Kind of what JupyterLab shows live, and a page without a kernel leaves out."""


class Choice:
    """In JupyterLab a list to choose from, over a figure of what is chosen; in a page, the figure alone.

    Attributes:
        control: the list, of ipywidgets.
        picture: the figure below it.
        shown: what is drawn.
    """

    def __init__(
        self, draw: Callable[[Any], Any], options: Sequence[tuple[str, Any]], value: Any, label: str
    ) -> None:
        """Draws what is chosen at first.

        Args:
            draw: draws what is chosen: gives a drawing or a table of `plots`.
            options: what there is to choose from, each with what it is called.
            value: what is shown at first, and in a page.
            label: in front of the list.

        Raises:
            traitlets.TraitError: the value is none of the options.
        """
        self._draw = draw
        self.control = ipywidgets.Dropdown(options=list(options), value=value, description=label)
        self.picture = ipywidgets.HTML()
        self.control.observe(self._show, "value")
        self._show()

    def _show(self, change: Any = None) -> None:
        self.shown = self._draw(self.control.value)
        self.picture.value = self.shown.html()

    def _repr_mimebundle_(self, **how: Any) -> dict[str, Any]:
        live = ipywidgets.VBox([self.control, self.picture])._repr_mimebundle_(**how)
        return {**self.shown._repr_mimebundle_(), VIEW: live[VIEW]}
