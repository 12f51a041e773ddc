"""The types of parameters: what is beyond any chapter is refused once, for all.

No number depends on what is refused: records do not count the types of parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated, Any, TypeVar

import torch
from pydantic import AfterValidator, Field

from attnlib.checks import hint
from attnlib.models.devices import pick_device
from book.chapters.demands import is_here
from book.chapters.refusals import shown

LARGEST_COUNT = 10_000_000
"""Of steps, samples, sizes: a hundred times what the largest profile asks for."""

LARGEST_SEED = 2**32 - 1
"""Of a larger one, numpy's generators make several, which then stand for a part of another seed's."""

LARGEST_NUMBER = float(torch.finfo(torch.float32).max)
"""What weights and losses can hold."""

LONGEST_TEXT = 1000
"""Characters of a name or a sample; a prompt may have `LONGEST_PROMPT`."""

LONGEST_PROMPT = 1_000_000

LONGEST_LIST = 10_000

T = TypeVar("T")


def among(known: Collection[str]) -> AfterValidator:
    """A name that is one of these; one that is close is said."""

    def check(name: str) -> str:
        if name in known:
            return name
        raise ValueError(f"should be one of {'; '.join(known)}; got {shown(name)}{hint(name, known)}")

    return AfterValidator(check)


def _to(largest: float) -> AfterValidator:
    def check(number: float) -> float:
        if not 0 <= number <= largest:
            end = f"{largest:,}" if isinstance(largest, int) else f"{largest:.2g}"
            raise ValueError(f"should be from 0 to {end}")
        return number

    return AfterValidator(check)


def _different(values: list[T]) -> list[T]:
    if any(value in values[:place] for place, value in enumerate(values)):
        raise ValueError("should be different ones")
    return values


def _growing(values: list[int]) -> list[int]:
    if values != sorted(set(values)):
        raise ValueError("should grow")
    return values


def _whole(text: str) -> str:
    if "\0" in text:
        raise ValueError("should hold no null character")
    return text


def plain(value: Any) -> Any:
    """A setting: a number, a text, or a list of them."""
    for each in value if isinstance(value, (list, tuple)) else [value]:
        text = isinstance(each, str) and len(each) <= LONGEST_TEXT and each.isprintable()
        if not text and not (isinstance(each, (bool, int, float)) and abs(each) <= LARGEST_COUNT):
            raise ValueError("should be a number, a text, or a list of them, such as [1, 4]")
    return value


def _there(device: str) -> str:
    try:
        pick_device(device, here=is_here())
    except ValueError as error:
        raise ValueError(str(error).removeprefix("device ")) from error
    return device


def refuse_moments(steps: Iterable[int], last: int) -> None:
    """Checkpoints of a training that ends before them are refused."""
    if outside := [step for step in steps if not 0 <= step <= last]:
        raise ValueError(f"checkpoints should be from 0 to steps = {last}; got {outside}")


# Of bounds that a type and a field both have, pydantic takes one: these types have theirs in a check.

Count = Annotated[int, _to(LARGEST_COUNT)]
"""How many of something; `Field` says where it begins, and where it ends earlier."""

Seed = Annotated[int, _to(LARGEST_SEED)]
"""Of a random generator."""

Amount = Annotated[float, _to(LARGEST_NUMBER)]
"""A number from 0 up."""

Share = Annotated[float, Field(ge=0, le=1)]
"""A part of a whole."""

Rate = Annotated[float, Field(gt=0, le=1)]
"""Of learning, say."""

Text = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_whole)]
"""A name, or a text of the reader's own."""

Prompt = Annotated[str, Field(max_length=LONGEST_PROMPT), AfterValidator(_whole)]
"""A text that may be long."""

Several = Annotated[list[T], Field(max_length=LONGEST_LIST)]
"""A list of these."""

Different = Annotated[list[T], Field(max_length=LONGEST_LIST), AfterValidator(_different)]
"""A list of these, none twice."""

Growing = Annotated[list[Count], Field(max_length=LONGEST_LIST), AfterValidator(_growing)]
"""Numbers in their order, none twice."""

Seeds = Annotated[Different[Seed], Field(min_length=1)]
"""The type of a parameter `seeds`: a model counted twice would make intervals too narrow."""

SeveralSeeds = Annotated[Different[Seed], Field(min_length=2)]
"""The type of a parameter `seeds`, where runs of different seeds are compared with each other."""

# What something that is made of its own settings is to be made with, by their names.
Settings = dict[Text, Annotated[Any, AfterValidator(plain)]]

Device = Annotated[str, AfterValidator(_there)]
"""What a chapter computes on."""


def refuse_heads(width: int, n_heads: int, of: str) -> None:
    """Refuse a width that heads cannot share."""
    if width % n_heads or width % 2:
        allowed = ", ".join(str(n) for n in range(1, 65) if width % n == 0)
        raise ValueError(
            f"width should be even and a multiple of n_heads; got width {width} and n_heads {n_heads} for "
            f"{of} (n_heads may be {allowed} at this width)"
        )
