"""One prompt asked again and again, with one of its tokens disturbed at a time, many at once.

In a causal model nothing before the disturbed token changes: where the model keeps keys and values, those of
the tokens before the first that is disturbed are computed once.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlib.attribution.prompts import Prompts
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of
from attnlib.models.transformer import Transformer


class Copies(NamedTuple):
    """What a model is called with: copies of a prompt, a token of each to be disturbed.

    Attributes:
        prompt: which prompt of the batch.
        tokens: of each copy, the position to be disturbed.
        start: the position from which on the copies are read; the model remembers what is before.
        stop: the one after the last.
    """

    prompt: int
    tokens: Int[Tensor, " copy"]
    start: int
    stop: int


Disturbed = Callable[[Copies], AbstractContextManager[None]]
"""The `with` block in which the model is called with copies."""


def is_causal(model: Any) -> bool:
    """Whether a model's tokens see those before them only."""
    return model.config.causal if isinstance(model, Transformer) else getattr(model, "can_generate", bool)()


@torch.no_grad()
def falls(
    model: Any,
    prompts: Prompts,
    disturbed: Disturbed,
    batch_size: int,
    *,
    tokens: Bool[Tensor, "batch token"] | None = None,
    changes_from: int = 0,
) -> Float[Tensor, "batch token"]:
    """`s - s(token disturbed)`; 0 for tokens that the query cannot see.

    Args:
        model: any that scores the next token at every position.
        prompts: what is asked.
        disturbed: what is done.
        batch_size: how many tokens at once.
        tokens: those that a disturbance changes; all by default.
        changes_from: the first position at which anything does.
    """
    causal = is_causal(model)
    stop = prompts.query + 1 if causal else prompts.ids.shape[1]
    remembers = causal and "past_key_values" in inspect.signature(model.forward).parameters
    with evaluating(model):
        logits = logits_of(model, prompts.ids[:, :stop], start=prompts.query)[:, 0]
        aimed = prompts.aimed(logits)
        whole = aimed.score(logits)
        fallen = whole.new_zeros(prompts.ids.shape)
        for one in range(len(whole)):
            chosen = torch.arange(stop, device=whole.device)
            chosen = chosen if tokens is None else chosen[tokens[one, :stop]]
            prompt, past, start = aimed.rows([one]), None, 0
            for some in chosen.split(batch_size) if len(chosen) else ():
                first = max(int(some[0]), changes_from)
                if remembers and first > start:
                    read = prompt.ids[:, start:first]
                    past = model.base_model(input_ids=read, past_key_values=past, use_cache=True)
                    past, start = past.past_key_values, first
                given, remembered = prompt.rows([0] * len(some)), dict[str, Any]()
                if past is not None:
                    remembered["past_key_values"] = copy.deepcopy(past)
                    remembered["past_key_values"].batch_repeat_interleave(len(some))
                with disturbed(Copies(one, some, start, stop)):
                    logits = logits_of(
                        model, given.ids[:, start:stop], start=prompts.query - start, **remembered
                    )
                fallen[one, some] = whole[one] - given.score(logits[:, 0])
    return fallen


def places(tokens: Int[Tensor, " copy"], length: int, stop: int) -> Bool[Tensor, "copy place"]:
    """Where tokens stand among the last `length` before `stop`: a cache may have kept only so many."""
    return torch.arange(stop - length, stop, device=tokens.device) == tokens[:, None]
