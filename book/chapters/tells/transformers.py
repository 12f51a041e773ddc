"""Settings of `where_attention_tells` whose models are transformers: programs, tasks, sums, facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from jaxtyping import Int64
from torch import Tensor, nn

from attnlib.generators.needle import NeedleGenerator
from attnlib.generators.rasp import Language, language
from attnlib.models.compiled import compiled
from attnlib.models.pretrained import load_language_model
from book.chapters.chapter import Run
from book.chapters.generative.generative_rollout import GenerativeRollout
from book.chapters.lens.arithmetic_lens import ArithmeticLens, LensRun
from book.chapters.rasp.rasp_languages import RaspLanguages, RaspRun
from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning, ReasoningRun
from book.chapters.tells.asked import (
    Question,
    about_answers,
    about_facts,
    about_programs,
    about_sums,
    gathered,
    some,
)
from book.chapters.tells.setting import SPARE, Asked, RunPerSeed, Setting, Wanted

ROUNDS = 4
"""How often texts of a task are gone through for another question, where there are too few of them."""

POOL, FACTS = 4000, 300
"""Texts of a task, and prompts of the needle test, that others of the same form are taken from."""

COMPILED_LENGTH = 12
"""Symbols of the longest sequence for compiled models, as in the chapter on RASP languages."""


def program_questions(
    lang: Language, n: int, lengths: tuple[int, int], known: bool, others: bool
) -> Iterator[Question]:
    """Questions about unseen sequences of such lengths; `known`: whether models were trained on such."""
    shortest, longest = lengths
    drawn = lang.sequences(SPARE * n, split="test", min_length=shortest, max_length=longest)
    return about_programs(lang, drawn, others=others, in_distribution=known)


@dataclass(frozen=True)
class Program(RunPerSeed):
    """Models of a RASP language; out of distribution are sequences longer than any in training.

    Attributes:
        name: the language.
        supervised: whether their heads were told where to look.
    """

    name: str
    supervised: bool = False
    needs = "rasp_languages"

    @property
    def title(self) -> str:
        """The language, and whether it is supervised."""
        return self.name + ", supervised" * self.supervised

    def has(self, run: RaspRun) -> bool:
        """Whether it is of the language, in full size, at the chapter's own rates."""
        plain = not (run.ablation or run.learning_rate or run.gamma)
        return plain and (run.language.name, run.supervised) == (self.name, self.supervised)

    def another(self, chapter: RaspLanguages, seed: int) -> Run:
        """The same language, another seed."""
        run = chapter.run(self.name, self.supervised, seed)
        return replace(run, name=f"{run.name.removesuffix(f', seed {seed}')}, seed {seed}")

    def ask(self, chapter: RaspLanguages, model: nn.Module, n: int, others: bool) -> Asked:
        """About lengths up to that of training, and up to the longest that is tested."""
        lang, end = chapter.lang(self.name), chapter.length
        parts = [program_questions(lang, n, (2, end), True, others)]
        if chapter.longest > end:
            parts.append(program_questions(lang, n, (end + 1, chapter.longest), False, others))
        padding = int(lang.tokenizer.pad_token_id)
        return model, gathered(self.title, model, some(n, *parts), padding)

    def words(self, p: Wanted, ids: Int64[Tensor, " token"]) -> list[str]:
        """Symbols."""
        return self.chapter(p).lang(self.name).tokenizer.convert_ids_to_tokens(ids.tolist())


@dataclass(frozen=True)
class CompiledProgram(Setting):
    """A model that is a program, right on every sequence up to its length.

    Attributes:
        name: the language.
    """

    name: str
    needs = None

    def seeds(self, p: Wanted) -> list[int]:
        """There is one model."""
        return [0]

    @property
    def title(self) -> str:
        """The language, and that it is compiled."""
        return f"{self.name}, compiled"

    def make(self, p: Wanted, seed: int, others: bool = False) -> Asked:
        """All sequences are in the distribution: there is no other."""
        found = compiled(self._language, COMPILED_LENGTH)
        asked = program_questions(found.language, p.questions, (2, COMPILED_LENGTH), True, others)
        padding = int(found.language.tokenizer.pad_token_id)
        return found.model, gathered(self.title, found.model, some(p.questions, asked), padding)

    def words(self, p: Wanted, ids: Int64[Tensor, " token"]) -> list[str]:
        """Symbols."""
        return self._language.tokenizer.convert_ids_to_tokens(ids.tolist())

    @property
    def _language(self) -> Language:
        return language(self.name, 10, bos=True)


@dataclass(frozen=True)
class Task(RunPerSeed):
    """Models of an algorithmic task.

    Attributes:
        name: of the task.
        supervised: whether a head was told where to look.
    """

    name: str
    supervised: bool = False
    needs = "algorithmic_reasoning"

    @property
    def title(self) -> str:
        """The task, and whether it is supervised."""
        return self.name.removeprefix("long_").replace("_", " ") + ", supervised" * self.supervised

    def check(self, chapter: AlgorithmicReasoning) -> None:
        """Models should read one token per character, and nothing around a text."""
        if not chapter.from_scratch or chapter.instruction or chapter.few_shot:
            raise ValueError(
                f"{self.name} is asked of models from scratch, without instruction and examples; got "
                f"{chapter.model}, instruction={chapter.instruction}, few_shot={chapter.few_shot}"
            )

    def has(self, run: ReasoningRun) -> bool:
        """Whether it is of the task, with the architecture's own positions."""
        return (run.task, run.supervised, run.positions) == (self.name, self.supervised, "")

    def another(self, chapter: AlgorithmicReasoning, seed: int) -> Run:
        """The same task, another seed."""
        run = ReasoningRun("", seed, self.name, self.supervised)
        return ReasoningRun(f"{run.kind}, seed {seed}", seed, self.name, self.supervised)

    def ask(self, chapter: AlgorithmicReasoning, model: nn.Module, n: int, others: bool) -> Asked:
        """About test texts in the ranges of training, and out of them; several times where they are few."""
        parts = []
        for part in ("id", "ood"):
            generator = chapter.generator(self.name, part, plain=True)
            once = {sample.text: sample for sample in generator.samples(SPARE * n)}.values()
            unlabelled = chapter.generator(self.name, part, plain=True, generate_attn_labels=False)
            pool = unlabelled.samples(others * POOL)
            rounds = [
                about_answers(generator, once, others=pool, in_distribution=part == "id", seed=seed)
                for seed in range(ROUNDS)
            ]
            parts.append(chain(*rounds))
        padding = int(chapter.tokenizer.pad_token_id)
        return model, gathered(self.title, model, some(n, *parts), padding)

    def words(self, p: Wanted, ids: Int64[Tensor, " token"]) -> list[str]:
        """Characters."""
        return self.chapter(p).tokenizer.convert_ids_to_tokens(ids.tolist())


@dataclass(frozen=True)
class Sums(RunPerSeed):
    """The main models of the arithmetic lens; all problems are in the distribution."""

    needs = "arithmetic_lens"

    @property
    def title(self) -> str:
        """What the chapter is about."""
        return "arithmetic"

    def has(self, run: LensRun) -> bool:
        """Whether it writes as usual, and learns from given answers, without overlap of splits."""
        return run.operators == "+" and not (run.backwards or run.sampling or run.published)

    def another(self, chapter: ArithmeticLens, seed: int) -> Run:
        """Another seed."""
        return LensRun(f"{chapter.kind}, seed {seed}", seed, "+")

    def ask(self, chapter: ArithmeticLens, model: nn.Module, n: int, others: bool) -> Asked:
        """About test problems."""
        run = LensRun("", 0, "+")
        task = chapter.task(run)
        problems = chapter.splits(run).test[: SPARE * n]
        pool = [*task.samples(chapter.splits(run).test[: others * POOL])]
        asked = about_sums(task, task.samples(problems), others=pool)
        return model, gathered(self.title, model, some(n, asked), int(task.tokenizer.pad_token_id))

    def words(self, p: Wanted, ids: Int64[Tensor, " token"]) -> list[str]:
        """Characters."""
        return self.chapter(p).task(LensRun("", 0, "+")).tokenizer.convert_ids_to_tokens(ids.tolist())


@lru_cache(maxsize=1)
def language_model(name: str, device: str) -> tuple[Any, Any]:
    """A language model and its tokenizer, loaded once."""
    return load_language_model(name, device=device)


@dataclass(frozen=True)
class Facts(Setting):
    """The needle test of the chapter on generative rollout, of a language model that is not trained here."""

    needs = "generative_rollout"

    @property
    def title(self) -> str:
        """The test."""
        return "needle"

    def seeds(self, p: Wanted) -> list[int]:
        """There is one model."""
        return [0]

    def make(self, p: Wanted, seed: int, others: bool = False) -> Asked:
        """The chapter's prompts; no others are out of the distribution of what such models have read."""
        chapter: GenerativeRollout = self.chapter(p)
        model, tokenizer = language_model(chapter.model, chapter.device)
        generator = NeedleGenerator(tokenizer, seed=chapter.seed, facts=chapter.facts)
        elsewhere = NeedleGenerator(tokenizer, seed=chapter.seed + 1, facts=chapter.facts)
        pool = islice(elsewhere.generate_samples(), others * FACTS)
        asked = about_facts(generator, generator.generate_samples(), others=pool)
        return model, gathered(self.title, model, some(p.questions, asked), tokenizer.pad_token_id or 0)

    def words(self, p: Wanted, ids: Int64[Tensor, " token"]) -> list[str]:
        """Pieces of text."""
        tokenizer = language_model(self.chapter(p).model, self.chapter(p).device)[1]
        return [tokenizer.decode([index]) for index in ids.tolist()]
