"""Assign texts to train, valid and test by a hash of their content, so that no text is in two splits."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Integer

from attnlib.checks import check_one_of

Split = Literal["train", "valid", "test"]
TENTHS: dict[Split, tuple[int, ...]] = {"test": (0,), "valid": (1,), "train": (2, 3, 4, 5, 6, 7, 8, 9)}
"""A tenth of all texts is for testing, a tenth for validation, and the rest for training."""


def known_split(split: str | None) -> Split | None:
    """The checked name of a split, or `None` for all texts; any other value raises `ValueError`."""
    check_one_of((*get_args(Split), None), split=split)
    return next((known for known in get_args(Split) if split == known), None)


def in_split(
    symbols: Integer[np.ndarray, "text position"], lengths: Integer[np.ndarray, " text"], split: Split
) -> Bool[np.ndarray, " text"]:
    """Whether each text is in the split; padding behind a text's end does not count."""
    return np.isin(_tenth(symbols, lengths), TENTHS[split])


def _tenth(symbols: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """A uniform hash from 0 to 9 of each text's content, which does not depend on its padding."""
    weights = np.random.default_rng(0).integers(1, 2**62, symbols.shape[1], dtype=np.uint64)
    content = np.where(np.arange(symbols.shape[1]) < lengths[:, None], symbols + 1, 0).astype(np.uint64)
    mixed = content @ weights
    mixed ^= mixed >> np.uint64(29)
    return ((mixed * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) % np.uint64(10)
