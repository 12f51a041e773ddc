"""The base of explorers over training: the checkpoints, the one shown, and curves to choose it from."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import traitlets

from attnlib.checks import check
from attnlib.stats.ragged import numpy_of
from attnlib.widgets.encoding import Array
from attnlib.widgets.explorer import Asking, nobody
from attnlib.widgets.naming import named

Steps = Array | Sequence[Any]
Curve = Array | Sequence[Any] | Mapping[Any, Any]
Curves = Mapping[str, Curve]
Parts = Mapping[str, Any]

LONGEST_LABEL = 48


class OverTraining(Asking):
    """An explorer of recorded items, and of typed ones with answers; ``over_training.js`` reads its traits.

    A subclass sets ``_noun``, what an item is called, and ``_pack``, the function that checks and packs it.
    """

    steps = traitlets.List(help="The step of every checkpoint, growing.").tag(sync=True)
    curves = traitlets.List(traitlets.Dict(), help="Name, steps and values of every curve.").tag(sync=True)
    checkpoint = traitlets.Int(0, help="Index of the checkpoint shown.").tag(sync=True, addressed=True)

    _noun: str
    _pack: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        recorded: Mapping[str, Parts],
        steps: Steps,
        curves: Curves | None,
        title: str,
        answer: Callable[[str], Parts] | None,
        *,
        checkpoint: int,
        item: int,
        **traits: Any,
    ) -> None:
        super().__init__(title=title, asks=answer is not None, **traits)
        self.steps = check_steps(steps)
        self.curves = [check_curve(name, curve, self.steps) for name, curve in (curves or {}).items()]
        count = len(self.steps)
        self.checkpoint = checkpoint + count if -count <= checkpoint < 0 else checkpoint  # -1 is the last
        self._answer = answer or nobody
        self._recorded, self._typed = self._check_items(recorded), dict[str, Any]()
        self._show(self._all, item)

    def _check_items(self, shown: Mapping[str, Parts], typed: bool = False) -> list[Any]:
        return named(type(self)._pack, self._noun, shown, checkpoints=len(self.steps), typed=typed)

    @property
    def _all(self) -> list[Any]:
        """All items: the recorded ones, then the typed ones."""
        return [*self._recorded, *self._typed.values()]

    def _places(self) -> dict[str, tuple[int, str]]:
        return super()._places() | ({"checkpoint": (len(self.steps), "")} if self.steps else {})

    def _reply(self, text: str) -> None:
        text = text.strip()
        line = " ".join(text.split())
        label = line if len(line) <= LONGEST_LABEL else f"{line[: LONGEST_LABEL - 1].rstrip()}…"
        (item,) = self._check_items({label: self._answer(text)}, typed=True)
        self._typed.pop(text, None)
        self._typed[text] = item
        self._show(self._all, len(self._all) - 1)


def check_steps(steps: Steps) -> list[float | int]:
    """The steps as plain numbers; raises a ValueError unless there is at least one and they grow."""
    values = numpy_of(steps)
    fits = values.ndim == 1 and len(values) and values.dtype.kind in "iuf" and np.isfinite(values).all()
    check(fits and (np.diff(values) > 0).all(), "steps must be at least one number, and grow", steps)
    return values.tolist()


def check_curve(name: str, curve: Curve, steps: list[float | int]) -> dict[str, Any]:
    """The curve as the front end reads it; values that are not finite become gaps.

    A curve has one value per checkpoint, or is ``{step: value}`` where it was measured at other steps.
    """
    if isinstance(curve, Mapping):
        places, values = check_steps(list(curve)), list(curve.values())
        within = steps[0] <= places[0] and places[-1] <= steps[-1]
        demand = f"curve {name!r} must run within the checkpoints' steps, {steps[0]} to {steps[-1]}"
        check(within, demand, (places[0], places[-1]))
    else:
        places, values = steps, list(curve)
        fits = len(values) == len(steps)
        check(fits, f"curve {name!r} must have {len(steps)} values, or be {{step: value}}", len(values))
    numbers = [float("nan") if value is None else float(value) for value in values]
    return {
        "name": name,
        "steps": places,
        "values": [round(value, 5) if np.isfinite(value) else None for value in numbers],
    }
