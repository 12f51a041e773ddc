"""The types of parameters, which refuse values that no chapter can use.

No result depends on the refusals: records do not include the types of parameters.
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
"""The largest number of steps, samples or units: a hundred times that of the largest profile."""

LARGEST_SEED = 2**32 - 1
"""The largest seed: numpy splits a larger one into several words, which can be those of another seed."""

LARGEST_NUMBER = float(torch.finfo(torch.float32).max)
"""The largest number that weights and losses can hold."""

LONGEST_TEXT = 1000
"""Characters of a name or a sample; a prompt may have `LONGEST_PROMPT`."""

LONGEST_PROMPT = 1_000_000

LONGEST_LIST = 10_000

T = TypeVar("T")


def among(known: Collection[str]) -> AfterValidator:
    """The validator of a name that has to be one of `known`; its error suggests close names."""

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
    """Refuse checkpoints after the `last` step of the training."""
    if outside := [step for step in steps if not 0 <= step <= last]:
        raise ValueError(f"checkpoints should be from 0 to steps = {last}; got {outside}")


# Where a type and a field both set a bound, pydantic uses only one: these types check theirs in a validator.

Count = Annotated[int, _to(LARGEST_COUNT)]
"""A number of things; `Field` sets its lower bound, and an upper bound below `LARGEST_COUNT`."""

Seed = Annotated[int, _to(LARGEST_SEED)]
"""The seed of a random generator."""

Amount = Annotated[float, _to(LARGEST_NUMBER)]
"""A number from 0 to `LARGEST_NUMBER`."""

Share = Annotated[float, Field(ge=0, le=1)]
"""A share from 0 to 1."""

Rate = Annotated[float, Field(gt=0, le=1)]
"""A rate above 0 and at most 1, such as a learning rate."""

Text = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_whole)]
"""A name, or a text of the reader's own."""

Prompt = Annotated[str, Field(max_length=LONGEST_PROMPT), AfterValidator(_whole)]
"""A text that may be long."""

Several = Annotated[list[T], Field(max_length=LONGEST_LIST)]
"""A list of values of this type."""

Different = Annotated[list[T], Field(max_length=LONGEST_LIST), AfterValidator(_different)]
"""A list of values of this type without duplicates."""

Growing = Annotated[list[Count], Field(max_length=LONGEST_LIST), AfterValidator(_growing)]
"""A list of strictly increasing numbers."""

Seeds = Annotated[Different[Seed], Field(min_length=1)]
"""The type of a parameter `seeds`: a model counted twice would make intervals too narrow."""

SeveralSeeds = Annotated[Different[Seed], Field(min_length=2)]
"""The type of a parameter `seeds`, where runs of different seeds are compared with each other."""

# Settings of a generator or of a stage, by their names: numbers, texts, or lists of these.
Settings = dict[Text, Annotated[Any, AfterValidator(plain)]]

Device = Annotated[str, AfterValidator(_there)]
"""The device on which a chapter computes."""


def refuse_heads(width: int, n_heads: int, of: str) -> None:
    """Refuse a width that is odd, or that the number of heads does not divide."""
    if width % n_heads or width % 2:
        allowed = ", ".join(str(n) for n in range(1, 65) if width % n == 0)
        raise ValueError(
            f"width should be even and a multiple of n_heads; got width {width} and n_heads {n_heads} for "
            f"{of} (n_heads may be {allowed} at this width)"
        )
