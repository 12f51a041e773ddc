"""How models are kept: weights, and settings in the header, in one file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import nn

from attnlib.files import CheckpointError, load_tensors, save_tensors

M = TypeVar("M", bound="Saved")


class Saved(nn.Module):
    """A model that can be written to a file and read back: one with a `config`, from which it is built.

    Attributes:
        CONFIG: the class of its settings.
    """

    CONFIG: ClassVar[type]

    def save(self, path: str | Path, **header: Any) -> None:
        """Write weights and settings to one safetensors file, atomically.

        Args:
            path: of the file.
            header: what else its header is to say, such as whose it is; as JSON can hold it.

        Raises:
            CheckpointError: it could not be written.
        """
        save_tensors(Path(path), self.state_dict(), {"config": config_of(self), **header})

    @classmethod
    def load(cls: type[M], path: str | Path, device: torch.device | str = "cpu") -> M:
        """The model that `save` (or `fit`, as best.safetensors) wrote, in evaluation mode.

        Raises:
            CheckpointError: there is no such file, it is damaged, or it is of another model.
        """
        if not Path(path).is_file():
            raise CheckpointError(
                f"there is no checkpoint {path}. Train the model first (fit with folder=... writes "
                f"best.safetensors into it), or name the file of one that was."
            )
        return cls.built(path, *load_tensors(Path(path))).to(device)

    @classmethod
    def built(cls: type[M], path: str | Path, weights: dict[str, torch.Tensor], header: dict[str, Any]) -> M:
        """The model of a file's content; see `load`."""
        try:
            model = cls(cls.CONFIG(**header["config"]))
            model.load_state_dict(weights)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{path} is not the checkpoint of a {cls.__name__}: {error}") from error
        return model.eval()


def config_of(model: nn.Module) -> dict[str, Any]:
    """A model's settings as JSON: its `config` (a dataclass, or Hugging Face's); empty if it has none."""
    config: Any = getattr(model, "config", None)
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        settings = dataclasses.asdict(config)
    else:
        settings = config.to_dict() if hasattr(config, "to_dict") else {}
    return as_json(settings)


def as_json(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings as they come back from a file: tuples as lists, what JSON does not know as text."""
    return json.loads(json.dumps(settings, default=str))
