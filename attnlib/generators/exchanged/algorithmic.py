"""Texts of the algorithmic tasks with other characters where an answer's character comes from."""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from attnlib.generators.algorithmic import (
    AlgorithmicGenerator,
    AlgorithmicSample,
    FlipFlopGenerator,
    StringReversalGenerator,
    SuccessorGenerator,
    ValueAssignmentGenerator,
)

TRIES = 40
"""How many texts are drawn before it is taken that there is none."""


def exchanged_text(
    generator: AlgorithmicGenerator, text: str, place: int, keys: Sequence[int], rng: np.random.Generator
) -> AlgorithmicSample | None:
    """A text as long as this one with other characters at `keys`, and so with another one at `place`.

    First all of the keys are exchanged, and where that gives no text of the task, some of them. What the
    answer was before `place` becomes what it has to be. So does everything before it in a series: another
    number is another first number. In a table, a symbol is exchanged wherever the string asks for it.

    Args:
        generator: of the text, without instruction, examples or chat.
        text: of the task, right.
        place: the character of the answer that is to be another.
        keys: characters that the task's algorithm needs for it.
        rng: draws the others.

    Example:
        >>> from attnlib.generators import char_tokenizer
        >>> generator = StringReversalGenerator(tokenizer=char_tokenizer(), charset="ab")
        >>> exchanged_text(generator, "abb=bba", 4, [2], np.random.default_rng(0)).text
        'aba=aba'
    """
    for attempt in range(TRIES):
        chosen = [key for key in keys if attempt < TRIES // 4 or rng.random() < 0.5]
        drawn = drawn_text(generator, text, chosen, rng) if chosen else None
        if drawn is None:
            continue
        try:
            texts = generator._read(drawn)
        except ValueError:  # the characters make no text of the task
            continue
        right = generator._strings(texts)[0]
        if len(right) == len(text) and right[place] != text[place]:
            return generator.annotate(right)
    return None


@singledispatch
def drawn_text(
    generator: AlgorithmicGenerator, text: str, keys: Sequence[int], rng: np.random.Generator
) -> str | None:
    """The text with other characters at `keys`, its answer not yet right; here, of digits.

    Args:
        generator: of which task: others draw otherwise.
        text: of the task.
        keys: places of its characters.
        rng: draws the characters.
    """
    return _with(text, {key: _other(string.digits, text[key], rng) for key in keys})


@drawn_text.register
def _(
    generator: StringReversalGenerator, text: str, keys: Sequence[int], rng: np.random.Generator
) -> str | None:
    return _with(text, {key: _other(generator.charset, text[key], rng) for key in keys})


@drawn_text.register
def _(generator: SuccessorGenerator, text: str, keys: Sequence[int], rng: np.random.Generator) -> str | None:
    first, *rest = text.split(" ")
    low = 10 ** (len(first) - 1)
    return " ".join([str(rng.integers(low, 10 * low)), *rest])


@drawn_text.register
def _(
    generator: ValueAssignmentGenerator, text: str, keys: Sequence[int], rng: np.random.Generator
) -> str | None:
    table, rest = text.split(" ")
    asked, answer = rest.split("=")
    at = min(keys) // 2 * 2  # of the three keys, those in the table come first
    if at >= len(table):
        return None
    symbol, value = table[at], table[at + 1]
    free = "".join(each for each in generator.charset_from if each not in table[::2]) or symbol
    another = _other(free, symbol, rng)
    entry = another + _other(generator.charset_to, value, rng)
    return f"{table[:at]}{entry}{table[at + 2 :]} {asked.replace(symbol, another)}={answer}"


@drawn_text.register
def _(generator: FlipFlopGenerator, text: str, keys: Sequence[int], rng: np.random.Generator) -> str | None:
    registers = string.digits[: generator.num_registers[1]]
    kinds = ("wif" if generator.use_flip else "wi", registers, "01")  # of a command's three characters
    return _with(text, {key: _other(kinds[key % 3], text[key], rng) for key in keys})


def _other(allowed: str, character: str, rng: np.random.Generator) -> str:
    """Another of the characters that are allowed; the same one if there is none."""
    others = [each for each in allowed if each != character] or [character]
    return others[rng.integers(len(others))]


def _with(text: str, characters: dict[int, str]) -> str:
    return "".join(characters.get(place, each) for place, each in enumerate(text))
