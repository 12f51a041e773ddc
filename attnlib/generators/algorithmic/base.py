"""The base class of the six tasks: drawing texts, splits, tokens, reference attention, batches."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from attnlib.checks import check, check_at_least, check_seed
from attnlib.generators.algorithmic.prompt import character_ids, layout
from attnlib.generators.algorithmic.samples import (
    AlgorithmicSample,
    Labels,
    Laid,
    PaddedSamples,
    collated,
    lay,
    padded_batch,
    single_samples,
)
from attnlib.generators.algorithmic.texts import DIGITS, Pairs, Texts, joined
from attnlib.generators.base import IGNORE, Batch, Sample
from attnlib.generators.exchange import exchanged_text, with_others
from attnlib.generators.order import chunks
from attnlib.generators.splits import in_split, known_split

CHUNK = 256
"""The number of samples that are drawn at a time. Changing it changes the random sequence."""

LONGEST = 2**15
"""The largest number of characters in a text: four times what the book's language model reads."""

CELLS = 2**24
"""The largest number of mask cells made at a time (unless a single sample has more), to bound memory."""


class TooFewTexts(ValueError):
    """A generator's settings allow hardly any text of its split."""


class AlgorithmicGenerator(ABC):
    """Base class: texts of a task whose answer an algorithm computes, with the keys this algorithm needs.

    Tokens are `head` + prompt + `middle` + answer + `tail`. `head` holds the beginning-of-sequence token (if
    the tokenizer has one), the instruction and the examples; `middle` is empty; `tail` is the end-of-sequence
    token (if `ENDS`). In a chat, the tokenizer's template replaces both special tokens and fills `middle`.
    `input_ids` are all tokens but the last; `target_ids` are all but the first, `IGNORE` before the answer.

    The task's texts are encoded character by character, as in the original, with any Hugging Face tokenizer
    that has a token for each character of the task's alphabet (else `ValueError`), without the mark that
    SentencePiece puts in front of every text. Everything around them is encoded as ordinary text.

    `reference` is True from the query that predicts a character (the token before it) to the keys that the
    task's algorithm needs for it; each task's docstring says which. A row for which the algorithm needs no
    key (a separator, the end) is False. `evaluated` is True in all rows from the one that predicts the
    answer's first token, and in all columns from the question's first token.

    With the same settings, sample *i* depends on `seed` and *i* only, in any process.

    Args:
        tokenizer: any Hugging Face tokenizer with a token for every character that the task needs.
        seed: seed of the random sequence of samples.
        instruction: what to do, in words; the task's own by default.
        few_shot_prompt: texts before and after the examples.
        few_shot_samples: example texts of the task; by default the task's own. A new line follows each.
        use_instruction: whether samples include the instruction.
        use_few_shot: whether samples include the examples.
        apply_chat_template: whether samples are chats of a user's message and a reply.
        ignore_index: the target where nothing is to be predicted; this library's losses support only -100.
        generate_attn_labels: whether samples have a reference.
        as_published: label as the study's code did, errors included, to compare with its figures.
        enlarged: whether the reference includes keys that the answer depends on but that the study leaves
            out. This makes a difference in tasks with `ENLARGES` only; their docstrings explain it.
        split: "train", "valid" or "test", for texts of that split only; the task's own text decides (sums of
            the same numbers in another order are in the same split). `None` for all.

    Attributes:
        longest: an upper bound of a text's number of characters under these settings.

    Source: Spiegel, Štefánik, Kadlčík and Kuchař 2025, *Attend or Perish*, section 3.
    """

    NAME: ClassVar[str]
    """What the task is called, in words."""
    INSTRUCTION: ClassVar[str]
    """What to do, in words."""
    FEW_SHOT_PROMPT: ClassVar[tuple[str, str]] = (
        "\nSome examples:\n",
        "\nSolve the next one in the same way:\n",
    )
    """Texts before and after the examples."""
    ENDS: ClassVar[bool] = True
    """Whether the model is to predict that the answer ends."""
    ENLARGES: ClassVar[bool] = False
    """Whether the study's reference lacks keys that the answer depends on."""

    def __init__(
        self,
        alphabet: str,
        longest: int,
        *,
        tokenizer: Any,
        seed: int = 0,
        instruction: str | None = None,
        few_shot_prompt: Sequence[str] | None = None,
        few_shot_samples: Sequence[str] | None = None,
        use_instruction: bool = False,
        use_few_shot: bool = False,
        apply_chat_template: bool = False,
        ignore_index: int = IGNORE,
        generate_attn_labels: bool = True,
        as_published: bool = False,
        enlarged: bool = False,
        split: str | None = None,
    ) -> None:
        check_seed(seed)
        check(longest <= LONGEST, f"length must allow at most {LONGEST:,} characters a text", longest)
        self.alphabet, self.longest, self.tokenizer, self.seed = alphabet, longest, tokenizer, int(seed)
        self.split = known_split(split)
        check(not (enlarged and as_published), "enlarged must be False with as_published", enlarged)
        self.generate_attn_labels = generate_attn_labels
        self.as_published, self.enlarged = as_published, enlarged
        self.ignore_index = ignore_index
        self._ids = np.array(character_ids(tokenizer, alphabet), dtype=np.int64)
        self._code_points = np.array([ord(character) for character in alphabet], dtype=np.uint32)
        padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        self._padding = 0 if padding is None else int(padding)
        pieces = []
        if use_instruction:
            pieces = [(self.INSTRUCTION if instruction is None else instruction, False)]
        if use_few_shot:
            opening, closing = self.FEW_SHOT_PROMPT if few_shot_prompt is None else few_shot_prompt
            check(not isinstance(few_shot_samples, str), "few_shot_samples must be a list", few_shot_samples)
            examples = self._examples() if few_shot_samples is None else few_shot_samples
            shown = [piece for text in examples for piece in ((text, True), ("\n", False))]
            pieces += [(opening, False), *shown, (closing, False)]
        self._layout = layout(tokenizer, pieces, apply_chat_template, self.ENDS)
        self._labels = self._published_labels() if as_published else Labels()
        self._latest: tuple[int, Texts] | None = None

    @property
    def cache_key(self) -> dict[str, Any]:
        """All settings that determine the batches; the token ids stand for the tokenizer."""
        return {name: value for name, value in vars(self).items() if name not in ("tokenizer", "_latest")}

    # ---- what a task defines --------------------------------------------------------------------------

    @abstractmethod
    def _draw(self, rng: np.random.Generator, n: int) -> Texts:
        """`n` random texts."""

    @abstractmethod
    def _read(self, text: str) -> Texts:
        """The question of `text` with its right answer; `ValueError` if it is not a question of the task."""

    @abstractmethod
    def _pairs(self, texts: Texts) -> Pairs:
        """The reference of all texts, as positions of characters."""

    @abstractmethod
    def _examples(self) -> list[str]:
        """Example texts for few-shot prompts and error messages, in the form that the settings require."""

    def _in_order(self, texts: Texts) -> Texts:
        """The texts whose content decides the split: the same for questions that differ only in order."""
        return texts

    def _published_labels(self) -> Labels:
        """The differences of the study's evaluated masks, for `as_published`."""
        return Labels()

    def _unlike(self, text: str, more: str = "") -> ValueError:
        """The error for a text that is not of the task."""
        return ValueError(f"a text of {self.NAME} is like {self._examples()[0]!r}{more}; got {text!r}")

    def _redrawn(self, text: str, keys: Sequence[int], rng: np.random.Generator) -> str | None:
        """The text with other characters (here digits) at `keys` and a stale answer."""
        return with_others(text, dict.fromkeys(keys, DIGITS), rng)

    # ---- samples --------------------------------------------------------------------------------------

    def generate_samples(self) -> Iterator[AlgorithmicSample]:
        """An endless stream of samples; each call starts again with the first."""
        for chunk in itertools.count():
            yield from self._samples(self._chunk(chunk))

    def samples(self, n: int, start: int = 0) -> list[AlgorithmicSample]:
        """`n` samples, from sample `start` on."""
        return [sample for part in self._parts(start, start + n) for sample in self._samples(part)]

    def annotate(self, text: str) -> AlgorithmicSample:
        """The sample of a text of the task that a person typed, without instruction, examples or chat.

        The generator's limits of length do not apply here; its settings of the written form do.

        Raises:
            ValueError: the text is not of the task, or its answer is wrong.
        """
        texts = self._read(text)
        right = self._strings(texts)[0]
        if right != text:
            raise ValueError(f"{text!r} is not right: a text of {self.NAME} that asks this is {right!r}")
        return next(self._samples(texts))

    def exchanged(
        self, text: str, place: int, keys: Sequence[int], rng: np.random.Generator
    ) -> AlgorithmicSample | None:
        """A counterfactual: a text of the same length with other characters at `keys` and at `place`.

        The rest of the answer becomes that of the new question. Some tasks must change more than `keys`: a
        series needs another first number, and a table's symbol is replaced in the string too.

        Args:
            text: a right text of the task, without instruction, examples or chat.
            place: index of the character of the answer that is to change.
            keys: indices of the characters that the task's algorithm needs for it.
            rng: draws the new characters.

        Returns:
            `None` if there is no such text, or none was found.

        Example:
            >>> from attnlib.generators import StringReversalGenerator, char_tokenizer
            >>> generator = StringReversalGenerator(tokenizer=char_tokenizer(), charset="ab")
            >>> generator.exchanged("abb=bba", 4, [2], np.random.default_rng(0)).text
            'aba=aba'
        """

        def right(drawn: str) -> str:
            return self._strings(self._read(drawn))[0]

        found = exchanged_text(text, place, keys, rng, self._redrawn, right)
        return None if found is None else self.annotate(found)

    def generate_dataset(
        self, samples: Iterable[Sample], pad_token: int | None = None, ignore_index: int | None = None
    ) -> PaddedSamples:
        """Samples as a data set of dictionaries, padded to the longest.

        Args:
            samples: the samples, at least one.
            pad_token: the id of padding; the tokenizer's own by default.
            ignore_index: the target of padding and wherever else nothing is to be predicted; this generator's
                own by default.
        """
        samples = list(samples)
        padding = self._padding if pad_token is None else pad_token
        ignored = self.ignore_index if ignore_index is None else ignore_index
        batch = collated(samples, padding, self.ignore_index)
        targets = batch.target_ids.masked_fill(batch.target_ids == self.ignore_index, ignored)
        return PaddedSamples([sample.text for sample in samples], replace(batch, target_ids=targets), ignored)

    # ---- batches --------------------------------------------------------------------------------------

    def batch(self, samples: Sequence[Sample]) -> Batch:
        """Samples as one batch; with a reference if all of them have one."""
        return collated(samples, self._padding, self.ignore_index)

    def batches(self, batch_size: int, reference: bool = False) -> Callable[[int], Batch]:
        """The batch of every training step: step *s* has the samples from *s* × `batch_size` on.

        Args:
            batch_size: number of samples per batch.
            reference: whether batches have `reference` and `evaluated`, which training does not need.
        """
        check_at_least(1, batch_size=batch_size)

        def batch_at(step: int) -> Batch:
            texts = joined(list(self._parts(step * batch_size, (step + 1) * batch_size)))
            laid, labels = self._laid(texts, reference)
            return padded_batch(laid, self._padding, self.ignore_index, labels)

        return batch_at

    def in_batches(self, samples: Iterable[Sample], size: int = 64) -> list[Batch]:
        """All samples once, in their order, in batches for evaluation."""
        samples = list(samples)
        return [self.batch(samples[part]) for part in chunks(len(samples), size)]

    # ---- from random numbers to texts, and on to samples -----------------------------------------------

    def _parts(self, start: int, end: int) -> Iterator[Texts]:
        """The texts of samples `start` to `end` - 1, in parts."""
        for chunk in range(start // CHUNK, -(-end // CHUNK)):
            first = chunk * CHUNK
            yield self._chunk(chunk)[slice(max(start - first, 0), end - first)]

    def _chunk(self, chunk: int) -> Texts:
        """The `CHUNK` texts from sample `chunk` * `CHUNK` on; the latest chunk is cached."""
        if self._latest is None or self._latest[0] != chunk:
            self._latest = chunk, self._drawn(chunk)
        return self._latest[1]

    def _drawn(self, chunk: int) -> Texts:
        rng = np.random.default_rng([self.seed, chunk])
        if self.split is None:
            return self._draw(rng, CHUNK)
        kept: list[Texts] = []
        missing, tries = CHUNK, 0
        while missing:
            texts = self._draw(rng, 2 * CHUNK)
            ordered = self._in_order(texts)
            points = self._code_points[ordered.symbols].astype(np.int64)
            rows = np.flatnonzero(in_split(points, ordered.lengths, self.split))[:missing]
            kept.append(texts[rows])
            missing, tries = missing - len(rows), tries + 1
            if missing and tries == 100:
                raise TooFewTexts(
                    f"hardly any text of {self.NAME} that these settings allow is a {self.split} text: found "
                    f"{CHUNK - missing} among {tries * 2 * CHUNK}; allow more texts, or ask with split=None"
                )
        return joined(kept)

    def _strings(self, texts: Texts) -> list[str]:
        points = np.where(texts.real, self._code_points[texts.symbols], 0).astype(np.uint32)
        return np.ascontiguousarray(points).view(f"<U{points.shape[1]}")[:, 0].tolist()

    def _samples(self, texts: Texts) -> Iterator[AlgorithmicSample]:
        """The samples of the texts, made in parts as large as `CELLS` allows."""
        longest = (
            int(texts.lengths.max(initial=0)) + len(self._layout.head_ids) + len(self._layout.middle_ids)
        )
        at_once = max(1, CELLS // (longest + len(self._layout.tail_ids)) ** 2)
        for start in range(0, len(texts), at_once):
            yield from self._some_samples(texts[slice(start, start + at_once)])

    def _some_samples(self, texts: Texts) -> list[AlgorithmicSample]:
        head, middle, tail = self._layout.head, self._layout.middle, self._layout.tail
        ends = zip(self._strings(texts), texts.prompts.tolist(), strict=True)
        parts = [(text[:end], text[end:]) for text, end in ends]
        said = [(head + prompt + middle + answer + tail, prompt, answer) for prompt, answer in parts]
        laid, labels = self._laid(texts, True)
        return single_samples(said, laid, self.ignore_index, labels)

    def _laid(self, texts: Texts, reference: bool) -> tuple[Laid, Labels | None]:
        """Texts with everything around them as tokens and, if requested, how to make their masks."""
        labels = self._labels if reference and self.generate_attn_labels else None
        pairs = None if labels is None else self._pairs(texts)
        return lay(texts, pairs, self._ids, self._layout, self._padding), labels
