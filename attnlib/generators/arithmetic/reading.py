"""Problems that a person typed: numbers and operator, or what is wrong with them."""

from __future__ import annotations

import re

from attnlib.generators.arithmetic.splits import Space
from attnlib.generators.arithmetic.writing import CHARACTERS


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
