r"""Generative rollout: which prompt tokens each generated token depends on, layer by layer.

With a prompt of `P` tokens (positions `0 .. P - 1`), generated token `g` stands at position `P + g` and is
predicted by the query one before it. Its row is that query's:

    matrix[g, k, l] = R_(l+1)[P + g - 1, k]        g = 0 .. generated - 1,  k < P,  l = 0 .. layers - 1

so the first generated token has the row of the prompt's last token. What is missing from a row's sum went to
tokens generated before. In a causal model a later token changes no earlier row, so nothing has to be computed
while tokens are generated: `generate_with_rollout` lets Hugging Face's `generate` work at its own speed and
keeps the queries and keys that it computes, from which rollout of the prompt's columns follows in the end.
`stream_with_rollout` gives each row at once.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.checks import check, check_count
from attnlib.models.attention import evaluating, watching
from attnlib.models.attention.call import AttentionCall, Observer, Product, Wanted
from attnlib.models.attention.forward import (
    called,
    check_mixing,
    check_model,
    check_prompt,
    model_dtype,
    vocabulary_of,
    watched_pass,
)
from attnlib.models.devices import brought, brought_by_name
from attnlib.options import plain_options
from attnlib.pieces import pieces
from attnlib.rollout.beside import beside_tokens, of_all, of_prompt
from attnlib.rollout.collected import Collected, follow
from attnlib.rollout.core import uniform_causal_attention
from attnlib.rollout.dense import non_sink_mask
from attnlib.rollout.null import null_ratio, uniform_causal_rollout
from attnlib.rollout.recursion import Recursion, one_hot

UNINFORMATIVE: frozenset[str] = frozenset({"a", "an", "the", *string.punctuation, *"‘’“”–—…¿¡«»"})
"""Articles and punctuation, which say little about what a prediction depends on. The default of `ignore` in
`GenerativeRollout.top`; `ignore=UNINFORMATIVE | {"of", "to"}` makes a longer list."""

Ignore = Collection[str] | Callable[[str], bool]


class TopToken(NamedTuple):
    """A prompt token and its share."""

    position: int
    token: int
    text: str
    mass: float


@dataclass(frozen=True)
class GenerativeRollout:
    """What was generated, and where each token of it came from.

    Attributes:
        tokens: ids of the generated tokens.
        prompt: ids of the prompt.
        matrix: see the module's docstring.
        words: the prompt's tokens as text; empty if there was no tokenizer.
        special: True for prompt tokens that are no text (the beginning of the sequence, say).
        sink: prompt positions that were left out as sinks; negative ones count from the prompt's end.
        raw: whether the matrix holds each layer's attention (`raw_attention`) in place of rollout.
        beside: the model's inputs besides tokens (`pixel_values`), for all tokens that it read.
    """

    tokens: Int[Tensor, " generated"]
    prompt: Int[Tensor, " prompt"]
    matrix: Float[Tensor, "generated prompt layer"]
    words: tuple[str, ...] = ()
    special: tuple[bool, ...] = ()
    sink: Sequence[int] | None = None
    raw: bool = False
    beside: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.sink is not None:  # counted from the start, they stay right beside generated tokens
            object.__setattr__(self, "sink", tuple(int(place) % len(self.prompt) for place in self.sink))

    def of(
        self, generated: int | slice
    ) -> Float[Tensor, "prompt layer"] | Float[Tensor, "some prompt layer"]:
        """The part of the matrix that belongs to one generated token, or to a slice of them."""
        return _part(self.matrix, "generated", generated)

    def __dlpack__(self, **options: Any) -> Any:
        """The matrix, for `torch.as_tensor` and whatever else reads tensors."""
        return self.matrix.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        """The device of the matrix, for DLPack."""
        return self.matrix.__dlpack_device__()

    def mean_over_layers(self) -> Float[Tensor, "generated prompt"]:
        """The mean of `matrix[g, k, l]` over `l`."""
        return self.matrix.mean(-1)

    def over_null(self) -> GenerativeRollout:
        """The same, with every entry divided by that of uniform causal attention (`null_ratio`)."""
        generated, prompt, layers = self.matrix.shape
        if not generated:
            return self
        rows = range(prompt - 1, prompt + generated - 1)
        if self.raw:
            null = uniform_causal_attention(rows.stop)[None, rows, :prompt]
        else:
            how: Any = {"keys": range(prompt), "rows": rows, "cumulative": True, "sink": self.sink}
            null = uniform_causal_rollout(rows.stop, layers, **how)
        return replace(self, matrix=null_ratio(self.matrix, null.permute(1, 2, 0).expand_as(self.matrix)))

    def informative(self, ignore: Ignore = UNINFORMATIVE) -> Bool[Tensor, " prompt"]:
        """True for prompt tokens that carry content.

        Args:
            ignore: words (compared without case and surrounding blanks) and punctuation characters (a token
                of several is ignored if all of them are) to leave out, together with blanks and special
                tokens; an empty collection leaves out nothing. Or a function of a token's text that is True
                for tokens to leave out.
        """
        return _informative(len(self.prompt), self.words, self.special, ignore)

    def top(
        self,
        k: int = 5,
        ignore: Ignore = UNINFORMATIVE,
        *,
        generated: int | slice | None = None,
        layer: int | None = None,
    ) -> list[TopToken]:
        """The prompt tokens with the largest share, largest first.

        Args:
            k: at most how many.
            ignore: which tokens to pass over; see `informative`.
            generated: take one generated token, or the mean over a slice of them; over all by default.
            layer: take one layer; the mean over layers by default.
        """
        check_count(k=k)
        layers = self.matrix.movedim(-1, 0)
        share = self.mean_over_layers() if layer is None else _part(layers, "layer", layer)
        chosen = share if generated is None else _part(share, "generated", generated)
        check(len(chosen), f"generated must be at least one of {len(share)} tokens", generated)
        mass = chosen if chosen.ndim == 1 else chosen.mean(0)
        keep = self.informative(ignore).nonzero().flatten()
        order = keep[mass.cpu()[keep].argsort(descending=True, stable=True)][:k].tolist()
        text = self.words or [""] * len(self.prompt)
        return [TopToken(i, int(self.prompt[i]), text[i], float(mass[i])) for i in order]


@plain_options
def generate_with_rollout(
    model: nn.Module,
    input_ids: Int[Tensor, "1 prompt"] | None = None,
    max_new_tokens: int | None = None,
    *,
    continuation: Int[Tensor, " generated"] | Int[Tensor, "1 generated"] | None = None,
    attention_mask: Int[Tensor, "1 prompt"] | Bool[Tensor, "1 prompt"] | None = None,
    tokenizer: Any = None,
    sink: Sequence[int] | None = None,
    **generate_kwargs: Any,
) -> GenerativeRollout:
    """Generate from a prompt, and follow every generated token back to the prompt.

    `model.generate` does the generating, with any decoding strategy but beams (whose tokens come from paths
    that were given up, too). Queries and keys of every layer are collected on the way, and rollout follows
    from these. Where some are missing (other kernels than SDPA, attention that is changed from outside, steps
    of several candidates, static caches), rollout takes a second pass, over prompt and generated tokens.

    With a `continuation` nothing is generated: its tokens take the place of the model's own, whatever the
    model would have written, and one pass gives their matrix.

    Args:
        model: a Hugging Face causal language model that `rollout_of` can follow.
        input_ids: one prompt. (Prompts of a batch end at different places; give them one by one.)
        max_new_tokens: at most how many tokens to generate; fewer if the model ends its text.
        continuation: tokens to follow in place of generated ones
            (`attnlib.generators.prompts.continued` makes them of a text).
        attention_mask: 1 for tokens, 0 for padding, which is dropped from the prompt.
        tokenizer: for the text of the prompt's tokens, which `GenerativeRollout.top` needs.
        sink: as in `rollout`; prompt positions.
        **generate_kwargs: handed to `model.generate`. What of it the model's forward reads (`pixel_values`,
            `token_type_ids`, `position_ids`) may be given with a continuation, too.

    Raises:
        ValueError: the prompt is empty, or, with what follows it, longer than the model's context; there is
            more than one prompt, or embeddings in its place; beams, or several sequences, are requested; the
            model is none that `rollout_of` or `generate` can use; both or neither of `max_new_tokens` (a
            whole number) and `continuation` are given; the continuation is no row of the model's tokens, or
            comes with options of `generate`; or an input besides tokens does not fit the prompt.
    """
    check_model(model)
    demand = "exactly one of max_new_tokens and continuation must be given"
    check((continuation is None) != (max_new_tokens is None), demand, max_new_tokens)
    beside = beside_tokens(model, generate_kwargs)
    options = {name: value for name, value in generate_kwargs.items() if name not in beside}
    forced = None if continuation is None else check_continuation(model, continuation, options)
    new = max_new_tokens if forced is None else forced.shape[1]
    assert new is not None
    prompt = check_generation(model, input_ids, attention_mask, new, options)
    assert input_ids is not None
    beside = of_prompt(brought_by_name(model, beside), input_ids, attention_mask)
    collected = Collected()
    if forced is not None:
        ids = torch.cat([prompt, forced.to(prompt)], 1)
    else:
        if tokenizer is not None and "stop_strings" in options:
            options["tokenizer"] = tokenizer
        with watching(model, collected):
            result = generate(model, prompt, new, options | beside)
        ids = result if isinstance(result, Tensor) else result.sequences
    length, read = prompt.shape[1], ids[:, :-1]  # the last token predicts nothing
    non_sink = None if sink is None else non_sink_mask(sink, length, ids.device, read.shape[1] - length)
    recursion = Recursion(
        one_hot(torch.arange(length, device=ids.device), (1, read.shape[1]), model_dtype(model)),
        cumulative=True,
        non_sink=non_sink,
        once=True,
        first_kept=length - 1,
    )
    settings: Any = options.get("generation_config") or model.generation_config
    cached = options.get("use_cache", settings.use_cache)
    beside = of_all(model, beside, read, length, cached=cached is not False)
    calls = None if forced is not None else collected.joined(model, read.shape[1])
    if calls is not None:
        follow(recursion, calls)
    else:
        second_pass(model, recursion, read, length, beside)
    matrix = torch.stack([rows.to(ids.device) for rows in recursion.history], -1)[0]
    check(bool(torch.isfinite(matrix).all()), "the model's attention must be finite", matrix)
    words, special = describe(prompt[0], tokenizer)
    return GenerativeRollout(ids[0, length:], prompt[0], matrix, words, special, sink, beside=beside)


def raw_attention(model: nn.Module, result: GenerativeRollout) -> GenerativeRollout:
    """The result with attention in place of rollout: the mean over heads of every layer.

    Tokens and rows are the same: `matrix[g, k, l] = A_(l+1)[P + g - 1, k]`. What the residual connection
    carries on is not included.

    Args:
        model: the model that the result comes from.
        result: what `generate_with_rollout` returned.
    """
    length, read = len(result.prompt), torch.cat([result.prompt, result.tokens[:-1]])[None]
    (read,) = brought(model, read)
    layers = list[Tensor]()

    def keep(call: AttentionCall) -> Generator[Wanted, Product, None]:
        mean, _ = yield Wanted()
        layers.append(mean[0, length - 1 :, :length].to(read.device))

    second_pass(model, keep, read, length, result.beside)
    return replace(result, matrix=torch.stack(layers, -1), sink=None, raw=True)


def second_pass(
    model: nn.Module, observer: Observer, read: Int[Tensor, "1 token"], prompt: int, beside: dict[str, Any]
) -> None:
    """Run the model over prompt and answer with an observer; a `ValueError` as in `check_looks_back`."""
    watched_pass(model, [partial(check_looks_back, prompt), observer], read, **beside)


def check_looks_back(prompt: int, call: AttentionCall) -> None:
    """Raise a `ValueError` where a token looks at a later, generated one, which was not written yet."""
    if not call.knows_mask or (call.mask is None and call.causal):
        return
    if bool(call.visible()[..., prompt:].triu(1 - prompt).any()):
        raise ValueError(
            "Tokens of this model look at later ones, too, also at those that were not yet written: one pass "
            "over prompt and answer is not what it read when it wrote. If it tells them apart by "
            "token_type_ids (as its processor gives them), hand these over."
        )


def check_continuation(
    model: Any, continuation: Any, generate_kwargs: dict[str, Any]
) -> Int[Tensor, "1 generated"]:
    """The continuation as a row of tokens; a `ValueError` if it is not a row of the model's token ids."""
    check(not generate_kwargs, "options of generate must not be given with a continuation", generate_kwargs)
    fits = isinstance(continuation, Tensor) and not continuation.is_floating_point()
    fits = fits and continuation.dtype != torch.bool
    fits = fits and continuation.ndim in (1, 2) and 0 < continuation.numel() == continuation.shape[-1]
    check(fits, "continuation must be one row of token ids (see generators.prompts.continued)", continuation)
    size = vocabulary_of(model)
    fits = size is None or (int(continuation.min()) >= 0 and int(continuation.max()) < size)
    check(fits, f"continuation must be token ids from 0 to {(size or 0) - 1}", continuation)
    return continuation.view(1, -1)


def generate(
    model: Any, prompt: Int[Tensor, "1 prompt"], max_new_tokens: int, generate_kwargs: dict[str, Any]
) -> Any:
    """Hugging Face's `generate`, in evaluation mode."""
    mask = torch.ones_like(prompt)
    by_name = "input_ids" in inspect.signature(model.generate).parameters  # BLIP-2's begins with the picture
    given = ((), {"input_ids": prompt}) if by_name else ((prompt,), {})
    with evaluating(model):
        try:
            return model.generate(
                *given[0], attention_mask=mask, max_new_tokens=max_new_tokens, **given[1], **generate_kwargs
            )
        except torch.OutOfMemoryError:
            raise
        except Exception:
            called(model, prompt, {"attention_mask": mask} | beside_tokens(model, generate_kwargs))
            raise


def check_generation(
    model: Any,
    input_ids: Any,
    attention_mask: Tensor | None,
    max_new_tokens: Any,
    generate_kwargs: dict[str, Any],
) -> Int[Tensor, "1 real"]:
    """The prompt without padding; a `ValueError` for what cannot be generated or followed."""
    check_model(model)
    fits = isinstance(input_ids, Tensor) and input_ids.ndim == 2 and input_ids.shape[0] == 1
    check(fits, "input_ids must be one prompt, a tensor [1 prompt]", getattr(input_ids, "shape", input_ids))
    check_count(max_new_tokens=max_new_tokens)
    check(generate_kwargs.get("inputs_embeds") is None, "inputs_embeds must be None", "embeddings")
    input_ids, attention_mask = check_prompt(model, input_ids, attention_mask)
    check_mixing(model)
    if not (hasattr(model, "can_generate") and model.can_generate()):
        raise ValueError(
            f"{type(model).__name__} cannot generate. Give a causal language model of Hugging Face's "
            "(AutoModelForCausalLM)."
        )
    config = generate_kwargs.get("generation_config") or model.generation_config
    for name in ("num_beams", "num_return_sequences"):
        value = generate_kwargs.get(name, getattr(config, name, None)) or 1
        check(value <= 1, f"{name} must be 1, as one sequence is followed", value)
    prompt = input_ids if attention_mask is None else input_ids[:, attention_mask[0].bool()]
    check_prompt(model, prompt, None, more=max_new_tokens)
    return prompt


def describe(prompt: Int[Tensor, " prompt"], tokenizer: Any) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Text of the prompt's tokens, and whether they are special."""
    if tokenizer is None:
        return (), ()
    ids, special = prompt.tolist(), set(tokenizer.all_special_ids)
    return tuple(pieces(ids, tokenizer)), tuple(i in special for i in ids)


def informative(
    ids: Int[Tensor, " token"], tokenizer: Any, ignore: Ignore = UNINFORMATIVE
) -> Bool[Tensor, " token"]:
    """True for tokens that carry content, as in `GenerativeRollout.informative`."""
    return _informative(len(ids), *describe(ids, tokenizer), ignore)


def _informative(
    n: int, words: Sequence[str], special: Sequence[bool], ignore: Ignore
) -> Bool[Tensor, " token"]:
    check(not isinstance(ignore, str), "ignore must be a set of words, such as {'of', 'to'}", ignore)
    if not callable(ignore) and not ignore:
        return torch.ones(n, dtype=torch.bool)
    check(len(words) == n, "tokenizer must be given, or ignore=() to keep all tokens", words)
    if callable(ignore):
        return torch.tensor([not ignore(word) for word in words])
    ignore = {word.casefold() for word in ignore}
    skip = [is_special or _ignored(word, ignore) for word, is_special in zip(words, special, strict=True)]
    return ~torch.tensor(skip)


def _part(values: Tensor, name: str, at: Any) -> Tensor:
    try:
        return values[at]
    except (IndexError, TypeError):
        raise ValueError(f"{name} must be from {-len(values)} to {len(values) - 1}; got {at!r}") from None


def _ignored(word: str, ignore: Collection[str]) -> bool:
    word = word.strip(" \t\n\r▁Ġ").casefold()
    return not word or word in ignore or all(not c.isalnum() and c in ignore for c in word)
