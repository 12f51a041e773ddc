"""The settings of `attribution_benchmark`: models of other chapters, and questions with ground truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, count, islice
from typing import Any

import pandas as pd
import yaml
from jaxtyping import Float, Int64
from torch import Tensor, nn

from attnlib.attribution.prompts import Method
from attnlib.generators.classification import Planting, planted
from attnlib.generators.classification.corpus import Row, encode
from attnlib.generators.classification.documents import Documents
from attnlib.generators.classification.vocabulary import Vocabulary
from attnlib.generators.copying import Copying
from attnlib.generators.needle import NeedleGenerator
from attnlib.generators.rasp import Language, language
from attnlib.generators.translation import Grammar, Pairs, invented, lexicon
from attnlib.models.causal import OWN
from attnlib.models.compiled import PROGRAMS, compiled
from attnlib.models.pretrained import load_language_model
from book.chapters.attribution_benchmark.questions import (
    Question,
    Questions,
    about_answers,
    about_copies,
    about_documents,
    about_facts,
    about_programs,
    about_sentences,
    gathered,
    some,
)
from book.chapters.attribution_benchmark.single_head import (
    SINGLE_HEAD,
    ReadCopies,
    ReadDocuments,
    ReadSentences,
)
from book.chapters.chapter import Chapter, Run
from book.chapters.classification.classification_dynamics import ClassificationDynamics, DynamicsRun
from book.chapters.copying.sequence_copying import CopyRun, SequenceCopying
from book.chapters.generative.generative_rollout import GenerativeRollout
from book.chapters.lens.arithmetic_lens import ArithmeticLens, LensRun, kind_of
from book.chapters.rasp.rasp_languages import RaspLanguages, RaspRun
from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning, Positions, ReasoningRun
from book.chapters.storing import NOTEBOOKS, chapter_of
from book.chapters.translation.translation_dynamics import TranslationDynamics, TranslationRun

MOST_SEEDS = 3
"""The largest number of seeds whose models are evaluated, if a chapter trains more."""

SPARE = 3
"""How many texts are drawn for each question: not every text yields one."""

ROUNDS = 4
"""How often a task's texts are used for further questions if there are too few texts."""

POOL, FACTS = 4000, 300
"""Texts of a task, and prompts of the needle test, from which counterfactuals of the same form are drawn."""

COMPILED_LENGTH = 12
"""Symbols of the longest sequence for compiled models, as in the chapter on RASP languages."""

Asks = list[Iterator[Question]]
"""Iterators over all available questions in distribution and, if there are any, out of distribution."""


@dataclass(frozen=True)
class Setting:
    """Models with ground truth, one per seed, and questions that are the same for all of them.

    The argument `chapter` of the functions is the chapter that the models are from, with the parameters of a
    profile; `None` if there is no such chapter.

    Attributes:
        needs: the chapter that the models are from, which the pipeline runs first; `None` if there is none.
        ask: returns the questions; takes a chapter, a model that `reader` returned, the number of questions,
            and whether counterfactuals are texts of their own (`others`).
        called: returns the strings of tokens; takes a chapter and the tokens' ids.
        runs: returns the chapter's runs that train the models; `None` if there is one model without training.
        another: returns a run of a seed that the chapter does not train; `None` if there are no other seeds.
        reader: returns the model to evaluate; takes a trained model (without `runs`: a chapter) and a seed.
        check: raises a `ValueError` if the chapter's data are such that the ground truth is unknown.
        transformer: whether every measure applies to the models. The others are recurrent models with one
            head, which `book.chapters.attribution_benchmark.single_head` wraps.
        other: parameters of the chapter that differ from its profile, as pairs of name and value.
    """

    title: str
    needs: str | None
    ask: Callable[[Any, Any, int, bool], Asks]
    called: Callable[[Any, list[int]], list[str]]
    runs: Callable[[Any], list[Any]] | None = None
    another: Callable[[Any, int], Run] | None = None
    reader: Callable[[Any, int], nn.Module] = lambda model, seed: model
    padding: Callable[[Any], int] = lambda chapter: 0
    check: Callable[[Any], None] = lambda chapter: None
    transformer: bool = True
    other: tuple[tuple[str, Any], ...] = ()

    def seeds(self, p: Any) -> list[int]:
        """At most `MOST_SEEDS` seeds: the chapter's own, and with `p.train_more` further ones."""
        if self.runs is None:
            return [0]
        kept = [seed for run in self.runs(self.chapter(p)) for seed in _seeds(run)]
        more = (seed for seed in count() if seed not in kept)
        return [*kept, *islice(more, bool(self.another and p.train_more) * MOST_SEEDS)][:MOST_SEEDS]

    def model(self, p: Any, seed: int) -> nn.Module:
        """The model of a seed to evaluate, trained if it is not cached."""
        chapter = self.chapter(p)
        self.check(chapter)
        return self.reader(self._trained(p, chapter, seed) if self.runs else chapter, seed)

    def make(self, p: Any, seed: int, others: bool = False) -> tuple[nn.Module, Questions]:
        """The model of a seed, and its questions."""
        chapter, model = self.chapter(p), self.model(p, seed)
        questions = some(p.questions, *self.ask(chapter, model, p.questions, others))
        return model, gathered(self.title, model, questions, self.padding(chapter))

    def words(self, p: Any, ids: Int64[Tensor, " token"]) -> list[str]:
        """The strings of a question's tokens."""
        return self.called(self.chapter(p), ids.tolist())

    def shown(
        self, p: Any, questions: Questions, item: int, scores: Mapping[str, Float[Tensor, " token"]]
    ) -> dict[str, Any]:
        """One question with some scores of its tokens, as `widgets.MeasureExplorer` takes it."""
        n = int(questions.attention_mask[item].sum())
        return {
            "tokens": self.words(p, questions.input_ids[item, :n]),
            "scores": {name: score[:n] for name, score in scores.items()},
            "truth": questions.truth[item, :n],
            "candidates": questions.candidates[item, :n],
            "query": int(questions.query[item]),
        }

    def methods(self, names: Iterable[str]) -> dict[str, str | Method]:
        """The measures of these names for the setting's models, as `attributions` takes them."""
        own = {} if self.transformer else SINGLE_HEAD
        return {name: own.get(name, name) for name in names}

    def chapter(self, p: Any) -> Any:
        """The chapter that the models are from, with the parameters of the profile; `None` without one."""
        return chapter_with(self.needs, p.models, self.other) if self.needs else None

    def _trained(self, p: Any, chapter: Any, seed: int) -> Any:
        assert self.runs is not None
        run = next((each for each in self.runs(chapter) if seed in _seeds(each)), None)
        if run is None and self.another is None:
            raise ValueError(f"seed should be one of {self.seeds(p)}, which the chapter trains; got {seed}")
        return trained(chapter, run or self.another(chapter, seed))  # type: ignore[misc]


def _seeds(run: Any) -> tuple[int, ...]:
    """The seeds of a run's models; some runs train several models at once."""
    return getattr(run, "seeds", (run.seed,))


@lru_cache(maxsize=16)
def chapter_with(notebook: str, profile: str, other: tuple[tuple[str, Any], ...] = ()) -> Chapter:
    """A chapter with the parameters of one of its profiles, except those in `other`."""
    if profile not in (there := profiles_of(notebook)):
        raise ValueError(f"{notebook} has the profiles {', '.join(there)}; got {profile!r}")
    given = yaml.safe_load((NOTEBOOKS / "profiles" / notebook / f"{profile}.yaml").read_text("utf-8")) or {}
    return chapter_of(notebook, given | dict(other))


def trained(chapter: Chapter, run: Run) -> Any:
    """The model of a run, from the cache or trained now; a line is printed if it was trained."""
    found = chapter.trained.get(run.name)
    if found is not None and found.run == run:
        return found.model
    started = time.time()
    found = chapter.train(run)
    folder = found.history.folder
    if folder is None or (folder / "best.safetensors").stat().st_mtime >= started:
        print(f"{chapter.notebook}: {run.name} was trained here, in {time.time() - started:.0f} s")
    return found.model


def profiles_of(notebook: str) -> list[str]:
    """The names of a chapter's profiles; with "*", those of all chapters."""
    return sorted({path.stem for path in (NOTEBOOKS / "profiles").glob(f"{notebook}/*.yaml")})


# ---- transformers: programs, tasks, sums, facts ----------------------------------------------------------


def _tokenized(tokenizer: Callable[[Any], Any]) -> dict[str, Any]:
    """The fields `called` and `padding` of a setting, from a chapter's tokenizer."""
    return {
        "called": lambda chapter, ids: tokenizer(chapter).convert_ids_to_tokens(ids),
        "padding": lambda chapter: int(tokenizer(chapter).pad_token_id),
    }


def program_questions(
    lang: Language, n: int, lengths: tuple[int, int], known: bool, others: bool
) -> Iterator[Question]:
    """Questions about unseen sequences of these lengths; `known`: whether these are in distribution."""
    shortest, longest = lengths
    drawn = lang.sequences(SPARE * n, split="test", min_length=shortest, max_length=longest)
    return about_programs(lang, drawn, others=others, in_distribution=known)


def program(name: str, supervised: bool = False) -> Setting:
    """Models of a RASP language; out of distribution are sequences longer than any in training."""

    def has(run: RaspRun) -> bool:
        plain = not (run.ablation or run.learning_rate or run.gamma)
        return plain and (run.language.name, run.supervised) == (name, supervised)

    def another(chapter: RaspLanguages, seed: int) -> Run:
        run = chapter.run(name, supervised, seed)
        return replace(run, name=f"{run.name.removesuffix(f', seed {seed}')}, seed {seed}")

    def ask(chapter: RaspLanguages, model: nn.Module, n: int, others: bool) -> Asks:
        lang, end = chapter.lang(name), chapter.length
        parts = [program_questions(lang, n, (2, end), True, others)]
        if chapter.longest > end:
            parts.append(program_questions(lang, n, (end + 1, chapter.longest), False, others))
        return parts

    how = _tokenized(lambda chapter: chapter.lang(name).tokenizer)
    runs = lambda chapter: [*filter(has, chapter.runs())]  # noqa: E731
    title = name + ", supervised" * supervised
    return Setting(title, "rasp_languages", ask, runs=runs, another=another, **how)


def compiled_program(name: str) -> Setting:
    """A compiled model, which is right on every sequence up to its length: none is out of distribution."""

    def lang() -> Language:
        return language(name, 10, bos=True)

    def ask(chapter: None, model: nn.Module, n: int, others: bool) -> Asks:
        return [program_questions(lang(), n, (2, COMPILED_LENGTH), True, others)]

    def reader(chapter: None, seed: int) -> nn.Module:
        return compiled(lang(), COMPILED_LENGTH).model

    return Setting(
        f"{name}, compiled", None, ask, reader=reader, **_tokenized(lambda chapter: lang().tokenizer)
    )


def task(name: str, supervised: bool = False, positions: Positions = "") -> Setting:
    """Models of an algorithmic task; questions are on test texts inside and outside the training ranges."""

    def check(chapter: AlgorithmicReasoning) -> None:
        if not chapter.from_scratch or chapter.instruction or chapter.few_shot:
            raise ValueError(
                f"{name} is asked of models from scratch, without instruction and examples; got "
                f"{chapter.model}, instruction={chapter.instruction}, few_shot={chapter.few_shot}"
            )

    def runs(chapter: AlgorithmicReasoning) -> list[ReasoningRun]:
        asked = (name, supervised, positions)
        return [run for run in chapter.runs() if (run.task, run.supervised, run.positions) == asked]

    def another(chapter: AlgorithmicReasoning, seed: int) -> Run:
        run = ReasoningRun("", seed, name, supervised, positions)
        return replace(run, name=f"{run.kind}, seed {seed}")

    def ask(chapter: AlgorithmicReasoning, model: nn.Module, n: int, others: bool) -> Asks:
        parts: Asks = []
        for part in ("id", "ood"):  # repeat if there are few texts
            generator = chapter.generator(name, part, plain=True)
            once = {sample.text: sample for sample in generator.samples(SPARE * n)}.values()
            unlabelled = chapter.generator(name, part, plain=True, generate_attn_labels=False)
            pool = unlabelled.samples(others * POOL)
            rounds = [
                about_answers(generator, once, others=pool, in_distribution=part == "id", seed=seed)
                for seed in range(ROUNDS)
            ]
            parts.append(chain(*rounds))
        return parts

    title = name.removeprefix("long_").replace("_", " ") + ", supervised" * supervised
    title += f", {positions} positions" * bool(positions)
    how = _tokenized(lambda chapter: chapter.tokenizer)
    other = (("model", OWN),) if positions else ()
    return Setting(
        title, "algorithmic_reasoning", ask, runs=runs, another=another, check=check, other=other, **how
    )


def sums(title: str = "arithmetic", operators: str = "+") -> Setting:
    """Models of the arithmetic lens; questions are on test problems, all in distribution."""
    main = LensRun("", 0, operators)

    def runs(chapter: ArithmeticLens) -> list[LensRun]:
        return [
            run
            for run in chapter.runs()
            if run.operators == operators and not (run.backwards or run.sampling or run.published)
        ]

    def another(chapter: ArithmeticLens, seed: int) -> Run:
        return LensRun(f"{kind_of(operators)}, seed {seed}", seed, operators)

    def ask(chapter: ArithmeticLens, model: nn.Module, n: int, others: bool) -> Asks:
        about, test = chapter.task(main), chapter.splits(main).test
        pool = [*about.samples(test[: others * POOL])]
        return [about_answers(about, about.samples(test[: SPARE * n]), others=pool)]

    how = _tokenized(lambda chapter: chapter.task(main).tokenizer)
    return Setting(title, "arithmetic_lens", ask, runs=runs, another=another, **how)


@lru_cache(maxsize=1)
def language_model(name: str, device: str) -> tuple[Any, Any]:
    """A language model and its tokenizer, cached."""
    return load_language_model(name, device=device)


def facts() -> Setting:
    """The needle test of the chapter on generative rollout, with a pretrained language model."""

    def of(chapter: GenerativeRollout) -> tuple[Any, Any]:
        return language_model(chapter.model, chapter.device)

    def ask(chapter: GenerativeRollout, model: nn.Module, n: int, others: bool) -> Asks:
        generator, elsewhere = (
            NeedleGenerator(of(chapter)[1], seed=chapter.seed + more, facts=chapter.facts) for more in (0, 1)
        )
        pool = islice(elsewhere.generate_samples(), others * FACTS)
        return [about_facts(generator, generator.generate_samples(), others=pool)]

    return Setting(
        "needle",
        "generative_rollout",
        ask,
        lambda chapter, ids: [of(chapter)[1].decode([index]) for index in ids],
        reader=lambda chapter, seed: of(chapter)[0],
        padding=lambda chapter: of(chapter)[1].pad_token_id or 0,
    )


# ---- recurrent models: documents, sentences, copies ------------------------------------------------------


def _only(data: str, unknown: str, chapter: Any) -> None:
    if chapter.data.lower() != data:
        raise ValueError(f"in {chapter.data} nobody knows {unknown}: take data={data!r}")


def documents() -> Setting:
    """Classifiers of planted documents; out of distribution are documents of twice the length."""

    def ask(chapter: ClassificationDynamics, model: nn.Module, n: int, others: bool) -> Asks:
        known = Planting(difficulty=chapter.difficulty, confounding=chapter.confounding)
        longer = replace(known, min_words=known.max_words + 1, max_words=2 * known.max_words)
        vocabulary = chapter.corpus.vocabulary
        drawn = long_documents(vocabulary, longer, n)
        return [
            about_documents(vocabulary, chapter.corpus.test, known, others=others),
            about_documents(vocabulary, drawn, longer, others=others, in_distribution=False),
        ]

    return Setting(
        "documents",
        "classification_dynamics",
        ask,
        lambda chapter, ids: chapter.corpus.vocabulary.decode(ids),
        runs=lambda chapter: [run for run in chapter.runs() if not run.uniform],
        another=lambda chapter, seed: DynamicsRun(f"seed {seed}", seed, uniform=False),
        reader=lambda model, seed: ReadDocuments(model).eval(),
        check=partial(_only, "planted", "which words decide"),
        transformer=False,
    )


def long_documents(vocabulary: Vocabulary, planting: Planting, n: int) -> Documents:
    """Documents of another planting, encoded with a model's vocabulary."""
    drawn = planted(planting, train_documents=100, validation_documents=20, test_documents=max(20, SPARE * n))
    test = drawn.test
    assert test.relevance is not None
    rows = zip(test.labels.tolist(), test.texts, strict=True)
    found = encode(vocabulary, [Row.of(*row) for row in rows])
    return found.with_relevance(test.relevance)


def sentences() -> Setting:
    """Translators of the invented languages; out of distribution are sentences longer than in training."""

    def ask(chapter: TranslationDynamics, model: ReadSentences, n: int, others: bool) -> Asks:
        data, words = chapter.bitext, lexicon()
        longer = long_sentences(n, int(data.train.source_lengths.max()))
        return [
            about_sentences(
                model, data.subwords, pairs, words, others=pairs if others else None, in_distribution=known
            )
            for pairs, known in ((data.test, True), (longer, False))
        ]

    def called(chapter: TranslationDynamics, ids: list[int]) -> list[str]:
        subwords = chapter.bitext.subwords  # of both languages
        return subwords.tokens([index % len(subwords) for index in ids])

    return Setting(
        "translation",
        "translation_dynamics",
        ask,
        called,
        runs=lambda chapter: [run for run in chapter.runs() if not run.uniform],
        another=lambda chapter, seed: TranslationRun(f"seed {seed}", seed),
        reader=lambda model, seed: ReadSentences(model).eval(),
        check=partial(_only, "invented", "what translates what"),
        transformer=False,
    )


def long_sentences(n: int, longest: int) -> Pairs:
    """Sentences of more than `longest` source tokens, with up to twice the clauses of the training data."""
    grammar = Grammar(clauses=2 * Grammar().clauses)
    drawn = invented(grammar, train_sentences=5, validation_sentences=5, test_sentences=2 * SPARE * n).test
    return drawn[(drawn.source_lengths > longest).nonzero()[:, 0]]


def copies() -> Setting:
    """Models of the easy copying task, trained together; 1.5 times the length is out of distribution."""

    def runs(chapter: SequenceCopying) -> list[CopyRun]:
        return [run for run in chapter.runs() if getattr(run, "group", None) == chapter.easy.name]

    def ask(chapter: SequenceCopying, model: ReadCopies, n: int, others: bool) -> Asks:
        easy = chapter.easy
        longer = Copying(min(easy.length * 3 // 2, easy.symbols), easy.symbols)
        return [
            about_copies(model, each, n, others=others, in_distribution=each == easy)
            for each in (easy, longer)
        ]

    def called(chapter: SequenceCopying, ids: list[int]) -> list[str]:
        easy = chapter.easy
        # `ReadCopies` adds one id, with a zero vector, to those of the task
        found = [index % (easy.vocabulary + 1) for index in ids]
        return [str(each) if each != easy.end else "<end>" for each in found]

    return Setting(
        "copying",
        "sequence_copying",
        ask,
        called,
        runs=runs,
        reader=lambda model, seed: ReadCopies(model, seed).eval(),
        transformer=False,
    )


_EVERY = (
    *map(compiled_program, PROGRAMS),
    program("reverse"),
    program("sort"),
    program("sort", supervised=True),
    program("hist", supervised=True),
    task("long_addition"),
    task("long_multiplication"),
    task("string_reversal"),
    task("string_reversal", supervised=True),
    task("successor"),
    task("value_assignment"),
    task("flip_flop"),
    sums(),
    documents(),
    sentences(),
    copies(),
    facts(),
)

_FURTHER = (
    *map(program, ("hist", "hist2", "sort_by_freq")),
    sums("subtraction", "-"),
    *(
        task(name, positions="rotary")
        for name in ("string_reversal", "long_addition", "successor", "value_assignment", "flip_flop")
    ),
    task("string_reversal", positions="sinusoidal"),
)

FURTHER = tuple(setting.title for setting in _FURTHER)
"""Ten settings without supervised heads, chosen before any of their models was evaluated."""

SETTINGS = {setting.title: setting for setting in (*_EVERY, *_FURTHER)}
"""Name -> setting, for all models of the book with ground truth."""


def were_told(names: pd.Series) -> pd.Series:
    """Whether settings have heads that know the sources: compiled ones, or ones supervised by the loss."""
    return names.str.endswith((", compiled", ", supervised"))


def refuse_profile(profile: str, settings: Iterable[str]) -> None:
    """Refuse a profile that a chapter of these settings does not have."""
    for needed in {SETTINGS[name].needs or "*" for name in settings}:
        if profile not in (there := profiles_of(needed)):
            raise ValueError(f"models should be a profile, of {there}; got {profile!r}")
