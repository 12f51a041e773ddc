"""What a trained model is kept under: a hash of all that went into it, taken from the things themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any

from torch import nn

from attnlib.models.saving import config_of
from attnlib.training.content import digest, named, types_within
from attnlib.training.definitions import library_of, reached
from attnlib.training.plan import Plan


def fingerprint_parts(
    model: nn.Module,
    batches: Callable[[int], Any],
    loss: Callable[..., Any],
    plan: Plan,
    *,
    valid: Sequence[Any] | None = None,
    score: Callable[..., Any] | None = None,
    hooks: Iterable[Any] = (),
    loop: Callable[..., Any] | None = None,
) -> dict[str, str]:
    """What decides a trained model, part by part, each as a hash.

    Args:
        model: counts by class, settings and weights, also by which of them learn.
        batches: counts by all the batches that it gives, so that the code that makes them does not. (Drawing
            one takes a fifth of a millisecond to two, far less than learning from it.)
        loss: counts by what it holds, and by its code.
        plan: counts by its settings; the device by its type.
        valid: what the model is scored on; counts by content.
        score: counts as `loss` does.
        hooks: those that keep files count, by what they say of themselves: their attribute `asked`.
        loop: whose code counts too.

    Returns:
        `model`, `data`, `valid`, `plan`, `loss`, `score`, `kept`: what was asked for; `code` and `versions`:
        what carried it out.

    Raises:
        Unreadable: there is no telling what one of them holds, or no source of it.
    """
    keepers = [hook for hook in hooks if hasattr(hook, "asked")]
    classes = {type(part) for part in model.modules()}
    starts = [
        *classes,
        *types_within([loss, score, loop]),
        *map(type, [batches(0), *keepers]),
        *([loop] if loop else []),
    ]
    return {
        "model": digest(_model(model)),
        "data": digest([plan.steps, *map(digest, map(batches, range(plan.steps)))]),
        "valid": digest(valid),
        "plan": digest(plan.settings()),
        "loss": digest(loss),
        "score": digest(score),
        "kept": digest([(named(type(hook)), hook.asked) for hook in keepers]),
        "code": digest(sorted(reached(starts).items())),
        "versions": digest(_versions(classes)),
    }


def _model(model: nn.Module) -> list[Any]:
    """A model by class, settings, weights, and which of them learn.

    Settings do not say all: a Hugging Face model also has its kernel of attention, and a module without a
    `config` says some of its own in its `repr` (the probability of dropout, say).
    """
    settings = config_of(model)
    settings.pop("_name_or_path", None)  # where it was read from: the weights themselves count
    kernel = getattr(getattr(model, "config", None), "_attn_implementation", None)
    learns = [(name, weight.requires_grad) for name, weight in model.named_parameters()]
    return [named(type(model)), settings, kernel, repr(model), learns, dict(model.state_dict())]


_distributions = functools.cache(packages_distributions)  # reads every package's list of files


def _versions(classes: Iterable[type]) -> dict[str, str]:
    """The versions of torch, and of the libraries that a model's classes are from."""
    found = {}
    for library in sorted({"torch"} | {name for each in classes if (name := library_of(each))}):
        for package in _distributions().get(library, [library]):
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                found[package] = "unknown"
    return found
