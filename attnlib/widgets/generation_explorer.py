"""Which prompt tokens each generated token depends on: recorded, or live while a model writes.

Entries are stored in the order [generated layer prompt]. Shares of a whole are stored as
``round(255 sqrt(w))`` (`attnlib.widgets.encoding`). Values that are no shares, such as ratios to a null
model, span more orders of magnitude: they are divided by their largest value ``s`` and stored as
``round(255 (w / s)^(1/4))``, with an error of about ``0.008 s^(1/4) w^(3/4)``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import traitlets
from jaxtyping import Float, UInt8

from attnlib.checks import check, check_at_least, check_finite, check_mask
from attnlib.pieces import pieces
from attnlib.rollout import UNINFORMATIVE, GenerativeRollout, stream_with_rollout
from attnlib.rollout.generative import Ignore, describe
from attnlib.stats.ragged import numpy_of
from attnlib.widgets.encoding import ROUNDING, Array, check_tokens, deflate, quantise
from attnlib.widgets.explorer import Asking, Examples, Item, strongest
from attnlib.widgets.front_end import front_end


@dataclass(frozen=True)
class Recording(Item):
    """One prompt and what was generated from it, checked and packed.

    Attributes:
        shape: numbers of generated tokens, prompt tokens and layers.
        packed: the matrix, stored and compressed as the module's docstring describes.
        scale: the value that the byte 255 stands for: the largest value, or 1 for shares.
        shares: whether the entries are shares of a whole: in every layer, a generated token's sum is at
            most 1.
        ignored: indices of the prompt tokens that the filter hides.
    """

    label: str
    prompt: tuple[str, ...]
    generated: tuple[str, ...]
    shape: tuple[int, int, int]
    packed: bytes
    scale: float
    shares: bool
    ignored: tuple[int, ...]

    @classmethod
    def of(
        cls,
        label: str,
        prompt_words: Sequence[str],
        generated_words: Sequence[str],
        matrix: Array,
        ignored: Array | Sequence[bool] | None = None,
    ) -> "Recording":
        """Checks and packs; `GenerationExplorer` describes the arguments."""
        prompt = check_tokens("prompt_words", prompt_words)
        generated = check_tokens("generated_words", generated_words)
        values = _check_matrix(matrix, len(generated), len(prompt))
        shares = bool(values.sum(1).max() <= 1 + ROUNDING)
        scale = 1.0 if shares else float(values.max())
        packed = deflate(stored(values, scale, shares))
        hidden = _hidden(ignored, len(prompt))
        return cls(label, prompt, generated, values.shape, packed, scale, shares, hidden)


class GenerationExplorer(Asking, Examples):
    """The prompt as text, tinted by how much the chosen generated token depends on each of its tokens.

    Beside the text are the largest entries; below it one heat map of the chosen token, layer by layer, and
    one of all generated tokens. `of` makes an explorer from what `generate_with_rollout` returns, `live` one
    with a box in which a reader types a prompt.

    Args:
        prompt_words: text of the prompt's tokens, shown as plain text; a blank before a word
            becomes space, other blanks and empty tokens are made visible.
        generated_words: text of the generated tokens.
        matrix: float ``[generated prompt layer]``, not negative, torch or numpy; see
            `GenerativeRollout.matrix`. Shares of a whole, or ratios (to a null model, say): a matrix in which
            a generated token's sum exceeds 1 is labelled so, and its colours may end at its largest value.
        title: a line of text above the picture.
        ignored: bool ``[prompt]``, True for tokens that the filter hides; None for none.
        generated: the generated token chosen first.
        layer: the layer shown first, an index from 0; -1 is the mean over layers.
        filtered: whether the filter is on at first.

    The arguments from ``generated`` on are traits too: set them from Python, or ``observe`` what the reader
    chose. Further traits are ``key``, the chosen prompt token; ``colours``, a scale to the largest value
    shown ("shown") or to the largest possible one ("whole"); and ``item``, the index of the example shown
    (`from_examples`). The picture counts layers from 1, as tables of rollout do: index 0 is "after layer 1".

    Entries travel as one byte each, compressed (`attnlib.widgets.encoding`): 40 generated tokens after 300,
    in 30 layers, make a page of at most 560 kB, and of about 250 kB as real rollouts go.

    Raises:
        ValueError: shapes that disagree, NaN, negative values, or ``ignored`` that is not bool.
        traitlets.TraitError: a generated token, layer or example that does not exist.

    Example:
        >>> import torch
        >>> matrix = torch.full((2, 3, 4), 0.25)
        >>> GenerationExplorer(["The", " sky", " is"], [" blue", "."], matrix, title="Colours")
        GenerationExplorer 'Colours': 3 prompt tokens, 2 generated, 4 layers
    """

    _esm, _css = front_end("generation_explorer.js")

    _pack = Recording.of

    generated = traitlets.Int(0, help="The chosen generated token.").tag(sync=True, addressed=True)
    key = traitlets.Int(-1, help="The chosen prompt token; -1 for none.").tag(sync=True, addressed=True)
    layer = traitlets.Int(-1, help="The layer shown; -1 for the mean over layers.").tag(
        sync=True, addressed=True
    )
    colours = strongest("shown")
    filtered = traitlets.Bool(True, help="Whether the ignored tokens are hidden.").tag(
        sync=True, addressed=True
    )

    def __init__(
        self,
        prompt_words: Sequence[str],
        generated_words: Sequence[str],
        matrix: Array,
        *,
        title: str = "",
        ignored: Array | Sequence[bool] | None = None,
        generated: int = 0,
        layer: int = -1,
        filtered: bool = True,
    ) -> None:
        super().__init__(title=title, filtered=filtered)
        self._show([Recording.of("", prompt_words, generated_words, matrix, ignored)])
        self.generated, self.layer = generated, layer

    @classmethod
    def of(
        cls,
        result: GenerativeRollout | Mapping[str, GenerativeRollout],
        tokenizer: Any,
        *,
        ignore: Ignore = UNINFORMATIVE,
        **settings: Any,
    ) -> "GenerationExplorer":
        """An explorer of one result of `generate_with_rollout`, or of several by name.

        Args:
            result: a result, or ``{"rollout": result, "over the null model": result.over_null()}``.
            tokenizer: the model's tokenizer, which gives the text of the tokens.
            ignore: what the filter hides; see `GenerativeRollout.informative`.
            **settings: arguments of the class, or of `from_examples` for several results. By default, the
                result shown first is the one in which a single prompt token dominates least (`flattest`).
        """
        if isinstance(result, Mapping):
            parts = {label: parts_of(each, tokenizer, ignore) for label, each in result.items()}
            return cls.from_examples(parts, **{"item": flattest(parts), **settings})
        return cls(**parts_of(result, tokenizer, ignore), **settings)

    @classmethod
    def live(
        cls,
        model: torch.nn.Module,
        tokenizer: Any,
        max_new_tokens: int = 30,
        *,
        prompt: str = "",
        title: str = "",
        encode: Callable[[str], torch.Tensor] | None = None,
        ignore: Ignore = UNINFORMATIVE,
        max_prompt_tokens: int = 1000,
        **options: Any,
    ) -> "LiveGenerationExplorer":
        """An explorer with a box: the reader types a prompt, and each generated token is shown at once.

        The kernel is busy meanwhile; interrupting it stops the model and keeps the tokens generated so far.
        At the end there are two examples: the rollout, and its ratio to the null model. A built page holds
        the last result, without the box.

        Args:
            model: as in `stream_with_rollout`.
            tokenizer: the model's tokenizer.
            max_new_tokens: the largest number of tokens to generate.
            prompt: the text in the box at first.
            title: a line of text above the picture.
            encode: a function from the text to ids ``[1 prompt]``, for a chat template, say; by default the
                tokenizer.
            ignore: what the filter hides.
            max_prompt_tokens: the longest prompt that is accepted; the model's context limits it, too.
            **options: arguments of `stream_with_rollout`: sink, do_sample ...
        """
        explorer = LiveGenerationExplorer(title=title, asked=prompt)
        explorer.model, explorer.tokenizer, explorer.options = model, tokenizer, options
        explorer.encode = encode or (lambda text: tokenizer(text, return_tensors="pt")["input_ids"])
        explorer.max_new_tokens, explorer.max_prompt_tokens = max_new_tokens, max_prompt_tokens
        explorer.ignore = ignore
        return explorer

    def _sizes(self) -> str:
        if not self.items:
            return "nothing generated yet"
        generated, prompt, layers = self._shown["shape"]
        return f"{prompt} prompt tokens, {generated} generated, {layers} layers{self._several()}"

    def _places_within(self) -> dict[str, tuple[int, str]]:
        generated, prompt, layers = self._shown["shape"]
        own = {"generated": (max(generated, 1), ""), "layer": (layers, "the mean over layers")}
        return own | {"key": (prompt, "none")}


class LiveGenerationExplorer(GenerationExplorer):
    """The explorer with a box for prompts that `GenerationExplorer.live` returns."""

    model: Any
    tokenizer: Any
    options: dict[str, Any]
    encode: Callable[[str], torch.Tensor]
    ignore: Ignore
    max_new_tokens: int
    max_prompt_tokens: int

    def __init__(self, **traits: Any) -> None:
        super(GenerationExplorer, self).__init__(asks=True, **traits)

    def _reply(self, text: str) -> None:
        ids = self.encode(text).to(self.model.device)
        if ids.shape[-1] > self.max_prompt_tokens:
            raise ValueError(
                f"The prompt has {ids.shape[-1]} tokens; at most {self.max_prompt_tokens} are shown here. "
                "Shorten it."
            )
        stream = stream_with_rollout(self.model, ids, self.max_new_tokens, **self.options)
        sink = self.options.get("sink")
        tokens: list[int] = []
        rows: list[torch.Tensor] = []

        def so_far() -> GenerativeRollout:
            return GenerativeRollout(torch.tensor(tokens), ids[0].cpu(), torch.stack(rows), sink=sink)

        try:
            for token, row in stream:
                tokens.append(token)
                rows.append(row.float().cpu())
                if len(rows) == 1:
                    self._show([self._recording("rollout", so_far())])
                else:
                    every = [*ids[0].tolist(), *tokens]
                    (word,) = pieces(every, self.tokenizer, len(every) - 1)
                    packed = deflate(stored(rows[-1].numpy()[None]))
                    self.send({"index": len(rows) - 1, "word": word}, [packed])
        finally:
            if rows:
                ways = {"rollout": so_far(), "over the null model": so_far().over_null()}
                self._show([self._recording(label, result) for label, result in ways.items()])

    def _recording(self, label: str, result: GenerativeRollout) -> Recording:
        return Recording.of(label, **parts_of(result, self.tokenizer, self.ignore))


def stored(
    values: Float[np.ndarray, "generated prompt layer"], scale: float = 1.0, shares: bool = True
) -> UInt8[np.ndarray, "generated layer prompt"]:
    """Values from 0 to ``scale`` as bytes, by the formulas of the module's docstring."""
    parts = (values / scale).clip(0, 1)
    return quantise(parts if shares else np.sqrt(parts)).transpose(0, 2, 1)


def parts_of(result: GenerativeRollout, tokenizer: Any, ignore: Ignore) -> dict[str, Any]:
    """The arguments with which `GenerationExplorer` shows a result."""
    if not result.words:
        words, special = describe(result.prompt, tokenizer)
        result = replace(result, words=words, special=special)
    every = pieces([*result.prompt.tolist(), *result.tokens.tolist()], tokenizer)
    return {
        "prompt_words": every[: len(result.prompt)],
        "generated_words": every[len(result.prompt) :],
        "matrix": result.matrix,
        "ignored": ~result.informative(ignore),
    }


def flattest(parts: Mapping[str, Mapping[str, Any]]) -> int:
    """The index of the result whose largest prompt token has the least share; hidden tokens do not count."""

    def largest(matrix: Array, ignored: Array, **_: Any) -> float:
        columns = numpy_of(matrix).sum((0, 2))[~numpy_of(ignored)]
        return float(columns.max(initial=0) / max(columns.sum(), 1e-12)) if columns.size else 1.0

    shares = [largest(**each) for each in parts.values()]
    return shares.index(min(shares))


def _check_matrix(matrix: Array, generated: int, prompt: int) -> Float[np.ndarray, "generated prompt layer"]:
    values = numpy_of(matrix).astype(np.float64)
    fits = values.shape[:2] == (generated, prompt) and values.ndim == 3 and values.shape[2]
    check(fits, f"matrix must be [generated prompt layer] = [{generated} {prompt} layers]", values.shape)
    check_finite("[generated prompt layer]", matrix=values)
    check_at_least(-ROUNDING, matrix=values.min(initial=0))
    return values.clip(min=0)


def _hidden(ignored: Array | Sequence[bool] | None, prompt: int) -> tuple[int, ...]:
    flags = numpy_of([False] * prompt if ignored is None else ignored)
    check_mask((prompt,), "[prompt]", ignored=flags)
    return tuple(np.flatnonzero(flags).tolist())
