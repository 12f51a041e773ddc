"""Sentences encoded for a Hugging Face text classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from attnlib.generators.base import IGNORE, Batch
from attnlib.generators.order import chunks
from book.chapters.flow.agreement.sentences import Sentence


@dataclass(frozen=True)
class TokenizedTask:
    """Encodes sentences with a tokenizer and its special tokens; the first token (CLS) predicts the class.

    A word may be several tokens; each token is replaced and ranked separately, as in the original.
    """

    tokenizer: Any
    at_end = False

    @property
    def replacement(self) -> int:
        """The id that replaces a token: that of the mask, or of the unknown token."""
        found = [self.tokenizer.mask_token_id, self.tokenizer.unk_token_id]
        ids = [each for each in found if each is not None]
        if not ids:
            raise ValueError(
                "the tokenizer should have a mask token, or one for what is unknown; it has none"
            )
        return int(ids[0])

    def length(self, sentence: Sentence) -> int:
        """How many tokens a model reads of a sentence."""
        return len(self._encode(sentence))

    def batch(self, sentences: Sequence[Sentence]) -> Batch:
        """Sentences as one rectangle, the class at the first token."""
        if not sentences:
            raise ValueError("there should be sentences; there are none")
        rows = [torch.tensor(self._encode(each)) for each in sentences]
        padding = self.tokenizer.pad_token_id or 0
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding)
        lengths = torch.tensor([len(row) for row in rows])
        targets = torch.full_like(ids, IGNORE)
        targets[:, 0] = torch.tensor([each.label for each in sentences])
        return Batch(ids, targets, torch.arange(ids.shape[1]) < lengths[:, None])

    def in_batches(self, sentences: Sequence[Sentence], batch_size: int = 64) -> list[Batch]:
        """Sentences in their order, some at a time."""
        return [self.batch(sentences[part]) for part in chunks(len(sentences), batch_size)]

    def known(self, batch: Batch) -> Bool[Tensor, "batch token"]:
        """Which tokens can be replaced: all but padding and special tokens."""
        special = torch.tensor(self.tokenizer.all_special_ids, device=batch.input_ids.device)
        return batch.attention_mask & ~torch.isin(batch.input_ids, special)

    def _encode(self, sentence: Sentence) -> list[int]:
        return self.tokenizer(" ".join(sentence.words))["input_ids"]
