r"""Needle in a haystack: a question whose answer stands in one fact among others.

    The code of Alma is 7319. The code of Bruno is 2045. ... Q: What is the code of Alma? A: The code of Alma
    is 7319

A language model reads the text up to the answer's value, and has to predict the value. Every name and every
value occurs in only one fact, so the answer can only come from the *needle*: the tokens of the value (7319)
in the fact about the name in the question. An attribution of the answer's first token to the prompt that
misses all of these tokens is wrong.

Two examples, with 2 facts, as tokens that are characters (`^` marks the needle, `?` the query that predicts
the answer's first token, with `opening=""`):

    The code of Kira is 4821. The code of Hugo is 1936. Q: What is the code of Hugo? A: 1936
                                                  ^^^^                                 ?
    The code of Omar is 3070. The code of Lena is 8452. Q: What is the code of Omar? A: 3070
                        ^^^^                                                           ?

References:
    1) Kamradt 2023, *Needle in a haystack: pressure testing LLMs* (a repository): a fact among distractors,
       at many lengths and depths.
    2) Hsieh et al. 2024, *RULER*: distractors of the needle's own form (there, "multi-key").
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from attnlib.checks import check, check_between, check_one_of
from attnlib.generators.base import IGNORE, Sample

NAMES = tuple(
    "Alma Anna Anton Boris Bruno Carla Clara David Diego Dora Elena Emma Erik Felix Fiona Frank Grace "  # noqa: SIM905
    "Greta Henry Hugo Irene Ivan Jacob Julia Karl Kira Laura Lena Leo Louis Maria Martin Mia Nadia Nina "
    "Omar Oscar Paul Petra Quinn Rita Robert Rosa Sara Simon Sofia Thomas Tina Vera Victor Walter Yusuf "
    "Zoe".split()
)
"""The names that facts are about."""

OPENING = "The code of {name} is"
"""The words that begin the answer. Without them (`opening=""`), many small models end the text instead."""

_FACT = re.compile(r"The code of (?P<name>\w+) is (?P<value>\d+)\.")
_QUESTION = re.compile(r"Q: What is the code of (?P<name>\w+)\? A:(?P<opening> The code of (?P=name) is)?")


@dataclass(frozen=True)
class NeedleSample(Sample):
    """A prompt with its answer: `input_ids` hold both, `target_ids` only the tokens of the answer's value.

    The queries are the positions that predict a token of the value. `reference` is True for their keys in the
    needle, `evaluated` for their keys in the prompt. A token belongs to the needle if it shares a character
    with the value in the fact.

    Attributes:
        answer: the value.
        facts: number of facts.
        position: index of the fact that holds the needle, from 0.
        n_prompt: tokens before the answer's value. The last of them is the query that predicts its first.
        context: True for tokens of the facts, False for those of the question and the answer.
        name: True for the tokens of the name in the fact that holds the needle.
    """

    answer: str = ""
    facts: int = 0
    position: int = 0
    n_prompt: int = 0
    context: Bool[Tensor, " token"] | None = None
    name: Bool[Tensor, " token"] | None = None


class NeedleGenerator:
    """Prompts of the needle test, for any fast Hugging Face tokenizer (which can return offsets).

    Sample `i` depends on `seed` and `i` only. The number of facts cycles through `facts`; the needle's
    position among them is uniform. A value has `digits` digits, and the first is not 0. `opening` stands
    before the answer's value: the wording of the facts (`OPENING`), or "".
    """

    def __init__(
        self,
        tokenizer: Any,
        seed: int = 0,
        facts: int | Sequence[int] = 5,
        digits: int = 4,
        opening: str = OPENING,
    ) -> None:
        self.facts = (facts,) if isinstance(facts, int) else tuple(facts)
        check_between(1, 18, digits=digits)
        most = min(len(NAMES), 9 * 10 ** (digits - 1))
        fits = self.facts and all(1 <= number <= most for number in self.facts)
        check(fits, f"facts must be from 1 to {most}, with values of {digits} digits", facts)
        check_one_of(("", OPENING), opening=opening)
        fast = getattr(tokenizer, "is_fast", False)
        check(fast, "tokenizer must be a fast one, which knows the characters of a token", tokenizer)
        self.tokenizer, self.seed, self.digits, self.opening = tokenizer, seed, digits, opening

    def generate_samples(self) -> Iterator[NeedleSample]:
        """An endless stream of samples."""
        for index in itertools.count():
            yield self.annotate(self._text(index))

    def _text(self, index: int) -> str:
        chance = random.Random(f"{self.seed} {index}")
        facts = self.facts[index % len(self.facts)]
        names = chance.sample(NAMES, facts)
        values = chance.sample(range(10 ** (self.digits - 1), 10**self.digits), facts)
        told = " ".join(f"The code of {name} is {value}." for name, value in zip(names, values, strict=True))
        asked = chance.randrange(facts)
        opening = self.opening and " " + self.opening.format(name=names[asked])
        return f"{told} Q: What is the code of {names[asked]}? A:{opening} {values[asked]}"

    def annotate(self, text: str) -> NeedleSample:
        """The sample of a text in the form that this module's docstring shows; else a `ValueError`."""
        question = _QUESTION.search(text)
        facts = list(_FACT.finditer(text, 0, question.start())) if question else []
        told = " ".join(fact.group() for fact in facts)
        if not question or not facts or text[: question.start()] != f"{told} ":
            raise ValueError(
                'a text of the needle test is "The code of Alma is 7319. ... Q: What is the code of Alma? A: '
                f'7319", where "A:" may be followed by "The code of Alma is"; got {text!r}'
            )
        answer = text[question.end() :].removeprefix(" ")
        about = [index for index, fact in enumerate(facts) if fact["name"] == question["name"]]
        same = [fact for fact in facts if fact["value"] == answer]
        if len(about) != 1 or len(same) != 1 or facts[about[0]] is not same[0]:
            raise ValueError(
                f"one fact should be about {question['name']}, and only that one should have the value "
                f"{answer!r}; got {[fact.group() for fact in facts]}"
            )
        return self._tokenised(text, facts, about[0], answer)

    def exchanged(self, sample: NeedleSample, rng: np.random.Generator) -> NeedleSample | None:
        """The counterfactual sample: the fact that the question is about swaps values with another fact.

        The answer becomes the other fact's value and begins with another token; the prompt's number of tokens
        stays the same. The result is `None` if no fact gives such a prompt.
        """
        values = [fact["value"] for fact in _FACT.finditer(sample.text)]
        for value in rng.permutation([each for each in values if each != sample.answer]).tolist():
            swapped = {value: sample.answer, sample.answer: value}
            either = rf"\b({value}|{sample.answer})\b"
            pieces: list[str] = re.split(either, sample.text)
            other = self.annotate("".join(swapped.get(piece, piece) for piece in pieces))
            first = sample.n_prompt
            if other.n_prompt == first and other.input_ids[first] != sample.input_ids[first]:
                return other
        return None

    def _tokenised(self, text: str, facts: list[re.Match], position: int, answer: str) -> NeedleSample:
        encoded = self.tokenizer(text, return_offsets_mapping=True, return_attention_mask=False)
        starts, ends = torch.tensor(encoded["offset_mapping"]).T

        def of(start: int, end: int) -> Bool[Tensor, " token"]:
            return (starts < end) & (ends > start) & (ends > starts)

        asked = of(len(text) - len(answer), len(text)).nonzero().flatten()
        n_prompt, n = int(asked[0]), int(asked[-1]) + 1  # without a tokenizer's end token
        if text[int(starts[n_prompt]) : len(text) - len(answer)].strip():
            raise ValueError(f"the tokenizer runs the prompt and the answer of {text!r} together")
        ids = torch.tensor(encoded["input_ids"])[:n]
        targets, queries = torch.full_like(ids, IGNORE), torch.zeros(n, 1, dtype=torch.bool)
        targets[n_prompt - 1 : -1], queries[n_prompt - 1 : -1] = ids[n_prompt:], True
        fact = facts[position]
        return NeedleSample(
            text=text,
            input_ids=ids,
            target_ids=targets,
            reference=queries & of(*fact.span("value"))[:n],
            evaluated=queries & (torch.arange(n) < n_prompt),
            answer=answer,
            facts=len(facts),
            position=position,
            n_prompt=n_prompt,
            context=of(0, facts[-1].end())[:n],
            name=of(*fact.span("name"))[:n],
        )
