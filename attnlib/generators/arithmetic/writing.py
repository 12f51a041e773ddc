"""How problems are written, character by character, where each character belongs, and how they are read.

A problem is laid out as a table of fixed columns (first number, operator, second number, ..., =, answer,
end), some of which a problem leaves empty: a short number has no thousands. The rest then moves together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Int64

from attnlib.generators.arithmetic.problems import OPERATORS, Problems, digits
from attnlib.generators.arithmetic.splits import Space

CHARACTERS = "0123456789" + OPERATORS + "="
END = len(CHARACTERS)
"""Stands for the end of a problem, behind its last character; `END + 1` is nothing at all."""

EQUALS, ANSWER, EOS, OPERATOR, NOTHING = -1, -2, -3, -4, -5
"""What a character is part of, if not of a number (those are counted from 0)."""

SIGN = -1
"""The place of a minus sign in a number; digits are counted from the units, which are 0."""


@dataclass(frozen=True)
class Writing:
    """Many written problems: one row each, moved to the left, the end behind it.

    Attributes:
        characters: index into `CHARACTERS`; `END` at the end, `END + 1` behind it.
        parts: what each character is part of: the number of the operand, or `OPERATOR`, `EQUALS`, `ANSWER`,
            `EOS`; `NOTHING` behind the end.
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
    """Write problems out.

    Args:
        problems: what to write.
        widths: most digits of an operand, and of a result.
        padded: fill numbers up with zeros to these widths.
        backwards: write every number with its units first, and a minus sign last.
    """
    n, n_operands = problems.operands.shape
    how = {"padded": padded, "backwards": backwards}
    pieces = []
    for operand in range(n_operands):
        if operand:
            pieces.append(_single(n, 10 + problems.operators, OPERATOR))
        pieces.append(_number(problems.operands[:, operand], operand, widths[0], **how))
    pieces.append(_single(n, CHARACTERS.index("="), EQUALS))
    pieces.append(_number(problems.results, ANSWER, widths[1], **how))
    pieces.append(_single(n, END, EOS))
    names = [field.name for field in fields(Writing)]
    joined = {name: np.concatenate([getattr(piece, name) for piece in pieces], axis=1) for name in names}
    real = joined["real"]
    order = np.argsort(~real, axis=1, kind="stable")[:, : int(real.sum(1).max(initial=1))]
    moved = {name: np.take_along_axis(values, order, axis=1) for name, values in joined.items()}
    for name, nothing in {"characters": END + 1, "parts": NOTHING, "places": SIGN}.items():
        moved[name] = np.where(moved["real"], moved[name], nothing)
    return Writing(**moved)


def _single(n: int, character: int | Int64[np.ndarray, " problem"], part: int) -> Writing:
    """One character of every problem."""
    characters = np.broadcast_to(np.asarray(character, dtype=np.int64), (n,))[:, None]
    parts = np.full((n, 1), part)
    return Writing(characters, parts, np.full((n, 1), SIGN), np.ones((n, 1), dtype=bool))


def _number(
    numbers: Int64[np.ndarray, " problem"], part: int, width: int, padded: bool, backwards: bool
) -> Writing:
    """One number of every problem: sign, then digits from the highest to the units, or the reverse."""
    n = len(numbers)
    sizes = np.abs(numbers)
    places = np.arange(width)[::-1]
    written = padded | (sizes[:, None] >= 10**places) | (places == 0)
    characters = np.concatenate(
        [np.full((n, 1), CHARACTERS.index("-")), digits(sizes, width)[:, ::-1]], axis=1
    )
    real = np.concatenate([numbers[:, None] < 0, written], axis=1)
    places = np.broadcast_to(np.concatenate([[SIGN], places]), characters.shape)
    step = -1 if backwards else 1
    parts = np.full_like(characters, part)
    return Writing(characters[:, ::step], parts, places[:, ::step], real[:, ::step])


def read_numbers(text: str, space: Space, backwards: bool, example: str) -> tuple[str, list[int]]:
    """Operator and operands of a text.

    Args:
        text: as typed, with or without an answer, which is not looked at.
        space: which problems there are.
        backwards: whether numbers have their units first.
        example: a problem written as it should be, for messages.

    Raises:
        ValueError: it is none of these problems; says why.
    """
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
