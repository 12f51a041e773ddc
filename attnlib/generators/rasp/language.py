"""A language with its alphabet, and batches of its sequences to train models on."""

from __future__ import annotations

import string
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor
from torch.nn.functional import pad

from attnlib.checks import check, check_at_least, check_one_of
from attnlib.generators.base import IGNORE, Batch, Head, Sample
from attnlib.generators.order import EpochBatches, chunks
from attnlib.generators.rasp.definitions import LANGUAGES, Definition, Symbol
from attnlib.generators.rasp.sequences import Sequences
from attnlib.generators.splits import TENTHS, in_split
from attnlib.generators.tokenizer import char_tokenizer

if TYPE_CHECKING:
    import pandas as pd
    import transformers

ALL_SYMBOLS = string.ascii_letters + string.digits + string.punctuation + string.whitespace
ALPHABET_SIZES = (10, 26, 52, 100)
"""Sizes of the paper's alphabets: the first n of letters, digits, punctuation and white space."""

LARGEST = (3, 2)
"""Layers and heads of the largest model in the paper's Table 1."""


def language(name: str | Definition, alphabet_size: int = 26, bos: bool = False) -> Language:
    """A language of the paper by its name, or one of your own by its `Definition`.

    Args:
        name: one of `LANGUAGES`, or a definition.
        alphabet_size: 10, 26, 52 or 100 symbols. The Dyck languages bring their own and ignore it.
        bos: whether sequences begin with a beginning-of-sequence token, which heads may look at.

    Example:
        >>> language("sort").outputs("cab")
        ['a', 'b', 'c']
    """
    if not isinstance(name, Definition):
        check_one_of(LANGUAGES, language=name)
    definition = name if isinstance(name, Definition) else LANGUAGES[name]
    if not definition.symbols:
        check_one_of(ALPHABET_SIZES, alphabet_size=alphabet_size)
    return Language(definition, definition.symbols or ALL_SYMBOLS[:alphabet_size], bos)


@dataclass(frozen=True)
class Language:
    """A language with its alphabet: the output at every position, target attention, and batches.

    Attributes:
        definition: the computation.
        alphabet: the input symbols.
        bos: whether sequences begin with a beginning-of-sequence token.
    """

    definition: Definition
    alphabet: str
    bos: bool = False

    @property
    def name(self) -> str:
        """What the language is called."""
        return self.definition.name

    @property
    def size(self) -> tuple[int, int]:
        """Layers and heads of the paper's model for the language.

        If the paper has none, they are those of its largest model, `LARGEST`, or more if the heads with a
        known algorithm need more.
        """
        paper = self.definition.paper_size
        if not self.bos and self.definition.size_without_bos:
            paper = self.definition.size_without_bos
        needed = [(layer + 1, head + 1) for layer, head in self.definition.heads]
        layers, heads = zip(LARGEST, *needed, strict=True)
        return paper or (max(layers), max(heads))

    @cached_property
    def classes(self) -> tuple[Symbol, ...]:
        """The output symbols; a target id is an index into them."""
        return self.definition.classes(self.alphabet)

    @cached_property
    def tokenizer(self) -> transformers.PreTrainedTokenizerFast:
        """A tokenizer with one token for each symbol of the alphabet."""
        return char_tokenizer(self.alphabet)

    @cached_property
    def _first_id(self) -> int:
        return int(self.tokenizer.convert_tokens_to_ids(self.alphabet[0]))

    # ---- one sequence that a person typed ------------------------------------------------------------

    def outputs(self, text: str) -> list[Symbol]:
        """The output symbol at each position of `text`."""
        return [self.classes[index] for index in self.definition.outputs(self.encode(text))[0]]

    def target_attention(self, text: str) -> dict[Head, Bool[Tensor, "query key"]]:
        """Where each head with a known algorithm looks; with `bos`, row and column 0 are that token."""
        return {head: mask[0] for head, mask in self._target_attention(self.encode(text)).items()}

    def annotate(self, text: str) -> Sample:
        """The sample of the sequence `text`: ids, targets and target attention."""
        batch = self.batch(self.encode(text))
        targets = {head: mask[0] for head, mask in batch.target_attention.items()}
        return Sample(text, batch.input_ids[0], batch.target_ids[0], target_attention=targets)

    def encode(self, *texts: str) -> Sequences:
        """Texts as `Sequences`; an empty text or an unknown symbol raises `ValueError`."""
        for text in texts:
            strangers = sorted(set(text) - set(self.alphabet))
            if strangers or not text:
                problem = f"{text!r} has {', '.join(map(repr, strangers))}" if text else "the text is empty"
                raise ValueError(f"{self.name} is written with the symbols {self.alphabet!r}; {problem}")
        lengths = torch.tensor([len(text) for text in texts])
        symbols = torch.full((len(texts), int(lengths.max())), len(self.alphabet))
        for row, text in zip(symbols, texts, strict=True):
            row[: len(text)] = torch.tensor([self.alphabet.index(symbol) for symbol in text])
        return Sequences(symbols, lengths, self._code_points)

    def decode(self, sequences: Sequences) -> list[str]:
        """Sequences as texts: the reverse of `encode`."""
        return [
            "".join(self.alphabet[symbol] for symbol in row[:length])
            for row, length in zip(sequences.symbols.tolist(), sequences.lengths.tolist(), strict=True)
        ]

    def peek(self, n: int = 10, seed: int = 0, max_length: int = 12) -> pd.DataFrame:
        """A table of `n` sequences and their outputs, to see what the language is.

        Args:
            n: number of sequences.
            seed: seed of the draw.
            max_length: longest length, in symbols.
        """
        import pandas as pd

        check_at_least(1, n=n)
        texts = self.decode(self.sequences(n, seed=seed, max_length=max_length))
        outputs = [" ".join(map(str, self.outputs(text))) for text in texts]
        return pd.DataFrame({"input": texts, "output": outputs})

    def exchanged(
        self,
        sequence: Sequences,
        query: int,
        places: Bool[Tensor, " position"],
        rng: np.random.Generator,
    ) -> Sequences | None:
        """A counterfactual: another symbol at `places` and, as a result, another output at `query`.

        If replacing only the places does not change the output (in sort, an equal symbol elsewhere may move
        up), all occurrences of their symbols are replaced.

        Args:
            sequence: a single sequence.
            query: the position of the output that is to change.
            places: True for the input positions that the output depends on.
            rng: draws the new symbol among those that are at none of `places`.

        Returns:
            The new sequence, or `None` if there is none.

        Example:
            >>> lang = language("reverse", alphabet_size=10)
            >>> places = torch.tensor([False, False, True])
            >>> other = lang.exchanged(lang.encode("cab"), 0, places, np.random.default_rng(0))
            >>> lang.decode(other)[0][:2], lang.outputs(lang.decode(other)[0])[0] != "b"
            ('ca', True)
        """
        (symbols,) = sequence.symbols
        gone = symbols[places].unique()
        others = torch.tensor([s for s in rng.permutation(len(self.alphabet)).tolist() if s not in gone])
        if not len(others):
            return None
        wider = torch.isin(symbols, gone) & sequence.real[0]
        tried = torch.cat([torch.where(mask, others[:, None], symbols) for mask in (places, wider)])
        every = replace(sequence, symbols=tried, lengths=sequence.lengths.expand(len(tried)))
        was = self.definition.outputs(sequence)[0, query]
        differs = (self.definition.outputs(every)[:, query] != was).nonzero()
        return every[differs[0]] if len(differs) else None

    # ---- many sequences ------------------------------------------------------------------------------

    def sequences(
        self,
        n: int,
        *,
        split: str = "train",
        seed: int = 0,
        min_length: int = 1,
        max_length: int = 100,
    ) -> Sequences:
        """Draw `n` sequences of one split; lengths are uniform, and so are symbols (not in Dyck languages).

        A sequence's own content decides its split (a tenth of all sequences each for valid and test), so
        that no sequence is ever in two, whatever the seeds and sizes. Lengths are uniform before the splits
        are separated: a split may have too many or no sequences of a length at which few exist.

        Args:
            n: number of sequences, at least 1.
            split: "train", "valid" or "test".
            seed: same seed, same sequences, on every machine.
            min_length: shortest length, in symbols.
            max_length: longest length, in symbols.
        """
        check_at_least(1, n=n, min_length=min_length)
        check_at_least(min_length, max_length=max_length)
        check_one_of(TENTHS, split=split)
        known = next(name for name in TENTHS if name == split)
        rng = np.random.default_rng([seed, list(TENTHS).index(known)])
        kept, n_kept, tries = [], 0, 0
        while n_kept < n:
            demand = f"max_length must be larger, for {n} {split} sequences of {self.name}"
            check(tries < 20, f"{demand} ({n_kept} are there)", max_length)
            n_drawn = int(1.3 * (n - n_kept) * 10 / len(TENTHS[known])) + 20
            lengths = rng.integers(min_length, max_length + 1, n_drawn)
            symbols = self.definition.sample(rng, lengths, len(self.alphabet))
            symbols = np.pad(symbols, ((0, 0), (0, max_length - symbols.shape[1])))
            symbols[np.arange(max_length) >= lengths[:, None]] = len(self.alphabet)
            rows = np.flatnonzero(in_split(symbols, lengths, known))[: n - n_kept]
            kept.append((symbols[rows], lengths[rows]))
            n_kept, tries = n_kept + len(rows), tries + 1
        symbols, lengths = (np.concatenate(parts).astype(np.int64) for parts in zip(*kept, strict=True))
        return Sequences(torch.from_numpy(symbols), torch.from_numpy(lengths), self._code_points)

    def batch(self, sequences: Sequences, target_attention: bool = True) -> Batch:
        """Ids, targets and, if requested, target attention of many sequences.

        The beginning-of-sequence token, if any, has no target. In the original, its trivial prediction counts
        as a success and raises the accuracy.
        """
        real = sequences.real
        padding = int(self.tokenizer.pad_token_id)
        input_ids = torch.where(real, sequences.symbols + self._first_id, padding)
        target_ids = torch.where(real, self.definition.outputs(sequences), IGNORE)
        if self.bos:
            input_ids = pad(input_ids, (1, 0), value=self.tokenizer.bos_token_id)
            target_ids = pad(target_ids, (1, 0), value=IGNORE)
            real = pad(real, (1, 0), value=True)
        attention = self._target_attention(sequences) if target_attention else {}
        return Batch(input_ids, target_ids, real, target_attention=attention)

    def batches(
        self, sequences: Sequences, batch_size: int, seed: int = 0, target_attention: bool = False
    ) -> EpochBatches[Batch]:
        """The batch of every training step: see `EpochBatches`."""
        return EpochBatches(
            lambda rows: self.batch(sequences[torch.from_numpy(rows)], target_attention),
            len(sequences),
            batch_size,
            seed,
        )

    def in_batches(
        self, sequences: Sequences, batch_size: int = 250, target_attention: bool = False
    ) -> list[Batch]:
        """All sequences once, in their order, in batches for evaluation."""
        parts = chunks(len(sequences), batch_size)
        return [self.batch(sequences[part], target_attention) for part in parts]

    def _target_attention(self, sequences: Sequences) -> dict[Head, Bool[Tensor, "batch query key"]]:
        if not self.definition.heads:
            return {}
        real = sequences.real
        pairs = real[:, :, None] & real[:, None, :]
        masks = {head: pattern.select(sequences) & pairs for head, pattern in self.definition.heads.items()}
        if self.bos:
            for head, mask in masks.items():  # add BOS: a row that looks at itself, and a column
                masks[head] = pad(mask, (1, 0, 1, 0))
                masks[head][:, :, 0] = self.definition.heads[head].sees_bos & pad(real, (1, 0), value=True)
                masks[head][:, 0, 0] = True
        return masks

    @cached_property
    def _code_points(self) -> Int64[Tensor, " alphabet"]:
        return torch.tensor([ord(symbol) for symbol in self.alphabet])
