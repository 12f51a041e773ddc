"""Generators of samples: text, token ids, targets, and reference attention."""

from typing import TYPE_CHECKING

from attnlib.lazily import lazily

if TYPE_CHECKING:
    from attnlib.generators.algorithmic import (
        FlipFlopGenerator,
        LongAdditionGenerator,
        LongMultiplicationGenerator,
        StringReversalGenerator,
        SuccessorGenerator,
        ValueAssignmentGenerator,
    )
    from attnlib.generators.base import IGNORE, Batch, Head, Sample
    from attnlib.generators.order import EpochBatches
    from attnlib.generators.tokenizer import char_tokenizer

__all__ = [
    "IGNORE",
    "Batch",
    "EpochBatches",
    "FlipFlopGenerator",
    "Head",
    "LongAdditionGenerator",
    "LongMultiplicationGenerator",
    "Sample",
    "StringReversalGenerator",
    "SuccessorGenerator",
    "ValueAssignmentGenerator",
    "char_tokenizer",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, __file__)
