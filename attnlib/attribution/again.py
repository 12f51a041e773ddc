"""One prompt asked again and again, with one of its tokens disturbed at a time, many at once.

In a causal model nothing before the disturbed token changes: keys and values of the tokens before the first
that is disturbed are those of the undisturbed prompt, computed once. That takes about half the operations of
a forward pass per token.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlib.attribution.prompts import Prompts
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of
from attnlib.models.attention.memory import going_on, remembered
from attnlib.models.causal import is_causal


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
    ids, memory = prompts.ids[:, :stop], None
    with evaluating(model):
        if causal:
            memory, logits = remembered(model, ids, prompts.query)
        else:
            logits = logits_of(model, ids, start=prompts.query)[:, 0]
        aimed = prompts.aimed(logits)
        whole = aimed.score(logits)
        fallen = whole.new_zeros(prompts.ids.shape)
        for one in range(len(ids)):
            chosen = torch.arange(stop, device=ids.device)
            chosen = chosen if tokens is None else chosen[tokens[one, :stop]]
            for some in chosen.split(batch_size) if len(chosen) else ():
                start = 0 if memory is None else max(int(some[0]), changes_from)
                given = ids[one, start:].expand(len(some), -1)
                goes_on = going_on(model, memory, one, start, len(some))
                with goes_on as inputs, disturbed(Copies(one, some, start, stop)):
                    logits = logits_of(model, given, start=prompts.query - start, **inputs)
                fallen[one, some] = whole[one] - aimed.rows([one] * len(some)).score(logits[:, 0])
    return fallen


def places(tokens: Int[Tensor, " copy"], length: int, stop: int) -> Bool[Tensor, "copy place"]:
    """Where tokens stand among the last `length` before `stop`: the queries, say, that are read."""
    return torch.arange(stop - length, stop, device=tokens.device) == tokens[:, None]
