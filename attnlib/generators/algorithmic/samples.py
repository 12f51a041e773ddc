"""From texts to what a model reads: single samples, padded batches, and a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from attnlib.generators.algorithmic.prompt import Layout
from attnlib.generators.algorithmic.texts import Pairs, Texts
from attnlib.generators.base import Batch, Sample


@dataclass(frozen=True)
class AlgorithmicSample(Sample):
    """A text of a task, with the question and the answer that it consists of.

    `text` is all that the tokens say, but for the special tokens around it: the task's own text, after the
    instruction and the examples if there are any, or the whole chat.

    Attributes:
        prompt: the question: the task's own text up to where the answer begins.
        answer: the rest of the task's own text.
        n_prompt: tokens before the answer's first; the last of them is the query that predicts it.
    """

    prompt: str = ""
    answer: str = ""
    n_prompt: int = 0


@dataclass(frozen=True)
class Laid:
    """Texts of a task with all that stands around them, as tokens; every row is padded on the right.

    Attributes:
        tokens: of the whole texts; a model reads all but the last, and predicts all but the first.
        sizes: how many tokens a model reads of each text.
        n_prompts: tokens before the answer's first.
        n_head: tokens before the question's first.
        query: the token at which a pair's query stands; likewise `key`, and `text`, the row of both.
    """

    tokens: np.ndarray
    sizes: np.ndarray
    n_prompts: np.ndarray
    n_head: int
    text: np.ndarray
    query: np.ndarray
    key: np.ndarray


def lay(texts: Texts, pairs: Pairs | None, ids: np.ndarray, layout: Layout, padding: int) -> Laid:
    """Put the parts around the texts, and move the reference's pairs to where their characters are now."""
    n_head, n_middle, n_tail = len(layout.head_ids), len(layout.middle_ids), len(layout.tail_ids)
    totals = n_head + n_middle + n_tail + texts.lengths
    tokens = np.full((len(texts), int(totals.max(initial=0))), padding, dtype=np.int64)
    rows = np.arange(len(texts))[:, None]
    character = np.arange(texts.symbols.shape[1])
    column = n_head + character + n_middle * (character >= texts.prompts[:, None])
    where = np.nonzero(texts.real)
    tokens[where[0], column[where]] = ids[texts.symbols[where]]
    tokens[:, :n_head] = layout.head_ids
    tokens[rows, n_head + texts.prompts[:, None] + np.arange(n_middle)] = layout.middle_ids
    tokens[rows, totals[:, None] - n_tail + np.arange(n_tail)] = layout.tail_ids
    text, query, key = pairs if pairs is not None else (np.zeros(0, np.int64),) * 3
    prompts = texts.prompts[text]
    return Laid(
        tokens,
        totals - 1,
        n_head + n_middle + texts.prompts,
        n_head,
        text,
        n_head
        + query
        + n_middle * (query >= prompts - 1),  # the prompt's last query is the middle's last token
        n_head + key + n_middle * (key >= prompts),
    )


def targets_of(laid: Laid, ignore_index: int) -> np.ndarray:
    """What to predict at every token: the next, from the one before the answer to the last."""
    position = np.arange(laid.tokens.shape[1] - 1)
    asked = (position >= laid.n_prompts[:, None] - 1) & (position < laid.sizes[:, None])
    return np.where(asked, laid.tokens[:, 1:], ignore_index)


def single_samples(
    texts: Sequence[tuple[str, str, str]], laid: Laid, ignore_index: int, labels: Labels | None
) -> list[AlgorithmicSample]:
    """Samples one by one; each is a view of what they were made in."""
    real = np.arange(laid.tokens.shape[1] - 1) < laid.sizes[:, None]
    sizes = laid.sizes.tolist()
    inputs = torch.from_numpy(laid.tokens[:, :-1][real]).split(sizes)
    targets = torch.from_numpy(targets_of(laid, ignore_index)[real]).split(sizes)
    nothing: list[tuple[Tensor | None, Tensor | None]] = [(None, None)] * len(sizes)
    masks = labels.single(laid) if labels is not None else nothing
    n_prompts = laid.n_prompts.tolist()
    return [
        AlgorithmicSample(
            text=text,
            input_ids=inputs[i],
            target_ids=targets[i],
            reference=masks[i][0],
            evaluated=masks[i][1],
            prompt=prompt,
            answer=answer,
            n_prompt=n_prompts[i],
        )
        for i, (text, prompt, answer) in enumerate(texts)
    ]


@dataclass(frozen=True)
class Labels:
    """How the reference's pairs become masks.

    Attributes:
        early_rows: evaluated rows that come before the first that predicts an answer.
        skipped_keys: of the question's characters, so many are not evaluated, unless they are reference keys.
    """

    early_rows: int = 0
    skipped_keys: int = 0

    def single(self, laid: Laid) -> list[tuple[Tensor, Tensor]]:
        """Reference and evaluated, [token token] each, of one text after the other."""
        areas = laid.sizes.astype(np.int64) ** 2
        starts = np.cumsum(areas) - areas
        reference = np.zeros(int(areas.sum()), dtype=bool)
        reference[starts[laid.text] + laid.query * laid.sizes[laid.text] + laid.key] = True
        evaluated = np.zeros_like(reference)
        first = (laid.n_prompts - 1 - self.early_rows) * laid.sizes
        for start, begin, end in zip(
            starts.tolist(), (starts + first).tolist(), (starts + areas).tolist(), strict=True
        ):
            evaluated[max(start, begin) : end] = True
        row_starts = np.repeat(starts, laid.sizes) + _counting(laid.sizes) * np.repeat(laid.sizes, laid.sizes)
        for key in range(laid.n_head + self.skipped_keys):
            evaluated[row_starts + key] = False
        if self.skipped_keys:
            evaluated |= reference
        sizes, split = laid.sizes.tolist(), areas.tolist()
        both = zip(
            torch.from_numpy(reference).split(split), torch.from_numpy(evaluated).split(split), strict=True
        )
        return [(one.view(n, n), other.view(n, n)) for n, (one, other) in zip(sizes, both, strict=True)]

    def padded(self, laid: Laid) -> tuple[Tensor, Tensor]:
        """Reference and evaluated of all texts, [batch token token] each, False on padding."""
        n = laid.tokens.shape[1] - 1
        reference = np.zeros((len(laid.sizes), n, n), dtype=bool)
        reference[laid.text, laid.query, laid.key] = True
        position, size = np.arange(n), laid.sizes[:, None]
        rows = (position >= laid.n_prompts[:, None] - 1 - self.early_rows) & (position < size)
        keys = (position >= laid.n_head + self.skipped_keys) & (position < size)
        evaluated = rows[:, :, None] & keys[:, None, :]
        if self.skipped_keys:
            evaluated |= reference
        return torch.from_numpy(reference), torch.from_numpy(evaluated)


def _counting(sizes: np.ndarray) -> np.ndarray:
    """0, 1, ..., n - 1 for each size n, one after the other."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def padded_batch(laid: Laid, padding: int, ignore_index: int, labels: Labels | None) -> Batch:
    """All texts as one batch."""
    real = np.arange(laid.tokens.shape[1] - 1) < laid.sizes[:, None]
    reference, evaluated = labels.padded(laid) if labels is not None else (None, None)
    return Batch(
        torch.from_numpy(np.where(real, laid.tokens[:, :-1], padding)),
        torch.from_numpy(targets_of(laid, ignore_index)),
        torch.from_numpy(real),
        reference,
        evaluated,
    )


def collated(samples: Sequence[Sample], padding: int, ignore_index: int) -> Batch:
    """Samples that exist one by one, as one batch."""
    sizes = torch.tensor([len(sample.input_ids) for sample in samples])
    shape = (len(samples), int(sizes.max()))
    input_ids, target_ids = torch.full(shape, padding), torch.full(shape, ignore_index)
    labelled = all(sample.reference is not None and sample.evaluated is not None for sample in samples)
    masks = torch.zeros((2, *shape, shape[1]) if labelled else (0, 0, 0, 0), dtype=torch.bool)
    for row, sample in enumerate(samples):
        n = len(sample.input_ids)
        input_ids[row, :n], target_ids[row, :n] = sample.input_ids, sample.target_ids
        if labelled:
            masks[0, row, :n, :n], masks[1, row, :n, :n] = sample.reference, sample.evaluated
    real = torch.arange(shape[1]) < sizes[:, None]
    return Batch(input_ids, target_ids, real, *(masks if labelled else (None, None)))


class PaddedSamples(Dataset):
    """Samples padded to one length: what a `DataLoader` takes.

    An item is a dictionary with `texts` (a string), `input_ids`, `target_ids`, `attention_mask` and, if the
    samples have a reference, `reference`, `evaluated`, and both together under the original's name and in its
    form: `attn_labels`, 1 for reference keys, 0 for other evaluated ones, `ignore_index` elsewhere.

    Attributes:
        texts: of the samples.
        batch: all of them.
        ignore_index: what `attn_labels` are where nothing is evaluated.
    """

    def __init__(self, texts: list[str], batch: Batch, ignore_index: int) -> None:
        self.texts, self.batch, self.ignore_index = texts, batch, ignore_index

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.texts)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One sample, padded."""
        batch = self.batch
        item = {
            "texts": self.texts[index],
            "input_ids": batch.input_ids[index],
            "target_ids": batch.target_ids[index],
            "attention_mask": batch.attention_mask[index],
        }
        if batch.reference is None or batch.evaluated is None:
            return item
        reference, evaluated = batch.reference[index], batch.evaluated[index]
        labels = reference.int().masked_fill(~evaluated, self.ignore_index)
        return item | {"reference": reference, "evaluated": evaluated, "attn_labels": labels}
