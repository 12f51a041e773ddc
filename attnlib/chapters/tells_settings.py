"""The settings of the chapter `where_attention_tells`, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

from torch import nn

from attnlib.chapters.algorithmic_reasoning import AlgorithmicReasoning, ReasoningRun
from attnlib.chapters.arithmetic_lens import ArithmeticLens, LensRun
from attnlib.chapters.base import Run
from attnlib.chapters.classification_dynamics import ClassificationDynamics, DynamicsRun
from attnlib.chapters.generative_rollout import GenerativeRollout
from attnlib.chapters.rasp_languages import RaspLanguages
from attnlib.chapters.rasp_settings import RaspRun
from attnlib.chapters.sequence_copying import CopyRun, SequenceCopying
from attnlib.chapters.tells_setting import MOST_SEEDS, Asked, RunPerSeed, Setting, Wanted, trained
from attnlib.chapters.translation_dynamics import TranslationDynamics, TranslationRun
from attnlib.generators.classification import Planting, planted
from attnlib.generators.classification.corpus import encode
from attnlib.generators.classification.documents import Documents
from attnlib.generators.classification.vocabulary import Vocabulary, split_words
from attnlib.generators.copying import Copying
from attnlib.generators.exchanged import Translator
from attnlib.generators.needle import NeedleGenerator
from attnlib.generators.rasp import Language, language
from attnlib.generators.translation import Grammar, Pairs, invented
from attnlib.measures.asked import (
    Question,
    about_answers,
    about_copies,
    about_documents,
    about_facts,
    about_programs,
    about_sentences,
    about_sums,
    gathered,
)
from attnlib.models.classifier import Classifier
from attnlib.models.compiled import PROGRAMS, compiled
from attnlib.models.pretrained import load_language_model
from attnlib.models.seq2seq import Seq2Seq
from attnlib.models.single_head import ReadCopies, ReadDocuments, ReadSentences

SPARE = 3
"""How many texts are drawn for each question that is wanted: not every text has one."""

COMPILED_LENGTH = 12
"""Symbols of the longest sequence for compiled models, as in the chapter on RASP languages."""


def some(n: int, *parts: Iterable[Question]) -> Iterator[Question]:
    """The first `n` questions of each part."""
    return chain.from_iterable(islice(part, n) for part in parts)


def program_questions(lang: Language, n: int, lengths: tuple[int, int], known: bool) -> Iterator[Question]:
    """Questions about unseen sequences of such lengths; `known`: whether models were trained on such."""
    shortest, longest = lengths
    drawn = lang.sequences(SPARE * n, split="test", min_length=shortest, max_length=longest)
    return about_programs(lang, drawn, in_distribution=known)


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

    def has(self, run: RaspRun) -> bool:
        """Whether it is of the language, in full size, at the chapter's own rates."""
        plain = not (run.ablation or run.learning_rate or run.gamma)
        return plain and (run.language.name, run.supervised) == (self.name, self.supervised)

    def another(self, chapter: RaspLanguages, seed: int) -> Run:
        """The same language, another seed."""
        return chapter.run(self.name, self.supervised, seed)

    def ask(self, chapter: RaspLanguages, model: nn.Module, n: int) -> Asked:
        """About lengths up to that of training, and up to the longest that is tested."""
        lang, end = chapter.lang(self.name), chapter.length
        parts = [program_questions(lang, n, (2, end), True)]
        if chapter.longest > end:
            parts.append(program_questions(lang, n, (end + 1, chapter.longest), False))
        padding = int(lang.tokenizer.pad_token_id)
        return model, gathered(self.name, model, some(n, *parts), padding)


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

    def make(self, p: Wanted, seed: int) -> Asked:
        """All sequences are in the distribution: there is no other."""
        found = compiled(language(self.name, 10, bos=True), COMPILED_LENGTH)
        asked = program_questions(found.language, p.questions, (2, COMPILED_LENGTH), True)
        padding = int(found.language.tokenizer.pad_token_id)
        return found.model, gathered(found.run, found.model, some(p.questions, asked), padding)


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

    def has(self, run: ReasoningRun) -> bool:
        """Whether it is of the task, with the architecture's own positions."""
        return (run.task, run.supervised, run.positions) == (self.name, self.supervised, "")

    def another(self, chapter: AlgorithmicReasoning, seed: int) -> Run:
        """The same task, another seed."""
        run = ReasoningRun("", seed, self.name, self.supervised)
        return ReasoningRun(f"{run.kind}, seed {seed}", seed, self.name, self.supervised)

    def ask(self, chapter: AlgorithmicReasoning, model: nn.Module, n: int) -> Asked:
        """About the chapter's test texts, each once: in the ranges of training, and out of them."""
        if not chapter.from_scratch:
            raise ValueError(
                f"{chapter.model} may not read one token per character: take models from scratch"
            )
        parts = []
        for part in ("id", "ood"):
            generator = chapter.generator(self.name, part, plain=True)
            once = {sample.text: sample for sample in generator.samples(SPARE * n)}.values()
            parts.append(about_answers(generator, once, in_distribution=part == "id"))
        padding = int(chapter.tokenizer.pad_token_id)
        return model, gathered(self.name.replace("_", " "), model, some(n, *parts), padding)


@dataclass(frozen=True)
class Sums(RunPerSeed):
    """The main models of the arithmetic lens; all problems are in the distribution."""

    needs = "arithmetic_lens"

    def has(self, run: LensRun) -> bool:
        """Whether it writes as usual, and learns from given answers, without overlap of splits."""
        return run.operators == "+" and not (run.backwards or run.sampling or run.published)

    def another(self, chapter: ArithmeticLens, seed: int) -> Run:
        """Another seed."""
        return LensRun(f"{chapter.kind}, seed {seed}", seed, "+")

    def ask(self, chapter: ArithmeticLens, model: nn.Module, n: int) -> Asked:
        """About test problems."""
        run = LensRun("", 0, "+")
        task = chapter.task(run)
        problems = chapter.splits(run).test[: SPARE * n]
        asked = about_sums(task, task.samples(problems))
        return model, gathered("arithmetic", model, some(n, asked), int(task.tokenizer.pad_token_id))


@dataclass(frozen=True)
class PlantedDocuments(RunPerSeed):
    """Classifiers of planted documents; out of distribution are documents longer than in training."""

    needs = "classification_dynamics"
    transformer = False

    def has(self, run: DynamicsRun) -> bool:
        """Whether it attends."""
        return not run.uniform

    def another(self, chapter: ClassificationDynamics, seed: int) -> Run:
        """Another seed."""
        return DynamicsRun(f"seed {seed}", seed, uniform=False)

    def ask(self, chapter: ClassificationDynamics, model: Classifier, n: int) -> Asked:
        """About test documents, and as many of twice the length."""
        if chapter.data != "planted":
            raise ValueError(f"in {chapter.data} nobody knows which words decide: take data='planted'")
        known = Planting(difficulty=chapter.difficulty, confounding=chapter.confounding)
        longer = replace(known, min_words=known.max_words + 1, max_words=2 * known.max_words)
        vocabulary, reader = chapter.corpus.vocabulary, ReadDocuments(model).eval()
        parts = [
            about_documents(vocabulary, chapter.corpus.test, known),
            about_documents(vocabulary, long_documents(vocabulary, longer, n), longer, in_distribution=False),
        ]
        return reader, gathered("documents", reader, some(n, *parts))


def long_documents(vocabulary: Vocabulary, planting: Planting, n: int) -> Documents:
    """Documents of another planting, in the words that a model knows."""
    drawn = planted(planting, train_documents=100, validation_documents=20, test_documents=max(20, SPARE * n))
    test = drawn.test
    assert test.relevance is not None
    found = encode(vocabulary, [*map(split_words, test.texts)], test.texts, test.labels.tolist())
    return found.with_relevance(test.relevance)


@dataclass(frozen=True)
class InventedSentences(RunPerSeed):
    """Translators of the invented languages; out of distribution are sentences longer than in training."""

    needs = "translation_dynamics"
    transformer = False

    def has(self, run: TranslationRun) -> bool:
        """Whether it attends."""
        return not run.uniform

    def another(self, chapter: TranslationDynamics, seed: int) -> Run:
        """Another seed."""
        return TranslationRun(f"seed {seed}", seed)

    def ask(self, chapter: TranslationDynamics, model: Seq2Seq, n: int) -> Asked:
        """About test sentences, and longer ones."""
        if chapter.data.lower() != "invented":
            raise ValueError(f"in {chapter.data} nobody knows what translates what: take data='invented'")
        data, reader = chapter.bitext, ReadSentences(model).eval()
        longer = long_sentences(n, int(data.train.source_lengths.max()))
        asked = [
            about_sentences(reader, data.subwords, pairs, Translator(), in_distribution=known)
            for pairs, known in ((data.test[: SPARE * n], True), (longer, False))
        ]
        return reader, gathered("translation", reader, some(n, *asked))


def long_sentences(n: int, longest: int) -> Pairs:
    """Sentences of more source tokens, of up to twice the clauses."""
    grammar = Grammar(clauses=2 * Grammar().clauses)
    drawn = invented(grammar, train_sentences=5, validation_sentences=5, test_sentences=2 * SPARE * n).test
    return drawn[(drawn.source_lengths > longest).nonzero()[:, 0]]


@dataclass(frozen=True)
class Copies(Setting):
    """Copiers of the task that is easy to learn; out of distribution are longer sequences."""

    needs = "sequence_copying"
    transformer = False

    def seeds(self, p: Wanted) -> list[int]:
        """Those that the chapter trains, which are side by side in one model."""
        chapter: SequenceCopying = self.chapter(p)
        return [seed for run in self._stacks(chapter) for seed in run.seeds][:MOST_SEEDS]

    def make(self, p: Wanted, seed: int) -> Asked:
        """About unseen sequences of the task's length, and of half as many symbols more.

        Raises:
            ValueError: there is no model of this seed.
        """
        chapter: SequenceCopying = self.chapter(p)
        stack = next((run for run in self._stacks(chapter) if seed in run.seeds), None)
        if stack is None:
            raise ValueError(f"seed should be one of {self.seeds(p)}, which the chapter trains; got {seed}")
        task, reader = chapter.easy, ReadCopies(trained(chapter, stack), seed).eval()
        longer = Copying(min(task.length * 3 // 2, task.symbols), task.symbols)
        parts = [
            about_copies(reader, each, p.questions, in_distribution=each == task) for each in (task, longer)
        ]
        return reader, gathered("copying", reader, chain(*parts))

    def _stacks(self, chapter: SequenceCopying) -> list[CopyRun]:
        return [run for run in chapter.runs() if getattr(run, "group", None) == chapter.easy.name]


@dataclass(frozen=True)
class Facts(Setting):
    """The needle test of the chapter on generative rollout, of a language model that is not trained here."""

    needs = "generative_rollout"

    def seeds(self, p: Wanted) -> list[int]:
        """There is one model."""
        return [0]

    def make(self, p: Wanted, seed: int) -> Asked:
        """The chapter's prompts; no others are out of the distribution of what such models have read."""
        chapter: GenerativeRollout = self.chapter(p)
        model, tokenizer = load_language_model(chapter.model, device=chapter.device)
        generator = NeedleGenerator(tokenizer, seed=chapter.seed, facts=chapter.facts)
        asked = about_facts(generator, generator.generate_samples())
        return model, gathered("needle", model, some(p.questions, asked), tokenizer.pad_token_id or 0)


SETTINGS: dict[str, Setting] = {
    **{f"{name}, compiled": CompiledProgram(name) for name in PROGRAMS},
    "reverse": Program("reverse"),
    "sort": Program("sort"),
    "sort, supervised": Program("sort", supervised=True),
    "hist, supervised": Program("hist", supervised=True),
    "addition": Task("long_addition"),
    "multiplication": Task("long_multiplication"),
    "string reversal": Task("string_reversal"),
    "string reversal, supervised": Task("string_reversal", supervised=True),
    "successor": Task("successor"),
    "value assignment": Task("value_assignment"),
    "flip-flop": Task("flip_flop"),
    "arithmetic": Sums(),
    "documents": PlantedDocuments(),
    "translation": InventedSentences(),
    "copying": Copies(),
    "needle": Facts(),
}
"""Name -> setting, of every model of the book whose sources are known."""

NEEDS = tuple(sorted({setting.needs for setting in SETTINGS.values() if setting.needs}))
"""The chapters that train their models. `notebooks/needs.yaml` tells the pipeline."""
