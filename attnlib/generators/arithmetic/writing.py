"""Write problems character by character, label the role of each character, and read problems back.

Problems are first laid out in fixed columns (first number, operator, second number, ..., =, answer, end).
Some cells stay empty (a short number has no thousands); they are then removed, and the rest moves left.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from attnlib.generators.arithmetic.problems import OPERATORS, Problems, digits
from attnlib.generators.arithmetic.splits import Space

CHARACTERS = "0123456789" + OPERATORS + "="
END = len(CHARACTERS)
"""Marks the end of a problem, behind its last character; `END + 1` is padding."""

EQUALS, ANSWER, EOS, OPERATOR, NOTHING = -1, -2, -3, -4, -5
"""The part that a character belongs to, if it is not an operand (operands are counted from 0)."""

SIGN = -1
"""The place of a minus sign in a number; digits are counted from the units, which are 0."""


@dataclass(frozen=True)
class Writing:
    """Many written problems, one per row: the characters, then the end, then padding.

    Attributes:
        characters: index into `CHARACTERS`; `END` at the end, `END + 1` behind it.
        parts: the part each character belongs to: the index of an operand, or `OPERATOR`, `EQUALS`,
            `ANSWER`, `EOS`; `NOTHING` behind the end.
        places: place of a digit in its number, units 0; `SIGN` for everything else.
        real: True up to and including the end.
    """

    characters: Int64[np.ndarray, "problem character"]
    parts: Int64[np.ndarray, "problem character"]
    places: Int64[np.ndarray, "problem character"]
    real: Bool[np.ndarray, "problem character"]

    def texts(self) -> list[str]:
        """The problems as a person would type them."""
        table = np.array([*CHARACTERS, "", ""])
        return ["".join(row) for row in table[self.characters]]


def write(problems: Problems, widths: tuple[int, int], padded: bool, backwards: bool) -> Writing:
    """Write problems out; `widths` are the largest numbers of digits of an operand and of a result.

    With `padded`, numbers are filled up with zeros to these widths; with `backwards`, they have their units
    first, and a minus sign last.
    """
    n, n_operands = problems.operands.shape
    numbers = [(problems.operands[:, part], part, widths[0]) for part in range(n_operands)]
    pieces = []  # columns: characters, whether a problem has them, and (part, place) in all problems
    for values, part, width in [*numbers, (problems.results, ANSWER, widths[1])]:
        if part == ANSWER:
            pieces.append(_single(np.full(n, CHARACTERS.index("=")), EQUALS))
        elif part:
            pieces.append(_single(10 + problems.operators, OPERATOR))
        sizes, place = np.abs(values), np.arange(width)[::-1]
        minus = np.full((n, 1), CHARACTERS.index("-"))
        characters = np.concatenate([minus, digits(sizes, width)[:, ::-1]], axis=1)
        written = padded | (sizes[:, None] >= 10**place) | (place == 0)
        real = np.concatenate([values[:, None] < 0, written], axis=1)
        step = -1 if backwards else 1
        meant = [(part, where) for where in (SIGN, *place)][::step]
        pieces.append((characters[:, ::step], real[:, ::step], meant))
    pieces.append(_single(np.full(n, END), EOS))
    characters, real = (np.concatenate([piece[i] for piece in pieces], axis=1) for i in (0, 1))
    parts, places = np.array([column for piece in pieces for column in piece[2]]).T
    order = np.argsort(~real, axis=1, kind="stable")[:, : int(real.sum(1).max(initial=1))]
    characters, real = (np.take_along_axis(each, order, axis=1) for each in (characters, real))
    return Writing(
        np.where(real, characters, END + 1),
        np.where(real, parts[order], NOTHING),
        np.where(real, places[order], SIGN),
        real,
    )


def _single(
    characters: Int64[np.ndarray, " problem"], part: int
) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
    """One column of characters that every problem has."""
    return characters[:, None], np.ones((len(characters), 1), dtype=bool), [(part, SIGN)]


def read_numbers(text: str, space: Space, backwards: bool, example: str) -> tuple[str, list[int]]:
    """Operator and operands of a text, whose answer is ignored; a `ValueError` shows `example`."""
    question, equals, _ = text.strip().partition("=")

    def wrong(reason: str) -> ValueError:
        return ValueError(f"{text!r} is not a problem of this task: {reason}. Write it like {example!r}")

    if strangers := sorted(set(text.strip()) - set(CHARACTERS)):
        raise wrong(f"it holds {', '.join(map(repr, strangers))}")
    if not equals or text.count("=") > 1:
        raise wrong(f"it should have one =, and has {text.count('=')}")
    numbers = re.split(r"[+*-]", question)
    signs = re.findall(r"[+*-]", question)
    if "" in numbers:
        place = len("x".join(numbers[: numbers.index("") + 1]))
        raise wrong(f"there should be a number at character {place + 1}")
    if asked := sorted(set(signs) - set(space.operators)):
        allowed = " ".join(space.operators)
        raise wrong(f"{' '.join(asked)} was not asked for, only {allowed}")
    if len(set(signs)) != 1 or len(numbers) != space.n_operands:
        raise wrong(f"there should be {space.n_operands} numbers with one operator between them")
    values = [int(number[:: -1 if backwards else 1]) for number in numbers]
    low, high = space.numbers
    if outside := [value for value in values if not low <= value <= high]:
        raise wrong(f"{outside[0]} is not from {low} to {high}")
    if not space.negative and signs[0] == "-" and 2 * values[0] < sum(values):
        raise wrong("its result is negative, and negative=False")
    return signs[0], values
