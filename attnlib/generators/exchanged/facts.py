"""Prompts of the needle test in which two facts have exchanged their values."""

from __future__ import annotations

import re
from functools import partial

import numpy as np

from attnlib.generators.needle import NeedleGenerator, NeedleSample

_TOLD = re.compile(r"\bis (\d+)\.")


def exchanged_values(
    generator: NeedleGenerator, sample: NeedleSample, rng: np.random.Generator
) -> NeedleSample | None:
    """The prompt with the values of the fact that is asked for and of another one exchanged.

    The answer is then that other value, and its first token another one; the prompt has as many tokens.

    Args:
        generator: of the sample.
        sample: one prompt.
        rng: draws the other fact.

    Example:
        >>> from attnlib.generators import char_tokenizer
        >>> generator = NeedleGenerator(char_tokenizer(), opening="")
        >>> text = "The code of Kira is 48. The code of Hugo is 19. Q: What is the code of Hugo? A: 19"
        >>> exchanged_values(generator, generator.annotate(text), np.random.default_rng(0)).text
        'The code of Kira is 19. The code of Hugo is 48. Q: What is the code of Hugo? A: 48'
    """
    values = _TOLD.findall(sample.text)
    for value in rng.permutation([each for each in values if each != sample.answer]).tolist():
        told = re.sub(
            rf"\b({value}|{sample.answer})\b",
            partial(_swapped, {value: sample.answer, sample.answer: value}),
            sample.text,
        )
        other = generator.annotate(told)
        first = sample.n_prompt
        if other.n_prompt == first and other.input_ids[first] != sample.input_ids[first]:
            return other
    return None


def _swapped(values: dict[str, str], found: re.Match) -> str:
    return values[found[0]]
