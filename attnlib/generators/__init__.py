"""Where samples come from: text, token ids, targets, and the reference attention."""

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

_TASKS = dict.fromkeys([name for name in __all__ if "Generator" in name], "attnlib.generators.algorithmic")
_HOMES = dict.fromkeys(__all__, "attnlib.generators.base") | _TASKS
if not TYPE_CHECKING:
    _OTHERS = {"EpochBatches": "attnlib.generators.order", "char_tokenizer": "attnlib.generators.tokenizer"}
    __getattr__, __dir__ = lazily(__name__, _HOMES | _OTHERS)
