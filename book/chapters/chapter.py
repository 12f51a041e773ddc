"""The base class of all chapters: parameters that are checked first, models to train, and a record.

The parameters cell of a chapter's notebook holds plain typed values, each with a comment. Only this cell has
the defaults and descriptions of parameters. `Chapter.from_notebook(globals())` reads the cell's values and
those that papermill injected. It stops with one message that names every problem: the given value,
the allowed values, and, for a misspelt name, the name that may have been meant.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_origin

import pandas as pd
import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from torch import nn

from attnlib.places import pasteable
from attnlib.training import History, Plan, token_scores, trained
from attnlib.training.keeping import Snapshots
from attnlib.training.run import BEST
from book.chapters.demands import refuse_too_large
from book.chapters.later import PARAMETERS
from book.chapters.parameters import Device
from book.chapters.processes import processes, train_side_by_side
from book.chapters.records import device_name, record
from book.chapters.refusals import REFUSED, ParameterError, refusal, shown

_IPYTHONS_OWN = {"In", "Out"}  # plain values that IPython itself puts beside the parameters

C = TypeVar("C", bound="Chapter")


def _as_typed(kind: Any, value: Any) -> Any:
    """The value in its parameter's type: papermill passes a bool, list or mapping as text, read as JSON."""
    kind = get_origin(kind) or kind
    if not isinstance(value, str) or kind not in (bool, list, dict):
        return value
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return read if isinstance(read, kind) else value


@dataclass(frozen=True)
class Run:
    """One model to train; subclasses add the fields in which a chapter's models differ.

    Attributes:
        seed: the seed of the model's weights and of the order of its batches.
    """

    name: str
    seed: int


@dataclass(frozen=True)
class Setup:
    """Everything that determines the trained model of a run; `fit` describes `loss` and `hooks`.

    Attributes:
        plan: the plan of the training; with `None` the model is used without training.
        valid: the validation batches, on which the best checkpoint is chosen.
        score: computes a model's metrics on `valid`, including `plan.metric`.
    """

    model: nn.Module
    batches: Callable[[int], Any]
    loss: Callable[..., Any]
    plan: Plan | None
    valid: Sequence[Any] = ()
    score: Callable[..., dict[str, float]] = token_scores
    hooks: Sequence[Any] = ()


@dataclass(frozen=True)
class Trained:
    """A run's model in evaluation mode with its best weights, and its history (empty without training)."""

    run: Run
    model: nn.Module
    history: History = field(default_factory=History)
    hooks: Sequence[Any] = ()


class Chapter(BaseModel):
    """A chapter: its parameters, its models, and its record.

    A subclass declares the type and the range of each parameter of the notebook's cell. Its file has the name
    of the notebook. The class defines the `runs`, the `setup` of each run, and the chapter's `label`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    device: Device

    _trained: dict[str, Trained] = PrivateAttr(default_factory=dict)
    _started: float = PrivateAttr(default_factory=time.monotonic)

    @field_validator("*", mode="before")
    @classmethod
    def _typed(cls, value: Any, info: ValidationInfo) -> Any:
        return _as_typed(cls.model_fields[str(info.field_name)].annotation, value)

    @model_validator(mode="after")
    def _small_enough(self) -> Chapter:
        refuse_too_large(self)
        return self

    # ---- parameters ----------------------------------------------------------------------------------

    @classmethod
    def from_notebook(cls: type[C], names: Mapping[str, Any]) -> C:
        """The chapter with the parameters among a notebook's global names."""
        # When a reader runs the cell again, names that later cells defined are there, too: they are ignored.
        again = any(isinstance(value, cls) for value in names.values())
        plain = (bool, int, float, str, list, tuple, dict, type(None))

        def may_be_parameter(name: str, value: Any) -> bool:
            return isinstance(value, plain) and not name.startswith("_") and name not in _IPYTHONS_OWN

        values = {
            name: value
            for name, value in names.items()
            if name in cls.model_fields or (may_be_parameter(name, value) and not again)
        }
        return cls.checked(values)

    @classmethod
    def checked(cls: type[C], values: Mapping[str, Any]) -> C:
        """The chapter with these parameters; see `from_notebook` for the errors."""
        try:
            return cls(**values)
        except ValidationError as error:
            refused = refusal(cls, error)
        except OSError as error:  # a name that is too long for a file's, say
            refused = ParameterError(
                f"{REFUSED}\n  - {shown(error.filename)} cannot be read: {error.strerror}"
            )
        raise refused  # outside the except block, so that pydantic's own traceback does not bury the message

    # ---- models --------------------------------------------------------------------------------------

    def runs(self) -> Sequence[Run]:
        """Every model to train."""
        return ()

    def setup(self, run: Any) -> Setup:
        """The model, data and training plan of a run: one of `runs()`, or one of your own."""
        raise NotImplementedError

    def train(self, run: Run, progress: bool = True) -> Trained:
        """Train the model of a run, or load it if the same one was trained before."""
        setup = self.setup(run)
        model, plan = setup.model, setup.plan
        history = History()
        if plan is None:
            model.to(self.torch_device).eval()
        else:
            how: dict[str, Any] = {"valid": setup.valid, "score": setup.score, "hooks": setup.hooks}
            how |= {"chapter": self.notebook, "progress": progress}
            history = trained(model, setup.batches, setup.loss, plan, **how)
        self._trained[run.name] = Trained(run, model, history, setup.hooks)
        return self._trained[run.name]

    def train_all(self) -> tuple[dict[str, nn.Module], dict[str, pd.DataFrame]]:
        """The models of all runs, and the tables of their training histories, by the runs' names."""
        runs = self.runs()
        if (n := processes()) > 1 and len(runs) > 1:
            train_side_by_side(self, runs, n)
        found = [self.train(run) for run in runs]
        models = {each.run.name: each.model for each in found}
        return models, {each.run.name: each.history.table for each in found if each.history.rows}

    def kept(self, name: str) -> Snapshots:
        """The checkpoints of a run's model at the steps at which they were kept."""
        (snapshots,) = (hook for hook in self.trained[name].hooks if isinstance(hook, Snapshots))
        return snapshots

    @property
    def trained(self) -> Mapping[str, Trained]:
        """The models that were trained so far, by the runs' names."""
        return self._trained

    @property
    def files(self) -> dict[str, str]:
        """The paths of the trained models' weights, quoted for a shell, by the runs' names."""
        folders = {name: found.history.folder for name, found in self.trained.items()}
        return {name: pasteable(folder / BEST) for name, folder in folders.items() if folder is not None}

    @property
    def torch_device(self) -> torch.device:
        """The torch device that the parameter `device` means on this machine."""
        return Plan(steps=1, device=self.device).torch_device()

    # ---- its record ----------------------------------------------------------------------------------

    @property
    def notebook(self) -> str:
        """The name of the chapter's notebook, which is also the name of the class's file."""
        return type(self).__module__.rpartition(".")[2]

    @property
    def label(self) -> str:
        """The label of the chapter's records with these parameters."""
        raise NotImplementedError

    @property
    def recorded_parameters(self) -> dict[str, Any]:
        """The parameters that a record states and is named after: see `later.PARAMETERS`."""
        later = PARAMETERS.get(self.notebook, {})
        values = self.model_dump(mode="json").items()
        return {name: value for name, value in values if name not in later or value != later[name]}

    def record(self, rows: pd.DataFrame) -> Path | None:
        """Record the results, with the facts of the actual training; see `book.chapters.records.record`."""
        return record(
            rows,
            notebook=self.notebook,
            label=self.label,
            params=self.recorded_parameters,
            device=device_name(self.torch_device),
            seconds=time.monotonic() - self._started,
            training={name: found.history for name, found in self.trained.items() if found.history.folder},
        )
