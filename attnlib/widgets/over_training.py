"""What explorers of a training share: the recorded checkpoints, the one shown, and curves to find it by."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import traitlets

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
    """An explorer of what was recorded, or typed and answered; ``over_training.js`` reads its traits.

    A subclass says by ``_noun`` and ``_pack`` what it is and what checks and packs it.
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
        self.steps = checked_steps(steps)
        self.curves = [checked_curve(name, curve, self.steps) for name, curve in (curves or {}).items()]
        count = len(self.steps)
        self.checkpoint = checkpoint + count if -count <= checkpoint < 0 else checkpoint  # -1 is the last
        self._answer = answer or nobody
        self._recorded, self._typed = self._checked(recorded), dict[str, Any]()
        self._show(self._all, item)

    def _checked(self, shown: Mapping[str, Parts], typed: bool = False) -> list[Any]:
        return named(type(self)._pack, self._noun, shown, checkpoints=len(self.steps), typed=typed)

    @property
    def _all(self) -> list[Any]:
        """What was recorded, then what was typed."""
        return [*self._recorded, *self._typed.values()]

    def _places(self) -> dict[str, tuple[int, str]]:
        return super()._places() | ({"checkpoint": (len(self.steps), "")} if self.steps else {})

    def _reply(self, text: str) -> None:
        text = text.strip()
        line = " ".join(text.split())
        label = line if len(line) <= LONGEST_LABEL else f"{line[: LONGEST_LABEL - 1].rstrip()}…"
        (item,) = self._checked({label: self._answer(text)}, typed=True)
        self._typed.pop(text, None)
        self._typed[text] = item
        self._show(self._all, len(self._all) - 1)


def checked_steps(steps: Steps) -> list[float | int]:
    """The steps as plain numbers; there must be one at least, and they must grow."""
    values = numpy_of(steps)
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise ValueError(
            f"steps must be a list of at least one number, one for every checkpoint; got {steps!r}."
        )
    if (np.diff(values) <= 0).any():
        at = int(np.argmax(np.diff(values) <= 0))
        raise ValueError(
            f"steps must grow from checkpoint to checkpoint; got {values[at]} before {values[at + 1]}."
        )
    return values.tolist()


def checked_curve(name: str, curve: Curve, steps: list[float | int]) -> dict[str, Any]:
    """A curve as the front end reads it; what is not finite becomes a gap.

    It is a value for every checkpoint, or ``{step: value}`` where it was measured at other steps.
    """
    if isinstance(curve, Mapping):
        places, values = checked_steps(list(curve)), list(curve.values())
        if places[0] < steps[0] or places[-1] > steps[-1]:
            raise ValueError(
                f"curve {name!r} runs from step {places[0]} to {places[-1]}, but the checkpoints from "
                f"{steps[0]} to {steps[-1]}. Cut the curve, or record a checkpoint at its ends."
            )
    else:
        places, values = steps, list(curve)
        if len(values) != len(steps):
            raise ValueError(
                f"curve {name!r} has {len(values)} values for {len(steps)} checkpoints. Give one for "
                "each, or {step: value} where it was measured at other steps."
            )
    numbers = [float("nan") if value is None else float(value) for value in values]
    return {
        "name": name,
        "steps": places,
        "values": [round(value, 5) if np.isfinite(value) else None for value in numbers],
    }
