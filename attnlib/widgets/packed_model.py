"""How a model and its task travel to a widget that computes the model in the page.

Weights travel in the order of the state dict, as half precision where that loses nothing (stored models are
rounded to it) and as single precision otherwise: the page computes with the very numbers that Python has.
They are compressed by raw deflate, first the first bytes of all numbers, then the second ones: signs and
exponents of weights are much alike.

Of a task travels what it takes to ask it: ids, symbols, classes. The page has the definitions of the paper's
languages, of arithmetic and of string reversal itself; of a language of your own it knows the right outputs
of the texts that come with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnlib.generators.algorithmic import StringReversalGenerator
from attnlib.generators.arithmetic import Arithmetic
from attnlib.generators.arithmetic.writing import CHARACTERS
from attnlib.generators.rasp import LANGUAGES, Language
from attnlib.models.base import config_of
from attnlib.models.transformer import Transformer
from attnlib.widgets.recording import deflate

Asked = Language | Arithmetic | StringReversalGenerator
"""The tasks that the page can ask a model."""

LONGEST_STRING = 40
"""Symbols of a string that the page has reversed: its maps have twice as many rows and columns."""


@dataclass(frozen=True)
class PackedModel:
    """A model, its task, and texts to begin with, checked and packed.

    Attributes:
        label: what the drop-down calls it.
        config: of the model, as JSON.
        tensors: names and sizes of its weights, in the order they are packed.
        half: whether they are packed in half precision.
        packed: the weights, compressed.
        task: what the page must know of the task.
        note: a line below the controls, or "".
    """

    label: str
    config: dict[str, Any]
    tensors: tuple[tuple[str, int], ...]
    half: bool
    packed: bytes
    task: dict[str, Any]
    note: str
    masks: tuple[bytes, ...] = ()

    @classmethod
    def of(
        cls, label: str, model: nn.Module, task: Asked, texts: Sequence[str], note: str = ""
    ) -> PackedModel:
        """Checks and packs; `ModelExplorer` describes the arguments.

        Raises:
            ValueError: the page cannot compute the model, it is not of the task, or a text cannot be asked.
        """
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
        if isinstance(texts, str) or not texts:
            raise ValueError(f"texts must be a list of one text or more to begin with; got {texts!r}")
        weights = {name: value.detach().cpu().float() for name, value in model.state_dict().items()}
        if broken := [name for name, value in weights.items() if not value.isfinite().all()]:
            raise ValueError(f"its weights are not finite: {', '.join(broken)}")
        half = all(torch.equal(value.half().float(), value) for value in weights.values())
        told = _told(model, task)
        for text in texts:
            checked(model, task, text)
        told["texts"] = [_known(task, text) for text in dict.fromkeys(texts)]
        return cls(
            label,
            config_of(model),
            tuple((name, value.numel()) for name, value in weights.items()),
            half,
            _packed(torch.cat([value.flatten() for value in weights.values()]), half),
            told,
            note,
        )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Layers, heads, and the most queries and keys that there can be."""
        longest = self.config["max_length"]
        return self.config["n_layers"], self.config["n_heads"], longest, longest

    def describe(self) -> dict[str, Any]:
        """What the widget must know besides the bytes."""
        return {
            "label": self.label,
            "shape": list(self.shape),
            "config": self.config,
            "tensors": [list(each) for each in self.tensors],
            "half": self.half,
            "bytes": len(self.packed),
            "task": self.task,
            "note": self.note,
        }


def checked(model: Transformer, task: Asked, text: str) -> None:
    """Nothing, if the model can be asked this text.

    Raises:
        ValueError: it is not of the task, or longer than the model can read.
    """
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


def _packed(values: Tensor, half: bool) -> bytes:
    numbers = (values.half() if half else values).numpy()
    planes = numbers.view(np.uint8).reshape(len(numbers), -1).T
    return deflate(np.ascontiguousarray(planes))


def _told(model: Transformer, task: Asked) -> dict[str, Any]:
    """What the page must know of a task, but for texts."""
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
    if example != [tokenizer.bos_token_id, first, equals, first]:
        raise ValueError(
            "the page reverses strings without instruction, examples or chat, a token per symbol"
        )
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
    """A text; of a language of your own also what is right, which the page could not know."""
    if isinstance(task, Arithmetic):
        return {"text": text.strip().rstrip("=")}
    if isinstance(task, StringReversalGenerator) or LANGUAGES.get(task.name) is task.definition:
        return {"text": text}
    masks = {
        f"L{layer}H{head}": "".join("01"[cell] for cell in mask.int().flatten().tolist())
        for (layer, head), mask in task.target_attention(text).items()
    }
    return {"text": text, "right": [str(symbol) for symbol in task.outputs(text)], "targets": masks}
