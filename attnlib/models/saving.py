"""A model's settings as they stand in the header of its file."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from torch import nn


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
