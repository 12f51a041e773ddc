"""A figure that a reader draws anew by choosing what it is of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import ipywidgets

from attnlib.attended import is_attended
from attnlib.checks import check_one_of

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
            draw: draws what is chosen: gives a drawing of `plots`.
            options: what there is to choose from, each with what it is called.
            value: what is shown at first, and in a page.
            label: in front of the list.
        """
        check_one_of([each for _, each in options], value=value)
        self._draw = draw
        self._list = {"options": list(options), "value": value, "description": label}
        self.shown = draw(value)

    @cached_property
    def control(self) -> ipywidgets.Dropdown:  # noqa: D102 (an attribute of the class)
        made = ipywidgets.Dropdown(**self._list)
        made.observe(self._show, "value")
        return made

    @cached_property
    def picture(self) -> ipywidgets.HTML:  # noqa: D102 (an attribute of the class)
        return ipywidgets.HTML(self.shown.html())

    def _show(self, change: Any) -> None:
        self.shown = self._draw(change.new)
        self.picture.value = self.shown.html()

    def _repr_mimebundle_(self, **how: Any) -> dict[str, Any]:
        page = self.shown._repr_mimebundle_()
        if not is_attended():
            return page
        live = ipywidgets.VBox([self.control, self.picture])._repr_mimebundle_(**how)
        return {**page, VIEW: live[VIEW]}
