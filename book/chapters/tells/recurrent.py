"""Settings of `where_attention_tells` whose models are recurrent: documents, sentences, copies."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Int64
from torch import Tensor

from attnlib.generators.classification import Planting, planted
from attnlib.generators.classification.corpus import Row, encode
from attnlib.generators.classification.documents import Documents
from attnlib.generators.classification.vocabulary import Vocabulary
from attnlib.generators.copying import Copying
from attnlib.generators.translation import Grammar, Pairs, invented, lexicon
from attnlib.models.classifier import Classifier
from attnlib.models.seq2seq import Seq2Seq
from book.chapters.chapter import Run
from book.chapters.classification.classification_dynamics import ClassificationDynamics, DynamicsRun
from book.chapters.copying.sequence_copying import CopyRun, SequenceCopying
from book.chapters.tells.asked import about_copies, about_documents, about_sentences, gathered, some
from book.chapters.tells.setting import MOST_SEEDS, SPARE, Asked, RunPerSeed, Setting, Wanted, trained
from book.chapters.tells.single_head import ReadCopies, ReadDocuments, ReadSentences
from book.chapters.translation.translation_dynamics import TranslationDynamics, TranslationRun


@dataclass(frozen=True)
class PlantedDocuments(RunPerSeed):
    """Classifiers of planted documents; out of distribution are documents longer than in training."""

    needs = "classification_dynamics"
    transformer = False

    @property
    def title(self) -> str:
        """What is classified."""
        return "documents"

    def check(self, chapter: ClassificationDynamics) -> None:
        """Documents should be planted."""
        if chapter.data != "planted":
            raise ValueError(f"in {chapter.data} nobody knows which words decide: take data='planted'")

    def has(self, run: DynamicsRun) -> bool:
        """Whether it attends."""
        return not run.uniform

    def another(self, chapter: ClassificationDynamics, seed: int) -> Run:
        """Another seed."""
        return DynamicsRun(f"seed {seed}", seed, uniform=False)

    def ask(self, chapter: ClassificationDynamics, model: Classifier, n: int, others: bool) -> Asked:
        """About test documents, and as many of twice the length."""
        known = Planting(difficulty=chapter.difficulty, confounding=chapter.confounding)
        longer = replace(known, min_words=known.max_words + 1, max_words=2 * known.max_words)
        drawn = long_documents(chapter.corpus.vocabulary, longer, n)
        vocabulary, reader = chapter.corpus.vocabulary, ReadDocuments(model).eval()
        parts = [
            about_documents(vocabulary, chapter.corpus.test, known, others=others),
            about_documents(vocabulary, drawn, longer, others=others, in_distribution=False),
        ]
        return reader, gathered(self.title, reader, some(n, *parts))

    def words(self, p: Wanted, ids: Int64[Tensor, " token"]) -> list[str]:
        """Words."""
        return self.chapter(p).corpus.vocabulary.decode(ids.tolist())


def long_documents(vocabulary: Vocabulary, planting: Planting, n: int) -> Documents:
    """Documents of another planting, in the words that a model knows."""
    drawn = planted(planting, train_documents=100, validation_documents=20, test_documents=max(20, SPARE * n))
    test = drawn.test
    assert test.relevance is not None
    rows = zip(test.labels.tolist(), test.texts, strict=True)
    found = encode(vocabulary, [Row.of(*row) for row in rows])
    return found.with_relevance(test.relevance)


@dataclass(frozen=True)
class InventedSentences(RunPerSeed):
    """Translators of the invented languages; out of distribution are sentences longer than in training."""

    needs = "translation_dynamics"
    transformer = False

    @property
    def title(self) -> str:
        """What the models do."""
        return "translation"

    def check(self, chapter: TranslationDynamics) -> None:
        """Sentences should be invented."""
        if chapter.data.lower() != "invented":
            raise ValueError(f"in {chapter.data} nobody knows what translates what: take data='invented'")

    def has(self, run: TranslationRun) -> bool:
        """Whether it attends."""
        return not run.uniform

    def another(self, chapter: TranslationDynamics, seed: int) -> Run:
        """Another seed."""
        return TranslationRun(f"seed {seed}", seed)

    def ask(self, chapter: TranslationDynamics, model: Seq2Seq, n: int, others: bool) -> Asked:
        """About test sentences, and longer ones."""
        data, reader = chapter.bitext, ReadSentences(model).eval()
        longer = long_sentences(n, int(data.train.source_lengths.max()))
        asked = [
            about_sentences(
                reader,
                data.subwords,
                pairs,
                lexicon(),
                others=pairs if others else None,
                in_distribution=known,
            )
            for pairs, known in ((data.test, True), (longer, False))
        ]
        return reader, gathered(self.title, reader, some(n, *asked))

    def words(self, p: Wanted, ids: Int64[Tensor, " token"]) -> list[str]:
        """Words, of both languages."""
        subwords = self.chapter(p).bitext.subwords
        return subwords.tokens((ids % len(subwords)).tolist())


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

    @property
    def title(self) -> str:
        """What the models do."""
        return "copying"

    def seeds(self, p: Wanted) -> list[int]:
        """Those that the chapter trains, which are side by side in one model."""
        chapter: SequenceCopying = self.chapter(p)
        return [seed for run in self._stacks(chapter) for seed in run.seeds][:MOST_SEEDS]

    def make(self, p: Wanted, seed: int, others: bool = False) -> Asked:
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
            about_copies(reader, each, p.questions, others=others, in_distribution=each == task)
            for each in (task, longer)
        ]
        return reader, gathered(self.title, reader, some(p.questions, *parts))

    def _stacks(self, chapter: SequenceCopying) -> list[CopyRun]:
        return [run for run in chapter.runs() if getattr(run, "group", None) == chapter.easy.name]

    def words(self, p: Wanted, ids: Int64[Tensor, " token"]) -> list[str]:
        """Numbers of symbols, and the end."""
        task: Copying = self.chapter(p).easy
        # behind the ids of the task is one of `ReadCopies` that says nothing
        found = (ids % (task.vocabulary + 1)).tolist()
        return [str(each) if each != task.end else "<end>" for each in found]
