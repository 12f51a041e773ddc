"""Pairs of sentences of different lengths, concatenated in one tensor per side, and batches of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from attnlib.checks import check
from attnlib.generators.base import Movable
from attnlib.generators.ragged import Ragged, padded, spans, starts_of
from attnlib.generators.tokenizer import PAD_ID


@dataclass(frozen=True)
class PairBatch(Movable):
    """Sentences and their translations, padded on the right into two rectangles.

    Attributes:
        source: token ids, `<bos>` first and `<eos>` last; 0 on padding.
        source_lengths: number of tokens of each source sentence, `<bos>` and `<eos>` included.
        target: token ids of the translations, in the same form.
        target_lengths: number of tokens of each translation, `<bos>` and `<eos>` included.
        rows: each pair's row in the `Pairs` it came from.
    """

    source: Int64[Tensor, "batch source"]
    source_lengths: Int64[Tensor, " batch"]
    target: Int64[Tensor, "batch written"]
    target_lengths: Int64[Tensor, " batch"]
    rows: Int64[Tensor, " batch"]

    def __len__(self) -> int:
        """How many pairs the batch holds."""
        return len(self.source)

    @property
    def inputs(self) -> dict[str, Tensor]:
        """The keyword arguments of a model's call; the target is without its last column."""
        return {"source": self.source, "lengths": self.source_lengths, "target": self.target[:, :-1]}

    @property
    def predicted(self) -> Int64[Tensor, "batch target"]:
        """The tokens to predict: all of the target but `<bos>`; 0 on padding."""
        return self.target[:, 1:]

    @property
    def real(self) -> Bool[Tensor, "batch target"]:
        """True for tokens to predict, False for padding."""
        columns = torch.arange(self.target.shape[1] - 1, device=self.target.device)
        return columns < self.target_lengths[:, None] - 1

    @property
    def pairs(self) -> Bool[Tensor, "batch target source"]:
        """True where neither the token to predict nor the source token is padding."""
        columns = torch.arange(self.source.shape[1], device=self.source.device)
        return self.real[..., None] & (columns < self.source_lengths[:, None])[:, None]

    @property
    def asked(self) -> Int64[Tensor, " asked"]:
        """Flat indices of the tokens to predict: the CPU waits for the GPU once; with a mask, at each use."""
        return self.real.flatten().nonzero()[:, 0]


@dataclass(frozen=True)
class Pairs(Ragged[PairBatch]):
    """Sentences and their translations as ragged data: the tokens of all sentences one after another.

    A *target token* is one to predict: every token of a translation but `<bos>`. Values for each pair of a
    target token and a source token (the alignment, a model's scores) are concatenated too: sentence by
    sentence, then target token by target token, then source token by source token.

    Attributes:
        source: ids of the first sentence, then of the second, ...; each from `<bos>` to `<eos>`.
        source_lengths: number of tokens of each source sentence, `<bos>` and `<eos>` included.
        target: ids of the translations, in the same form.
        target_lengths: number of tokens of each translation, `<bos>` and `<eos>` included.
        texts: each sentence and its translation as they were written, uncut.
        alignment: for each pair of tokens, whether the target token translates the source token, if known
            (see `invented`); `<eos>` translates nothing.
    """

    source: Int64[Tensor, " sources"]
    source_lengths: Int64[Tensor, " sentence"]
    target: Int64[Tensor, " targets"]
    target_lengths: Int64[Tensor, " sentence"]
    texts: tuple[tuple[str, str], ...]
    alignment: Bool[Tensor, " pairs"] | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` if the parts' sizes do not match."""
        n = len(self.texts)
        sides = ((self.source, self.source_lengths), (self.target, self.target_lengths))
        fit = all(len(lengths) == n and int(lengths.sum()) == len(side) for side, lengths in sides)
        if self.alignment is not None:
            fit = fit and len(self.alignment) == int(self.pair_counts.sum())
        demand = "pairs must have two texts and lengths each, their tokens, and an alignment of all with all"
        check(fit, demand, [n, *(len(each) for side in sides for each in side)])

    @property
    def like(self) -> Int64[Tensor, " sentence"]:
        """The sort key of each sentence: the source's length, then the target's."""
        return 1000 * self.source_lengths + self.target_lengths

    @property
    def pair_counts(self) -> Int64[Tensor, " sentence"]:
        """The number of token pairs of each sentence: target tokens times source tokens."""
        return (self.target_lengths - 1) * self.source_lengths

    @property
    def row_lengths(self) -> Int64[Tensor, " targets"]:
        """The number of source tokens for each target token, which has one ragged row of pairs."""
        return self.source_lengths.repeat_interleave(self.target_lengths - 1)

    @property
    def sentences(self) -> Int64[Tensor, " targets"]:
        """The sentence of each target token: the unit to resample for bootstrap confidence intervals."""
        return torch.arange(len(self)).repeat_interleave(self.target_lengths - 1)

    @property
    def predicted(self) -> Int64[Tensor, " targets"]:
        """The ids of all target tokens."""
        first = torch.ones(len(self.target), dtype=torch.bool)
        first[starts_of(self.target_lengths)] = False
        return self.target[first]

    @cached_property
    def source_of_pair(self) -> Int64[Tensor, " pairs"]:
        """The id of the source token of each pair."""
        return self.source[spans(starts_of(self.source_lengths)[self.sentences], self.row_lengths)]

    @cached_property
    def target_of_pair(self) -> Int64[Tensor, " pairs"]:
        """The id of the target token of each pair."""
        return self.predicted.repeat_interleave(self.row_lengths)

    def __getitem__(self, rows: Int64[Tensor, " rows"] | slice | int) -> Pairs:
        """Some of the pairs of sentences, in the order of `rows`, or a single one."""
        index = torch.arange(len(self))[rows].reshape(-1)
        taken = {}
        for side in ("source", "target"):
            lengths = getattr(self, f"{side}_lengths")
            taken[side] = getattr(self, side)[spans(starts_of(lengths)[index], lengths[index])]
            taken[f"{side}_lengths"] = lengths[index]
        texts = tuple(self.texts[row] for row in index.tolist())
        known = None if self.alignment is None else self.alignment[self.positions(index)]
        return Pairs(**taken, texts=texts, alignment=known)

    def positions(self, rows: Int64[Tensor, " rows"]) -> Int64[Tensor, " pairs"]:
        """The indices, among all pairs of tokens, of the pairs of some sentences, sentence by sentence."""
        counts = self.pair_counts
        return spans(starts_of(counts)[rows], counts[rows])

    def target_positions(self, rows: Int64[Tensor, " rows"]) -> Int64[Tensor, " targets"]:
        """The indices, among all target tokens, of the tokens of some sentences, sentence by sentence."""
        counts = self.target_lengths - 1
        return spans(starts_of(counts)[rows], counts[rows])

    def with_alignment(self, alignment: Bool[Tensor, " pairs"]) -> Pairs:
        """The same pairs, with the alignment of their tokens known."""
        return replace(self, alignment=alignment)

    # ---- batches -------------------------------------------------------------------------------------

    def batch(self, rows: Int64[Tensor, " rows"]) -> PairBatch:
        """The pairs of sentences with the given indices, padded."""
        sides = {}
        for side in ("source", "target"):
            lengths = getattr(self, f"{side}_lengths")
            sides[side] = padded(getattr(self, side), starts_of(lengths)[rows], lengths[rows], PAD_ID)
            sides[f"{side}_lengths"] = lengths[rows]
        return PairBatch(**sides, rows=rows)
