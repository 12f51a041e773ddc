"""What explorers of a training share: the recorded checkpoints, the one shown, and curves to find it by."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import traitlets

from attnlib.widgets.encoding import Array, numpy_of

Steps = Array | Sequence[Any]
Curve = Array | Sequence[Any] | Mapping[Any, Any]
Curves = Mapping[str, Curve]


class OverTraining(traitlets.HasTraits):
    """Mixin with the traits that ``over_training.js`` reads; put it before ``anywidget.AnyWidget``."""

    steps = traitlets.List(help="The step of every checkpoint, growing.").tag(sync=True)
    curves = traitlets.List(traitlets.Dict(), help="Name, steps and values of every curve.").tag(sync=True)
    checkpoint = traitlets.Int(0, help="Index of the checkpoint shown.").tag(sync=True)

    def _record(self, steps: Steps, curves: Curves | None, checkpoint: int) -> None:
        """Sets the traits; a checkpoint below 0 counts from the last, as -1."""
        self.steps = checked_steps(steps)
        self.curves = [checked_curve(name, curve, self.steps) for name, curve in (curves or {}).items()]
        count = len(self.steps)
        self.checkpoint = checkpoint + count if -count <= checkpoint < 0 else checkpoint

    @traitlets.validate("checkpoint")
    def _is_recorded(self, proposal: dict[str, Any]) -> int:
        last = len(self.steps) - 1
        if self.steps and not 0 <= proposal["value"] <= last:
            raise traitlets.TraitError(
                f"checkpoint must be from 0 to {last}, the index of one of the {last + 1} steps; "
                f"got {proposal['value']}."
            )
        return int(proposal["value"])


def checked_steps(steps: Steps) -> list[float | int]:
    """The steps as plain numbers.

    Raises:
        ValueError: there is none, or they do not grow.
    """
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

    Args:
        name: of the curve.
        curve: a value for every checkpoint, or ``{step: value}`` where it was measured at other steps.
        steps: of the checkpoints.

    Raises:
        ValueError: there are more or fewer values than checkpoints, or steps outside those recorded.
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
