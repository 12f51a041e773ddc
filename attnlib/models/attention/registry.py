"""The attention functions of Hugging Face models: the names they are looked up by, and what stands behind."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn


def implementations(model: nn.Module) -> set[str]:
    """The names by which a model, and every model inside it, looks up attention."""
    configs: list[Any] = [getattr(module, "config", None) for module in model.modules()]
    return {c._attn_implementation or "eager" for c in configs if hasattr(c, "_attn_implementation")}


def eager_function(module: nn.Module) -> Callable:
    """The function that a module's file falls back to: eager attention has no name to look it up by.

    Raises:
        ValueError: the file has none by the usual name.
    """
    function = inspect.unwrap(type(module).forward).__globals__.get("eager_attention_forward")
    if function is None:
        raise ValueError(
            f"{type(module).__name__} has an eager attention of its own that cannot be called from outside. "
            'Choose another with model.set_attn_implementation("sdpa").'
        )
    return function
