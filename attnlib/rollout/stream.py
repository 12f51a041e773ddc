r"""Generative rollout while it happens, for a live view.

The matrix grows with every step of `generate`. A step computes attention of its new tokens only, on keys that
the model kept from earlier steps; the rows of `R_(l-1)` that belong to these keys are kept here likewise, in
one buffer per layer, like a second cache of values with one channel per prompt token. Each step costs one
more attention call per layer, and each row is available as soon as its token is.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextvars import copy_context
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.checks import check
from attnlib.models.attention import watching
from attnlib.models.attention.call import AttentionCall, Product, Wanted
from attnlib.models.attention.forward import check_layers, model_dtype, n_layers
from attnlib.models.devices import brought_by_name
from attnlib.options import plain_options
from attnlib.rollout.beside import beside_tokens, of_prompt
from attnlib.rollout.dense import non_sink_mask
from attnlib.rollout.generative import check_generation, generate
from attnlib.rollout.recursion import Recursion, one_hot
from attnlib.undoing import undone

_ONE_BY_ONE = (
    "assistant_model",
    "prompt_lookup_num_tokens",
    "assistant_early_exit",
    "cache_implementation",
    "prefill_chunk_size",
)


class StreamedToken(NamedTuple):
    """A generated token and its row: the share of each prompt token, per layer."""

    token: int
    row: Float[Tensor, "prompt layer"]


@plain_options
def stream_with_rollout(
    model: nn.Module,
    input_ids: Int[Tensor, "1 prompt"],
    max_new_tokens: int,
    *,
    attention_mask: Int[Tensor, "1 prompt"] | Bool[Tensor, "1 prompt"] | None = None,
    sink: Sequence[int] | None = None,
    **generate_kwargs: Any,
) -> Iterator[StreamedToken]:
    """The rows of `generate_with_rollout`, each as soon as its token is generated.

    `model.generate` runs in a thread of its own; leaving the loop stops it at its next token.

    Args:
        model: as in `generate_with_rollout`.
        input_ids: as in `generate_with_rollout`.
        max_new_tokens: as in `generate_with_rollout`.
        attention_mask: as in `generate_with_rollout`.
        sink: as in `rollout`; prompt positions.
        **generate_kwargs: handed to `model.generate`; but no assistant models, and no static caches, whose
            steps and keys are not the tokens generated; nor `use_cache=False`, nor prefilling in chunks.

    Yields:
        `(token, row)`: the matrix row by row.

    Raises:
        ValueError: as `generate_with_rollout`, before anything is generated.
    """
    prompt = check_generation(model, input_ids, attention_mask, max_new_tokens, generate_kwargs)
    inputs = brought_by_name(model, beside_tokens(model, generate_kwargs))
    generate_kwargs |= of_prompt(inputs, input_ids, attention_mask)
    for name in _ONE_BY_ONE:
        given = generate_kwargs.get(name)
        check(given is None, f"{name} must be None: a stream takes single tokens", given)
    cache = generate_kwargs.get("use_cache")
    check(cache is not False, "use_cache must be True: else every step reads all tokens", cache)
    non_sink = None if sink is None else non_sink_mask(sink, prompt.shape[1], prompt.device, max_new_tokens)
    layers = n_layers(model)
    if layers is None:
        raise ValueError(
            f"{type(model).__name__} does not say how many layers it has. Use generate_with_rollout."
        )
    columns = torch.arange(prompt.shape[1], device=prompt.device)
    start = one_hot(columns, (1, prompt.shape[1] + max_new_tokens), model_dtype(model))
    recursion = _CachedRecursion(start, layers, non_sink=non_sink)
    return _rows(model, recursion, prompt, max_new_tokens, generate_kwargs)


class _CachedRecursion(Recursion):
    """A recursion that goes on from step to step of a generation."""

    def __init__(self, start: Float[Tensor, "1 token column"], layers: int, **options: Any) -> None:
        super().__init__(start, **options)
        self.rows = [start] + [torch.zeros_like(start) for _ in range(layers)]
        self.calls, self.end = 0, 0

    def __call__(self, call: AttentionCall) -> Generator[Wanted, Product, None]:
        """One layer of one step."""
        self.layer = self.calls % (len(self.rows) - 1)
        queries, keys = call.query.shape[2], call.key.shape[2]
        if not self.layer:
            self.end += queries
        first = self.end - queries
        fits = keys <= self.end <= self.rows[0].shape[1]
        check(fits, "a cache must hold a key per token (else use generate_with_rollout)", keys)
        self._follow_to(call.query.device)
        below = self.rows[self.layer].to(call.query.device)
        state = yield from self.step(
            call, below[:, self.end - keys : self.end], below[:, first : self.end], self.end
        )
        self.rows[self.layer + 1][:, first : self.end] = state
        self.calls += 1

    def last_row(self) -> Float[Tensor, "prompt layer"]:
        """The newest query's row of every layer."""
        return torch.stack([rows[0, self.end - 1] for rows in self.rows[1:]], -1)


def _rows(
    model: nn.Module,
    recursion: _CachedRecursion,
    prompt: Int[Tensor, "1 prompt"],
    max_new_tokens: int,
    generate_kwargs: dict[str, Any],
) -> Iterator[StreamedToken]:
    rows, stop, seen = SimpleQueue[StreamedToken | BaseException | None](), Event(), 0

    def watch(input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        """A stopping criterion that hands on every token's row, and ends `generate` if the loop was left."""
        nonlocal seen
        check_layers(model, recursion.calls - seen)
        seen = recursion.calls
        rows.put(StreamedToken(int(input_ids[0, -1]), recursion.last_row()))
        return torch.full((len(input_ids),), stop.is_set(), dtype=torch.bool, device=input_ids.device)

    def work() -> None:
        from transformers import StoppingCriteriaList

        try:
            given = generate_kwargs.get("stopping_criteria") or []
            criteria = StoppingCriteriaList([watch, *given])
            with watching(model, recursion):
                generate(model, prompt, max_new_tokens, generate_kwargs | {"stopping_criteria": criteria})
            rows.put(None)
        except BaseException as error:
            rows.put(error)

    worker = Thread(target=copy_context().run, args=(work,), name="stream_with_rollout", daemon=True)

    def end() -> None:
        stop.set()
        if worker.ident is not None:  # it was started
            worker.join()

    with undone(end):
        worker.start()
        while (item := rows.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
