"""A legend names every series that is drawn, and no two of its entries look the same: held of every figure.

`watch` has every figure that is drawn from then on checked: those of the tests, and those of chapters that
tests execute.
"""

from functools import wraps
from typing import Any

from matplotlib.artist import Artist
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnlib.plots.drawing import Drawing


def watch() -> None:
    """Has every figure refused that has something in `faults`."""
    if hasattr(Drawing, "watched"):
        return
    draw = Drawing._drawn

    @wraps(draw)
    def drawn(self: Drawing, theme: Any) -> Any:
        found = draw(self, theme)
        assert not (wrong := faults(found[0])), f"legend: {'; '.join(wrong)}"
        return found

    Drawing._drawn, Drawing.watched = drawn, True  # type: ignore[method-assign, attr-defined]


def faults(figure: Figure) -> list[str]:
    """What is wrong with the legends of a figure, in words.

    An axis without a legend is read by the figure's, or by that of another axis.
    """
    found = []
    looks: dict[str, Any] = {}  # by name: a legend that several axes share shows one look
    for axis in figure.axes:
        own, others = axis.get_legend(), [each.get_legend() for each in figure.axes]
        legends = [*figure.legends, own] if own or figure.legends else others
        named = {text.get_text() for legend in filter(None, legends) for text in legend.get_texts()}
        looks = {} if own else looks
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            if name not in named:
                found.append(f"{name!r} is drawn and not named")
            if looks.setdefault(name, look(handle)) != look(handle):
                found.append(f"{name!r} looks like {looks[name]} and like {look(handle)}")
            alike = [other for other in looks if other != name and looks[other] == look(handle)]
            found += [f"{other!r} and {name!r} look the same" for other in alike if look(handle)]
    return list(dict.fromkeys(found))


def look(handle: Artist | None) -> tuple[str, ...] | None:
    """Colour, shape and stroke of a line or of points; None of what is neither."""
    parts = getattr(handle, "lines", (handle,))  # of points with intervals: first the points
    for part in parts:
        if isinstance(part, Line2D):
            stroke = str(part.get_linestyle() if part.get_linestyle() != "None" else "")
            fill = to_hex(part.get_markerfacecolor()) if part.get_markerfacecolor() != "none" else "none"
            return to_hex(part.get_color()), str(part.get_marker()), stroke, fill
    return None
