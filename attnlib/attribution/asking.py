"""Any methods asked at once, by whatever name; `registry` knows them by theirs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attribution.attention import one_pass, shares_a_pass
from attnlib.attribution.prompts import Counterfactual, Mask, Method, Prompts, Target, by_length, padded

Within = Callable[[nn.Module, Prompts, list[str]], AbstractContextManager[None]]
"""What surrounds the asking of some methods."""


def _nothing_more(model: nn.Module, prompts: Prompts, names: list[str]) -> AbstractContextManager[None]:
    return nullcontext()


def ask(
    model: nn.Module,
    input_ids: Int[Tensor, "batch token"],
    methods: Mapping[str, Method],
    attention_mask: Mask = None,
    query: int = -1,
    target: Target = None,
    foil: Target = None,
    counterfactual: Counterfactual = None,
    *,
    within: Within = _nothing_more,
) -> dict[str, Float[Tensor, "batch key"]]:
    """What one prediction of every prompt drew on, by many methods; see `registry.attributions`.

    A study that names its own methods asks here: nothing of it then depends on what else comes to the
    registry.

    Args:
        model: see `attributions`, and for all that follow but the last.
        input_ids: a batch.
        methods: by name.
        attention_mask: 1 for tokens, 0 for padding.
        query: the position that predicts.
        target: the predicted token.
        foil: another one.
        counterfactual: what might have stood there.
        within: entered around the asking of methods, with their names.

    Raises:
        ValueError: the model cannot give a method; or tokens, positions or targets are out of range.
    """
    parts: dict[str, list] = {name: [] for name in methods}
    for place, prompts in by_length(model, input_ids, attention_mask, query, target, foil, counterfactual):
        for name, scores in scores_of(model, prompts, methods, within).items():
            parts[name].append((place, scores))
    return {name: padded(each, input_ids) for name, each in parts.items()}


def scores_of(
    model: nn.Module, prompts: Prompts, methods: Mapping[str, Method], within: Within = _nothing_more
) -> dict[str, Float[Tensor, "batch key"]]:
    """The scores of some methods, of prompts of one length; arguments and errors as in `ask`."""
    together = {name: method for name, method in methods.items() if shares_a_pass(method)}
    found = {}
    if together:
        with within(model, prompts, [*together]):
            found = one_pass(model, prompts, together)[0]
    question: dict[str, Any] = {"query": prompts.query, "target": prompts.target, "foil": prompts.foil}
    for name in [name for name in methods if name not in together]:
        more = {"counterfactual": prompts.counterfactual} if _compares(methods[name], prompts) else {}
        with within(model, prompts, [name]):
            found[name] = methods[name](model, prompts.ids, attention_mask=None, **question, **more)
        if found[name].shape != prompts.ids.shape:
            raise ValueError(
                f"{name!r} should give a score per token, {tuple(prompts.ids.shape)}. Got shape "
                f"{tuple(found[name].shape)} instead."
            )
    return {name: found[name] for name in methods}


def _compares(method: Method, prompts: Prompts) -> bool:
    """Whether there is a counterfactual, and the method takes one: a reader's own may not."""
    taken = inspect.signature(method, follow_wrapped=False).parameters
    takes_all = any(each.kind == each.VAR_KEYWORD for each in taken.values())
    return prompts.counterfactual is not None and (takes_all or "counterfactual" in taken)
