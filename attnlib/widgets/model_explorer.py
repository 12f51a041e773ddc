"""A model that runs in the page: type a text, see its output and attention, and replace heads' attention.

Weights are sent in the order of the state dict, in half precision where that loses nothing (stored models are
rounded to it) and in single precision otherwise: the page computes with the same numbers as Python. They are
compressed by raw deflate, the first bytes of all numbers before the second ones, since the bytes with signs
and exponents resemble each other.

The page receives the ids, symbols and classes of a task. It knows the definitions of the paper's languages,
of arithmetic and of string reversal; for a language of your own, it knows the right outputs of the given
texts only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import traitlets
from torch import Tensor, nn

from attnlib.checks import check, check_one_of
from attnlib.generators.algorithmic import StringReversalGenerator
from attnlib.generators.arithmetic import Arithmetic
from attnlib.generators.arithmetic.writing import CHARACTERS
from attnlib.generators.rasp import LANGUAGES, Language
from attnlib.models.attention import evaluating
from attnlib.models.base import config_of
from attnlib.models.transformer import Transformer, head_names
from attnlib.widgets.attention_explorer import AttentionView
from attnlib.widgets.encoding import check_tokens, deflate
from attnlib.widgets.explorer import Item
from attnlib.widgets.front_end import front_end
from attnlib.widgets.naming import counted, named, seen

Asked = Language | Arithmetic | StringReversalGenerator
"""The tasks that the page knows how to put to a model."""

LONGEST_STRING = 40
"""The most symbols of a string to reverse; the attention maps have twice as many rows and columns."""

FIRST = ("text", "strength")
"""The controls that can stand first in the page; see `ModelExplorer`."""

SWAPS = ("even", "program", "off")
"""The replacements of a head's attention: uniform attention, the program's, or none."""


@dataclass(frozen=True)
class PackedModel(Item):
    """A model, its task, and texts to begin with, checked and packed.

    Attributes:
        tensors: names and sizes of the weights, in the order in which they are packed.
        half: whether the weights are packed in half precision.
        note: a line below the controls, or "".
        heads: a line about a head, by the head's name.
    """

    label: str
    config: dict[str, Any]
    tensors: tuple[tuple[str, int], ...]
    half: bool
    packed: bytes
    task: dict[str, Any]
    note: str
    heads: dict[str, str]
    masks: tuple[bytes, ...] = ()

    _packed = ("packed", "masks")

    @classmethod
    def of(
        cls,
        label: str,
        model: nn.Module,
        task: Asked,
        texts: Sequence[str],
        note: str = "",
        heads: Mapping[str, str] | None = None,
    ) -> PackedModel:
        """Checks and packs; `ModelExplorer` describes the arguments."""
        if not isinstance(model, Transformer):
            raise ValueError(
                f"the page computes an attnlib.models.Transformer, and this is a {type(model).__name__}. "
                "Other models can be shown by what they attended to: AttentionExplorer"
            )
        if model.config.positions == "rotary":
            raise ValueError(
                "the page computes learned, sinusoidal or no positions, and this model's are rotary. It can "
                "be shown by what it attended to: AttentionExplorer"
            )
        check(not isinstance(texts, str) and texts, "texts must be a list of at least one text", texts)
        weights = {name: value.detach().cpu().float() for name, value in model.state_dict().items()}
        broken = [name for name, value in weights.items() if not value.isfinite().all()]
        check(not broken, "weights must be finite", broken)
        for name in heads or {}:
            check_one_of(model.head_names, heads=name)
        half = all(torch.equal(value.half().float(), value) for value in weights.values())
        told = _told(model, task)
        for text in texts:
            check_asked(model, task, text)
        told["texts"] = [_known(task, text) for text in dict.fromkeys(texts)]
        return cls(
            label,
            config_of(model),
            tuple((name, value.numel()) for name, value in weights.items()),
            half,
            _packed(torch.cat([value.flatten() for value in weights.values()]), half),
            told,
            note,
            {name: seen(line) for name, line in (heads or {}).items()},
        )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Numbers of layers and heads, and the largest numbers of queries and keys."""
        longest = self.config["max_length"]
        return self.config["n_layers"], self.config["n_heads"], longest, longest

    def describe(self) -> dict[str, Any]:
        """What the front end needs besides the bytes, as JSON can hold it."""
        return super().describe() | {"shape": list(self.shape)}


class ModelExplorer(AttentionView):
    """Models computed in the page itself, with or without a kernel: the reader types, the model answers.

    The page shows the model's output beside the right one, and every head's attention. The outlined cells are
    those that the language's program selects, that a digit of a sum depends on, or that hold the symbol to
    write. The reader can swap any head's attention for uniform attention or for the program's (in string
    reversal, the reference's), or switch the head off; the page then shows the outputs with and without the
    swap. In rows where the program selects nothing, a head keeps its own attention, as in
    `book.chapters.rasp.measures`.

    Args:
        models: ``{label: {"model": ..., "task": ..., "texts": [...], "note": "...", "heads": {...}}}``. A
            model is a `Transformer`; its task a `Language`, an `Arithmetic` or a `StringReversalGenerator` (a
            token per symbol, nothing around it); texts, one or more, are offered to begin with. The note, a
            line about the model, may be left out, and so may heads: by the name of a head, such as "L0H1", a
            line on it, which its small picture has as a tooltip. The right output of what is typed is known
            for the languages of the paper, arithmetic and reversal; of a language of your own, for its texts.
        text: what is typed at first; "": the first text of the model shown first.
        title: a line of text above the picture.
        item: index of the model shown first.
        layer: the layer shown first. If neither layer nor head is given, the sharpest head is shown.
        head: the head shown first; -1 is the mean of the layer's heads.
        query: the query row selected first; -1 is none.
        show_reference: whether the program's cells are outlined at first.
        swaps: by the name of a head, such as "L0H1", what stands in place of its attention: "even", "program"
            or "off".
        strength: the weight of the swap: $s$ in $(1 - s) A + s A'$, from 0 to 1, as in
            `attnlib.models.attention.reinforced`; a slider for the reader.
        first: the control at the top of the page: the "text", a box to type in; or the "strength", a slider
            as wide as the page, with a tile for each letter that the model writes, and the share of right
            letters at every strength. Everything else is then folded. Only for string reversal.

    The arguments from ``text`` on are traits too: set them from Python, or ``observe`` what the reader chose.
    The page refuses a ``text`` that is not of the task or too long, and gives the reason. The swap "program"
    changes nothing for a head for which the language has no program.

    Raises:
        ValueError: a model of another kind, or not of its task; a text outside the alphabet, empty, or longer
            than the model's positions; the strength first, and a task that is no string reversal. The message
            names the model.
        traitlets.TraitError: a model, layer, head, query or swap that does not exist, or a strength outside
            [0, 1].

    The page grows by about 2.3 bytes for each weight in half precision, as stored models have it
    (`book.chapters.storing.store_model`), and by about 5 otherwise.

    Example:
        >>> from attnlib.generators.rasp import language
        >>> from attnlib.models import Transformer, TransformerConfig
        >>> sort = language("sort", 10, bos=True)
        >>> model = Transformer(TransformerConfig(len(sort.tokenizer), len(sort.classes), max_length=31))
        >>> ModelExplorer({"untrained": {"model": model, "task": sort, "texts": ["badge"]}})
        ModelExplorer: 1 model, untrained
    """

    _esm, _css = front_end("model_explorer.js")

    text = traitlets.Unicode(help="What is typed.").tag(sync=True, addressed=True)
    swaps = traitlets.Dict(help="What stands in place of a head's attention, by its name.").tag(
        sync=True, addressed=True
    )
    strength = traitlets.Float(1.0, min=0.0, max=1.0, help="How much of it does.").tag(
        sync=True, addressed=True
    )

    first = traitlets.Enum(FIRST, default_value="text", help="What stands first.").tag(sync=True)

    def __init__(
        self,
        models: Mapping[str, Mapping[str, Any]],
        text: str = "",
        title: str = "",
        *,
        item: int = 0,
        layer: int | None = None,
        head: int | None = None,
        query: int = -1,
        show_reference: bool = True,
        swaps: Mapping[str, str] | None = None,
        strength: float = 1.0,
        first: str = "text",
    ) -> None:
        super().__init__(title=title, show_reference=show_reference, first=first)
        for label, each in models.items() if first == "strength" else ():
            fits = isinstance(each["task"], StringReversalGenerator)
            check(fits, "first must be strength for string reversal only", label)
        self._show(named(PackedModel.of, "model", models), item)
        label, shown = list(models.items())[self.item]
        if text:
            (text,) = check_tokens("text", [text])
            try:
                check_asked(shown["model"], shown["task"], text)
            except ValueError as error:
                raise ValueError(f"model {label!r}: {error}") from error
        self.text = text or self._shown["task"]["texts"][0]["text"]
        if layer is head is None:
            layer, head = sharpest(shown["model"], shown["task"], self.text)
        self.layer, self.head, self.query = layer or 0, head or 0, query
        self.swaps, self.strength = dict(swaps or {}), strength

    @traitlets.validate("swaps")
    def _can_be_swapped(self, proposal: dict[str, Any]) -> dict[str, str]:
        names = head_names(*self._shape[:2]) if self.items else []
        for head, swap in proposal["value"].items():
            if self.items and head not in names:
                raise traitlets.TraitError(f"swaps names the head {head!r}; there are {', '.join(names)}.")
            if swap not in SWAPS:
                raise traitlets.TraitError(f"a swap must be one of {', '.join(SWAPS)}; got {swap!r}.")
        return dict(proposal["value"])

    def _sizes(self) -> str:
        labels = "; ".join(each["label"] for each in self.items)
        return f"{counted(len(self.items), 'model')}, {labels}"


def check_asked(model: Transformer, task: Asked, text: str) -> None:
    """Raise a ValueError for a text that is not of the task, or is longer than the model can read."""
    if isinstance(task, Language):
        task.encode(text)
        length = len(text) + task.bos
    elif isinstance(task, StringReversalGenerator):
        task.annotate(f"{text}={text[::-1]}")
        if len(text) > LONGEST_STRING:
            raise ValueError(f"{text!r} has {len(text)} symbols; the page reverses at most {LONGEST_STRING}")
        length = 2 * len(text) + 2  # with the beginning and "="; the end is only written
    else:
        length = len(task.prompt(text if "=" in text else f"{text}="))
    if length > model.config.max_length:
        raise ValueError(
            f"{text!r} has {length} tokens, and this model was built for at most "
            f"max_length={model.config.max_length}: take a text that is {length - model.config.max_length} "
            "shorter"
        )


def sharpest(model: Transformer, task: Asked, text: str) -> tuple[int, int]:
    """The layer and head with the sharpest attention: the largest weight of a row, averaged over rows.

    Unless the text is one token, the first row and key are left out, since the first key is often an
    attention sink.
    """
    if isinstance(task, Language):
        ids = task.annotate(text).input_ids
    elif isinstance(task, StringReversalGenerator):
        ids = task.annotate(f"{text}={text[::-1]}").input_ids
    else:
        ids = task.prompt(text if "=" in text else f"{text}=")
    with evaluating(model):
        weights = model(ids[None].to(next(model.parameters()).device), output_attentions=True).attentions[0]
    looks = (
        weights[..., -1:, :].amax(-1).mean(-1) if len(ids) == 1 else weights[..., 1:, 1:].amax(-1).mean(-1)
    )
    layer, head = divmod(int(looks.argmax()), looks.shape[1])
    return layer, head


def _packed(values: Tensor, half: bool) -> bytes:
    numbers = (values.half() if half else values).numpy()
    planes = numbers.view(np.uint8).reshape(len(numbers), -1).T
    return deflate(np.ascontiguousarray(planes))


def _told(model: Transformer, task: Asked) -> dict[str, Any]:
    """What the page must know of a task, except its texts."""
    if isinstance(task, Language):
        return _language(model, task)
    return _arithmetic(model, task) if isinstance(task, Arithmetic) else _reversal(model, task)


def _language(model: Transformer, task: Language) -> dict[str, Any]:
    tokenizer, classes = task.tokenizer, [str(each) for each in task.classes]
    _same_sizes(model, len(tokenizer), len(classes), task.name)
    return {
        "kind": "language",
        "program": task.name if LANGUAGES.get(task.name) is task.definition else None,
        "alphabet": task.alphabet,
        "first": int(tokenizer.convert_tokens_to_ids(task.alphabet[0])),
        "bos": int(tokenizer.bos_token_id) if task.bos else None,
        "classes": classes,
    }


def _arithmetic(model: Transformer, task: Arithmetic) -> dict[str, Any]:
    tokenizer, space = task.tokenizer, task.space
    _same_sizes(model, len(tokenizer), len(tokenizer), "arithmetic")
    return {
        "kind": "arithmetic",
        "characters": CHARACTERS,
        "operators": space.operators,
        "numbers": list(space.numbers),
        "operands": space.n_operands,
        "negative": space.negative,
        "reversed": task.reversed_digits,
        "padded": task.padded,
        "widths": list(task.widths),
        "example": task.texts(space.problems(np.array([space.size // 3])))[0].partition("=")[0],
        "first": int(tokenizer.convert_tokens_to_ids(CHARACTERS[0])),
        "bos": int(tokenizer.bos_token_id),
        "end": int(tokenizer.eos_token_id),
        "most": task.widths[1] + 2,
    }


def _reversal(model: Transformer, task: StringReversalGenerator) -> dict[str, Any]:
    tokenizer = task.tokenizer
    _same_sizes(model, len(tokenizer), len(tokenizer), task.NAME)
    ids = tokenizer.convert_tokens_to_ids([*task.charset, "="])
    first, *_, equals = ids
    example = task.annotate(f"{task.charset[0]}={task.charset[0]}").input_ids.tolist()
    fits = example == [tokenizer.bos_token_id, first, equals, first]
    check(fits, "strings must be without instruction, examples or chat, a token per symbol", example)
    return {
        "kind": "reversal",
        "symbols": task.charset,
        "tokens": ids,
        "trained": task.length[1],
        "bos": int(tokenizer.bos_token_id),
        "end": int(tokenizer.eos_token_id),
        "longest": min(LONGEST_STRING, model.config.max_length // 2 - 1),
    }


def _same_sizes(model: Transformer, vocabulary: int, classes: int, name: str) -> None:
    has, needs = (model.config.vocabulary, model.config.n_classes), (vocabulary, classes)
    if has != needs:
        raise ValueError(
            f"the model reads {has[0]} ids and scores {has[1]} classes, but {name} has {needs[0]} and "
            f"{needs[1]}: it was trained on another task or alphabet"
        )


def _known(task: Asked, text: str) -> dict[str, Any]:
    """A text; for a language that the page does not know, also its right output and target attention."""
    if isinstance(task, Arithmetic):
        return {"text": text.strip().rstrip("=")}
    if isinstance(task, StringReversalGenerator) or LANGUAGES.get(task.name) is task.definition:
        return {"text": text}
    masks = {
        f"L{layer}H{head}": "".join("01"[cell] for cell in mask.int().flatten().tolist())
        for (layer, head), mask in task.target_attention(text).items()
    }
    return {"text": text, "right": [str(symbol) for symbol in task.outputs(text)], "targets": masks}
