"""The six algorithmic tasks: texts whose answer an algorithm computes, and where that algorithm looks.

Source: Spiegel, Štefánik, Kadlčík and Kuchař 2025, *Attend or Perish: Benchmarking Attention in Algorithmic
Reasoning*, section 3.
"""

from __future__ import annotations

from typing import Any

from attnlib.checks import check_one_of
from attnlib.generators.algorithmic.base import AlgorithmicGenerator, TooFewTexts
from attnlib.generators.algorithmic.flip_flop import FlipFlopGenerator
from attnlib.generators.algorithmic.long_addition import LongAdditionGenerator
from attnlib.generators.algorithmic.long_multiplication import LongMultiplicationGenerator
from attnlib.generators.algorithmic.samples import AlgorithmicSample, PaddedSamples
from attnlib.generators.algorithmic.string_reversal import StringReversalGenerator
from attnlib.generators.algorithmic.successor import SuccessorGenerator
from attnlib.generators.algorithmic.value_assignment import ValueAssignmentGenerator

__all__ = [
    "TASKS",
    "AlgorithmicGenerator",
    "AlgorithmicSample",
    "FlipFlopGenerator",
    "LongAdditionGenerator",
    "LongMultiplicationGenerator",
    "PaddedSamples",
    "StringReversalGenerator",
    "SuccessorGenerator",
    "TooFewTexts",
    "ValueAssignmentGenerator",
    "task",
]

TASKS: dict[str, type[AlgorithmicGenerator]] = {
    "long_addition": LongAdditionGenerator,
    "long_multiplication": LongMultiplicationGenerator,
    "string_reversal": StringReversalGenerator,
    "successor": SuccessorGenerator,
    "value_assignment": ValueAssignmentGenerator,
    "flip_flop": FlipFlopGenerator,
}
"""The generators by the names that chapters use."""


def task(name: str, tokenizer: Any, **settings: Any) -> AlgorithmicGenerator:
    """The generator of the task with this name.

    Args:
        name: one of `TASKS`.
        tokenizer: see `AlgorithmicGenerator`.
        **settings: further arguments of the generator.
    """
    check_one_of(TASKS, task=name)
    return TASKS[name](tokenizer=tokenizer, **settings)
