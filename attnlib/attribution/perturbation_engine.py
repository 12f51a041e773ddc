"""One loop for all perturbations: for every change of a prompt, run the model and compare its scores.

Methods differ in what they change (`attnlib.attribution.perturbation`, `attnlib.attribution.surrogate`). In
a causal model nothing before the perturbed token changes: keys and values of the tokens before the first
that is perturbed are those of the prompt itself, computed once. That takes about half the operations of a
forward pass per token. The cache holds what a model's own cache holds in generation, but works for any kernel
and for attnlib's `Transformer`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.attribution.assumptions import alike
from attnlib.attribution.prompts import Prompts
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import check_mixing, first_position, logits_of, n_layers, taken_by
from attnlib.models.attention.inputs import every_layer, replace, set_visible
from attnlib.models.attention.interface import implementations
from attnlib.models.causal import is_causal
from attnlib.models.transformer import Transformer
from attnlib.undoing import scope

Memory = dict[int, Any]
"""The attention calls of a causal model in a pass over some prompts, by the `id` of their module."""


Run = Callable[[int, Tensor], Float[Tensor, "change vocabulary"]]
"""A function that gives the logits at the query of one prompt (its row) under each of some changes."""


def scores_under(
    aimed: Prompts,
    changes: Sequence[Tensor],
    run: Run,
    batch_size: int,
    score: Callable[[Prompts, Tensor], Float[Tensor, " change"]] = Prompts.score,
) -> list[Float[Tensor, " change"]]:
    """The score of every prompt under each of its changes (rows), of which `batch_size` run at a time."""
    found = []
    for prompt, every in enumerate(changes):
        some = every.split(batch_size) if len(every) else ()
        parts = [score(aimed.rows([prompt] * len(each)), run(prompt, each)) for each in some]
        found.append(torch.cat(parts) if parts else torch.zeros(0, device=aimed.ids.device))
    return found


class PerturbedBatch(NamedTuple):
    """Copies of one prompt, in each of which one token is to be perturbed.

    Attributes:
        prompt: the prompt's row in the batch.
        tokens: the position to be perturbed in each copy.
        start: the first position that the model reads; its cache has what is before.
        stop: one after the last position that the model reads.
    """

    prompt: int
    tokens: Int[Tensor, " copy"]
    start: int
    stop: int


Perturb = Callable[[PerturbedBatch], AbstractContextManager[None]]
"""A function that gives the `with` block in which the model reads the copies."""


@torch.no_grad()
def score_drops(
    model: Any,
    prompts: Prompts,
    perturb: Perturb,
    batch_size: int,
    *,
    tokens: Bool[Tensor, "batch token"] | None = None,
    changes_from: int = 0,
) -> Float[Tensor, "batch token"]:
    """`s - s(token perturbed)`; 0 for tokens that the query cannot see, or that are not among `tokens`.

    A perturbation must change nothing before position `changes_from`.
    """
    causal = is_causal(model)
    stop = prompts.query + 1 if causal else prompts.ids.shape[1]
    ids, memory = prompts.ids[:, :stop], None
    with evaluating(model):
        if causal:
            memory, logits = prefill_cache(model, ids, prompts.query, changes_from)
        else:
            logits = logits_of(model, ids, start=prompts.query)[:, 0]
        aimed = prompts.aimed(logits)

        def run(one: int, some: Tensor) -> Tensor:
            start = 0 if memory is None else max(int(some[0]), changes_from)
            given = ids[one, start:].expand(len(some), -1)
            goes_on = continued_from_cache(model, memory, one, start, len(some))
            with goes_on as inputs, perturb(PerturbedBatch(one, some, start, stop)):
                return logits_of(model, given, start=prompts.query - start, **inputs)[:, 0]

        place = torch.arange(stop, device=ids.device)
        chosen = [place] * len(ids) if tokens is None else [place[each[:stop]] for each in tokens]
        whole = aimed.score(logits)
        drops = whole.new_zeros(prompts.ids.shape)
        for one, under in enumerate(scores_under(aimed, chosen, run, batch_size)):
            drops[one, chosen[one]] = whole[one] - under
    return drops


def places(tokens: Int[Tensor, " copy"], length: int, stop: int) -> Bool[Tensor, "copy place"]:
    """True at each copy's token, among the `length` positions before `stop`, such as the queries read."""
    return torch.arange(stop - length, stop, device=tokens.device) == tokens[:, None]


@torch.no_grad()
def prefill_cache(
    model: Any, input_ids: Int[Tensor, "batch token"], query: int, changes_from: int = 0
) -> tuple[Memory | None, Float[Tensor, "batch vocabulary"]]:
    """The cache of a pass (None if the model cannot continue from it), and its logits at the query.

    Whether a model can continue from `changes_from` on is tested on the first prompt, with nothing perturbed.
    """
    memory: Memory = {}
    if not _has_positions(model):
        return None, logits_of(model, input_ids, start=query)[:, 0]
    with every_layer(model, memory.__setitem__, needed=False):
        logits = logits_of(model, input_ids, start=query)[:, 0]
    plain = all(call.knows_mask and call.bias is None for call in memory.values())
    goes_on = plain and len(memory) == n_layers(model)
    for start in {(changes_from + query + 1) // 2, query} if goes_on else ():
        goes_on = goes_on and _goes_on_alike(model, memory, input_ids, start, query, logits)
    return memory if goes_on and _looks_alike(model, memory, input_ids) else None, logits


def _goes_on_alike(
    model: Any,
    memory: Memory,
    input_ids: Int[Tensor, "batch token"],
    start: int,
    query: int,
    logits: Float[Tensor, "batch vocabulary"],
) -> bool:
    """Whether continuing the first prompt from `start` gives the logits of the whole pass."""
    try:
        with continued_from_cache(model, memory, 0, start, 1) as inputs:
            found = logits_of(model, input_ids[:1, start:], start=query - start, **inputs)[:, 0]
    except Exception:
        return False  # a model may raise anything at fewer queries than keys
    return alike(found, logits[:1])


def _looks_alike(model: Any, memory: Memory, input_ids: Int[Tensor, "batch token"]) -> bool:
    """Whether the masks are independent of the text, which a perturbation changes."""
    if all(map(_same_everywhere, memory.values())):
        return True
    other: Memory = {}
    with every_layer(model, other.__setitem__, needed=False):
        logits_of(model, input_ids[:1].roll(1, 1), start=input_ids.shape[1] - 1)
    pairs = [(call.mask, other[at].mask) for at, call in memory.items()]
    return all(one is two is None or torch.equal(_of(one, 0), two) for one, two in pairs)


def _same_everywhere(call: Any) -> bool:
    """Whether a mask depends on the distance of query and key only, and adds nothing to visible scores."""
    mask = call.mask
    if mask is None:
        return True
    if mask.is_floating_point() and bool((mask[call.visible()] != 0).any()):
        return False
    visible = call.visible()
    return bool((visible[..., 1:, 1:] == visible[..., :-1, :-1]).all())


@scope
def continued_from_cache(
    model: nn.Module, memory: Memory | None, row: int, start: int, copies: int
) -> Iterator[dict[str, Tensor]]:
    """Let the model continue copies of prompt `row` from position `start`, inside a `with` block.

    Yields the arguments that the model needs besides the tokens. Without `memory`, `start` is 0.
    """
    if not memory or not start:
        yield {}
        return

    def longer(module: int, call: Any) -> None:
        before = memory[module]
        query, *now = call.inputs
        kept = (x[row, None, :, :start].expand(len(query), -1, -1, -1) for x in before.inputs[1:])
        replace(call, query, *(torch.cat(both, 2) for both in zip(kept, now, strict=True)))
        if before.mask is not None:  # it may add numbers to scores
            call.mask = _of(before.mask, row)[..., start:, :]
        set_visible(call, _of(before.visible(), row)[..., start:, :])

    key = next(iter(memory.values())).key
    places = first_position(model) + torch.arange(start, key.shape[2], device=key.device)
    with every_layer(model, longer):
        yield {"position_ids": places.expand(copies, -1)}


def _of(mask: Tensor, row: int) -> Tensor:
    return mask[[row if len(mask) > 1 else 0]]


def _has_positions(model: Any) -> bool:
    """Whether a model takes positions, and knows of earlier tokens by keys and values only."""
    try:
        check_mixing(model)
    except ValueError:
        return False
    if isinstance(model, Transformer):
        return True
    return bool(implementations(model)) and "position_ids" in taken_by(model)
