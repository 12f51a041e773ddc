"""A figure with a drop-down list: the reader's choice decides what the figure shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import ipywidgets

from attnlib.attended import is_attended
from attnlib.checks import check_one_of

VIEW = "application/vnd.jupyter.widget-view+json"
"""The MIME type of a live widget: JupyterLab shows it, and a page without a kernel leaves it out."""


class Choice:
    """A drop-down list above a figure of the chosen option; a static page has the figure alone.

    Attributes:
        control: the drop-down list.
        picture: the widget that holds the figure below the list.
        shown: the drawing of the option chosen now.
    """

    def __init__(
        self, draw: Callable[[Any], Any], options: Sequence[tuple[str, Any]], value: Any, label: str
    ) -> None:
        """Draws the option that is shown at first.

        Args:
            draw: a function from an option's value to its `attnlib.plots.Drawing`.
            options: pairs of a name for the list and the value that `draw` takes.
            value: the option shown at first, and in a static page.
            label: the text in front of the list.
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
