"""What the study trained and tested on, and ranges in words."""

from __future__ import annotations

from typing import Any

RANGES: dict[str, dict[str, dict[str, dict[str, Any]]]] = {
    "scratch": {
        "long_addition": {
            "train": {"length": (1, 4), "num_of_nums": (2, 2)},
            "id": {"length": (1, 4)},
            "ood": {"length": (5, 10)},
        },
        "long_multiplication": {
            "train": {"length": (1, 3)},
            "id": {"length": (1, 3)},
            "ood": {"length": (4, 5)},
        },
        "string_reversal": {
            "train": {"length": (10, 20)},
            "id": {"length": (10, 20)},
            "ood": {"length": (1, 10)},
        },
        "successor": {
            "train": {"start_number_range": (1, 90), "length": (2, 4)},
            "id": {"start_number_range": (1, 90), "length": (2, 4)},
            "ood": {"start_number_range": (100, 900), "length": (5, 6)},
        },
        "value_assignment": {
            "train": {"length": (1, 5), "encoding_length": (1, 5)},
            "id": {"length": (1, 5), "encoding_length": (1, 5)},
            "ood": {"length": (10, 50), "encoding_length": (10, 20)},
        },
        "flip_flop": {
            "train": {"length": (1, 10), "num_registers": (2, 2)},
            "id": {"length": (1, 10)},
            "ood": {"length": (11, 20)},
        },
    },
    "finetune": {
        "long_addition": {
            "train": {"length": (7, 10), "num_of_nums": (2, 2)},
            "id": {"length": (7, 10)},
            "ood": {"length": (1, 6)},
        },
        "long_multiplication": {
            "train": {"length": (1, 3)},
            "id": {"length": (1, 3)},
            "ood": {"length": (4, 5)},
        },
        "string_reversal": {
            "train": {"length": (1, 20)},
            "id": {"length": (1, 10)},
            "ood": {"length": (10, 50)},
        },
        "successor": {
            "train": {"start_number_range": (1, 90), "length": (2, 4)},
            "id": {"start_number_range": (1, 90), "length": (2, 4)},
            "ood": {"start_number_range": (100, 900), "length": (5, 6)},
        },
        "value_assignment": {
            "train": {"length": (1, 5), "encoding_length": (1, 5)},
            "id": {"length": (5, 5), "encoding_length": (5, 5)},
            "ood": {"length": (10, 50), "encoding_length": (10, 20)},
        },
        "flip_flop": {
            "train": {"length": (10, 10), "num_registers": (2, 2)},
            "id": {"length": (10, 10)},
            "ood": {"length": (11, 20)},
        },
    },
    "grok": {
        "flip_flop": {
            "train": {"length": (10, 10), "num_registers": (2, 2)},
            "id": {"length": (10, 20)},
            "ood": {"length": (100, 130)},
        },
    },
}
"""The ranges of the six tasks in the study's two families of configurations (its repository's `configs`, of
2025-05-20): models trained from random weights, and fine-tuned ones; and its "grok" configuration, of
flip-flop alone. What "id" and "ood" do not name is as in "train"."""

LONGER: dict[str, dict[str, dict[str, Any]]] = {
    "string_reversal": {"train": {"length": (1, 10)}, "id": {"length": (1, 10)}, "ood": {"length": (11, 20)}}
}
"""Reversal towards longer strings, as all other tasks; the study trained from scratch on the longer ones."""


def in_words(settings: dict[str, Any]) -> str:
    """Settings of a generator in words: "length 1-4, num_of_nums 2"."""
    return ", ".join(f"{key} {range_in_words(value)}" for key, value in settings.items())


def range_in_words(value: Any) -> str:
    """A setting in words: "1-4", "2" for a range of one number, and others as they are."""
    if isinstance(value, tuple) and len(value) == 2:
        return f"{value[0]}-{value[1]}" if value[0] != value[1] else str(value[0])
    return str(value)


def tuples(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with tuples in place of lists, which is what YAML has."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}


def within(value: Any, whole: Any) -> bool:
    """Whether a setting asks for nothing that is outside of another: a range, or a set of characters."""
    if isinstance(whole, bool) or isinstance(value, bool):
        return value == whole
    if isinstance(whole, tuple):
        return whole[0] <= value[0] <= value[1] <= whole[1]
    return set(value) <= set(whole)
