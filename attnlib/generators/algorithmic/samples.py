"""From texts to a model's input: tokens, reference masks, samples, batches, a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from attnlib.checks import check_some
from attnlib.generators.algorithmic.prompt import Layout
from attnlib.generators.algorithmic.texts import Pairs, Texts
from attnlib.generators.base import Batch, Sample


@dataclass(frozen=True)
class Laid:
    """Texts and everything around them as tokens; rows are padded on the right.

    Attributes:
        tokens: all tokens of each text; a model reads all but the last.
        sizes: how many tokens a model reads of each text.
        n_prompts: number of tokens before the answer's first.
        n_head: number of tokens before the question's first.
        text: the row of each query-key pair of the reference.
        query: the index of each pair's query in that row.
        key: the index of each pair's key in that row.
    """

    tokens: np.ndarray
    sizes: np.ndarray
    n_prompts: np.ndarray
    n_head: int
    text: np.ndarray
    query: np.ndarray
    key: np.ndarray

    @property
    def real(self) -> np.ndarray:
        """[text token]: True for tokens that a model reads, False for padding."""
        return np.arange(self.tokens.shape[1] - 1) < self.sizes[:, None]

    def targets(self, ignore_index: int) -> np.ndarray:
        """[text token]: the next token where it belongs to answer or tail, `ignore_index` elsewhere."""
        position = np.arange(self.tokens.shape[1] - 1)
        asked = (position >= self.n_prompts[:, None] - 1) & self.real
        return np.where(asked, self.tokens[:, 1:], ignore_index)


def lay(texts: Texts, pairs: Pairs | None, ids: np.ndarray, layout: Layout, padding: int) -> Laid:
    """Put the parts around the texts, and shift the reference's pairs to the new positions."""
    n_head, n_middle, n_tail = len(layout.head_ids), len(layout.middle_ids), len(layout.tail_ids)
    totals = n_head + n_middle + n_tail + texts.lengths
    tokens = np.full((len(texts), int(totals.max(initial=0))), padding, dtype=np.int64)
    rows = np.arange(len(texts))[:, None]
    character = np.arange(texts.symbols.shape[1])
    column = n_head + character + n_middle * (character >= texts.prompts[:, None])
    text, position = np.nonzero(texts.real)
    tokens[text, column[text, position]] = ids[texts.symbols[text, position]]
    tokens[:, :n_head] = layout.head_ids
    tokens[rows, n_head + texts.prompts[:, None] + np.arange(n_middle)] = layout.middle_ids
    tokens[rows, totals[:, None] - n_tail + np.arange(n_tail)] = layout.tail_ids
    row, query, key = pairs if pairs is not None else (np.zeros(0, np.int64),) * 3
    prompts = texts.prompts[row]
    # With a middle, its last token, not the prompt's last character, predicts the answer's first token.
    query, key = query + n_middle * (query >= prompts - 1), key + n_middle * (key >= prompts)
    return Laid(
        tokens, totals - 1, n_head + n_middle + texts.prompts, n_head, row, n_head + query, n_head + key
    )


@dataclass(frozen=True)
class Labels:
    """How pairs become masks. The defaults are right; other values reproduce the study's labels.

    Attributes:
        early_rows: number of rows evaluated before the first that predicts an answer's token.
        skipped_keys: number of the question's first characters that are evaluated only as reference keys.
    """

    early_rows: int = 0
    skipped_keys: int = 0

    def single(self, laid: Laid) -> list[tuple[Tensor, Tensor]]:
        """Reference and evaluated, [token token] each, of one text after the other."""
        areas = laid.sizes**2
        starts = np.cumsum(areas) - areas
        reference = np.zeros(int(areas.sum()), dtype=bool)
        reference[starts[laid.text] + laid.query * laid.sizes[laid.text] + laid.key] = True
        first = laid.n_prompts - 1 - self.early_rows
        high, wide = int(first.max()), int(laid.sizes.max())
        # The evaluated mask of each text is a window of one mask, whose first evaluated row is `high`.
        # Separate masks would take as much memory and time as the reference.
        corner = torch.zeros(high + wide, wide, dtype=torch.bool)
        corner[high:, laid.n_head + self.skipped_keys :] = True
        masks, windows = [], dict[tuple[int, int], Tensor]()  # many texts have the same window
        flat = torch.from_numpy(reference).split(areas.tolist())
        for one, n, rows in zip(flat, laid.sizes.tolist(), first.tolist(), strict=True):
            mask = one.view(n, n)
            if (n, rows) not in windows:
                windows[n, rows] = corner.as_strided((n, n), (wide, 1), (high - rows) * wide)
            evaluated = windows[n, rows]
            masks.append((mask, evaluated | mask if self.skipped_keys else evaluated))
        return masks

    def padded(self, laid: Laid) -> tuple[Tensor, Tensor]:
        """Reference and evaluated of all texts, [batch token token] each, False on padding."""
        position = np.arange(laid.real.shape[1])
        reference = np.zeros((*laid.real.shape, len(position)), dtype=bool)
        reference[laid.text, laid.query, laid.key] = True
        rows = (position >= laid.n_prompts[:, None] - 1 - self.early_rows) & laid.real
        keys = (position >= laid.n_head + self.skipped_keys) & laid.real
        evaluated = rows[:, :, None] & keys[:, None, :]
        if self.skipped_keys:
            evaluated |= reference
        return torch.from_numpy(reference), torch.from_numpy(evaluated)


@dataclass(frozen=True)
class AlgorithmicSample(Sample):
    """A text of a task, with its question and its answer.

    `text` is the text of all tokens, without the special tokens around it: the task's own text after
    instruction and examples, if any; or the whole chat.

    `evaluated` is a view of a mask that many samples share: copy it before you change it.

    Attributes:
        prompt: the question: the task's own text up to where the answer begins.
        answer: the rest of the task's own text.
        n_prompt: number of tokens before the answer's first; the last of them is the query that predicts it.
    """

    prompt: str = ""
    answer: str = ""
    n_prompt: int = 0


def single_samples(
    texts: Sequence[tuple[str, str, str]], laid: Laid, ignore_index: int, labels: Labels | None
) -> list[AlgorithmicSample]:
    """One sample per text; their tensors are views of shared ones."""
    sizes = laid.sizes.tolist()
    inputs = torch.from_numpy(laid.tokens[:, :-1][laid.real]).split(sizes)
    targets = torch.from_numpy(laid.targets(ignore_index)[laid.real]).split(sizes)
    masks = labels.single(laid) if labels is not None else [(None, None)] * len(sizes)
    parts = zip(texts, inputs, targets, masks, laid.n_prompts.tolist(), strict=True)
    return [
        AlgorithmicSample(text, ids, wanted, *both, prompt=prompt, answer=answer, n_prompt=n_prompt)
        for (text, prompt, answer), ids, wanted, both, n_prompt in parts
    ]


def padded_batch(laid: Laid, padding: int, ignore_index: int, labels: Labels | None) -> Batch:
    """All texts as one batch."""
    input_ids = torch.from_numpy(np.where(laid.real, laid.tokens[:, :-1], padding))
    masks = labels.padded(laid) if labels is not None else (None, None)
    return Batch(input_ids, torch.from_numpy(laid.targets(ignore_index)), torch.from_numpy(laid.real), *masks)


def collated(samples: Sequence[Sample], padding: int, ignore_index: int) -> Batch:
    """Single samples padded into one batch, which has no masks if a sample has none."""
    check_some(samples=samples)
    rows_of = partial(pad_sequence, batch_first=True)
    input_ids = rows_of([sample.input_ids for sample in samples], padding_value=padding)
    target_ids = rows_of([sample.target_ids for sample in samples], padding_value=ignore_index)
    real = rows_of([torch.ones_like(sample.input_ids, dtype=torch.bool) for sample in samples])
    both = [[getattr(sample, name) for sample in samples] for name in ("reference", "evaluated")]
    if any(mask is None for masks in both for mask in masks):
        return Batch(input_ids, target_ids, real)
    wide = torch.zeros(2, *real.shape, real.shape[1], dtype=torch.bool)
    for rows, masks in zip(wide, both, strict=True):
        for row, mask in zip(rows, masks, strict=True):
            row[: len(mask), : len(mask)] = mask
    return Batch(input_ids, target_ids, real, *wide)


class PaddedSamples(Dataset):
    """Samples padded to one length, as a data set for a `DataLoader`.

    An item is a dictionary with `texts` (a string), `input_ids`, `target_ids`, `attention_mask` and, if the
    samples have a reference, `reference`, `evaluated`, and both together under the original's name and in its
    form: `attn_labels`, 1 for reference keys, 0 for other evaluated ones, `ignore_index` elsewhere.

    Attributes:
        texts: the texts of the samples.
        batch: all samples.
        ignore_index: the value of `attn_labels` where nothing is evaluated.
    """

    def __init__(self, texts: list[str], batch: Batch, ignore_index: int) -> None:
        self.texts, self.batch, self.ignore_index = texts, batch, ignore_index

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.texts)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One sample, padded."""
        batch = self.batch
        names = ("input_ids", "target_ids", "attention_mask")
        item = {"texts": self.texts[index], **{name: getattr(batch, name)[index] for name in names}}
        if batch.reference is None or batch.evaluated is None:
            return item
        reference, evaluated = batch.reference[index], batch.evaluated[index]
        labels = reference.int().masked_fill(~evaluated, self.ignore_index)
        return item | {"reference": reference, "evaluated": evaluated, "attn_labels": labels}
