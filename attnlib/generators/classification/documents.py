"""Documents of different lengths, concatenated in one tensor, and batches of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor

from attnlib.checks import check
from attnlib.generators.base import Movable
from attnlib.generators.classification.vocabulary import split_words
from attnlib.generators.ragged import Ragged, padded, spans, starts_of
from attnlib.generators.tokenizer import BOS, EOS, PAD_ID


@dataclass(frozen=True)
class DocumentBatch(Movable):
    """Documents padded on the right into a rectangle.

    Attributes:
        input_ids: word ids; 0, the id of `<pad>`, on padding.
        lengths: words of each document, `<bos>` and `<eos>` among them.
        labels: class of each document, 0 or 1.
        rows: each document's row in the `Documents` it came from.
    """

    input_ids: Int64[Tensor, "batch token"]
    lengths: Int64[Tensor, " batch"]
    labels: Int64[Tensor, " batch"]
    rows: Int64[Tensor, " batch"]

    def __len__(self) -> int:
        """How many documents the batch holds."""
        return len(self.input_ids)

    @property
    def attention_mask(self) -> Bool[Tensor, "batch token"]:
        """True for words, False for padding."""
        return torch.arange(self.input_ids.shape[1], device=self.lengths.device) < self.lengths[:, None]

    @property
    def inputs(self) -> dict[str, Tensor]:
        """The keyword arguments of a model's call: `model(**batch.inputs)`."""
        return {"input_ids": self.input_ids, "lengths": self.lengths}


@dataclass(frozen=True)
class Documents(Ragged[DocumentBatch]):
    """Labelled documents as ragged data: the words of all documents one after another.

    Attributes:
        tokens: word ids of the first document, then of the second, ...
        lengths: words of each document, `<bos>` and `<eos>` among them.
        labels: class of each document, 0 or 1.
        texts: each document as it was written, uncut.
        relevance: ground truth of each token's evidence for class 1, if known (see `planted`).
    """

    tokens: Int64[Tensor, " total"]
    lengths: Int64[Tensor, " document"]
    labels: Int64[Tensor, " document"]
    texts: tuple[str, ...]
    relevance: Float[Tensor, " total"] | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` if the parts' sizes do not match."""
        counts = [len(self.lengths), len(self.labels), len(self.texts)]
        fits = len({*counts}) == 1 and int(self.lengths.sum()) == len(self.tokens)
        check(fits, "documents must have a length, a label and a text each, and their tokens", counts)

    @property
    def like(self) -> Int64[Tensor, " document"]:
        """The sort key of each document: its length."""
        return self.lengths

    @cached_property
    def offsets(self) -> Int64[Tensor, " document"]:
        """Where each document begins in `tokens`."""
        return starts_of(self.lengths)

    def __getitem__(self, rows: Int64[Tensor, " rows"] | slice | int) -> Documents:
        """Some of the documents, in the order of `rows`, or a single one."""
        index = torch.arange(len(self))[rows].reshape(-1)
        where = self.positions(index)
        return Documents(
            self.tokens[where],
            self.lengths[index],
            self.labels[index],
            tuple(self.texts[row] for row in index.tolist()),
            None if self.relevance is None else self.relevance[where],
        )

    def positions(self, rows: Int64[Tensor, " rows"]) -> Int64[Tensor, " total"]:
        """The indices in `tokens` of all words of some documents, document by document."""
        return spans(self.offsets[rows], self.lengths[rows])

    def words(self, row: int) -> list[str]:
        """The words of one document as they were written (lower case), between `<bos>` and `<eos>`."""
        return [BOS, *split_words(self.texts[row])[: int(self.lengths[row]) - 2], EOS]

    def toward_label(self, values: Shaped[Tensor, " total"]) -> Shaped[Tensor, " total"]:
        r"""$(2y - 1) v$: each token's evidence $v$ for class 1 as evidence for its document's label $y$."""
        return values * (2 * self.labels - 1).repeat_interleave(self.lengths)

    # ---- batches -------------------------------------------------------------------------------------

    def batch(self, rows: Int64[Tensor, " rows"]) -> DocumentBatch:
        """The documents with the given indices, padded."""
        lengths = self.lengths[rows]
        ids = padded(self.tokens, self.offsets[rows], lengths, PAD_ID)
        return DocumentBatch(ids, lengths, self.labels[rows], rows)

    def with_relevance(self, relevance: Float[Tensor, " total"]) -> Documents:
        """The same documents, with the relevance of each token known."""
        return replace(self, relevance=relevance)
