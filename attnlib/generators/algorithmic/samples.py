"""From texts to what a model reads: tokens, the masks of the reference, samples, batches, a data set."""

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
class Laid:
    """Texts with all that stands around them, as tokens; rows are padded on the right.

    Attributes:
        tokens: of the whole texts; a model reads all but the last, and predicts all but the first.
        sizes: how many tokens a model reads of each text.
        n_prompts: tokens before the answer's first.
        n_head: tokens before the question's first.
        text: the row of each pair of the reference.
        query: the token of that row at which its query stands.
        key: the token of that row at which its key stands.
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
    text, position = np.nonzero(texts.real)
    tokens[text, column[text, position]] = ids[texts.symbols[text, position]]
    tokens[:, :n_head] = layout.head_ids
    tokens[rows, n_head + texts.prompts[:, None] + np.arange(n_middle)] = layout.middle_ids
    tokens[rows, totals[:, None] - n_tail + np.arange(n_tail)] = layout.tail_ids
    row, query, key = pairs if pairs is not None else (np.zeros(0, np.int64),) * 3
    prompts = texts.prompts[row]
    # What the prompt's last character predicts, the last token of the middle does where there is one.
    query, key = query + n_middle * (query >= prompts - 1), key + n_middle * (key >= prompts)
    return Laid(
        tokens, totals - 1, n_head + n_middle + texts.prompts, n_head, row, n_head + query, n_head + key
    )


@dataclass(frozen=True)
class Labels:
    """How pairs become masks. The defaults are right; the others are what the study's labels have instead.

    Attributes:
        early_rows: rows before the first that predicts an answer, which are evaluated all the same.
        skipped_keys: of the question's characters, so many are not evaluated, unless they are reference keys.
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
        corner, high, wide = self._corner(laid, int(first.max()))
        masks, windows = [], dict[tuple[int, int], Tensor]()  # many texts have the same window
        flat = torch.from_numpy(reference).split(areas.tolist())
        for one, n, rows in zip(flat, laid.sizes.tolist(), first.tolist(), strict=True):
            mask = one.view(n, n)
            if (n, rows) not in windows:
                windows[n, rows] = corner.as_strided((n, n), (wide, 1), (high - rows) * wide)
            evaluated = windows[n, rows]
            masks.append((mask, evaluated | mask if self.skipped_keys else evaluated))
        return masks

    def _corner(self, laid: Laid, high: int) -> tuple[Tensor, int, int]:
        """A mask, its first evaluated row, and its width: what is evaluated of each text is a window of it.

        Written out for each text, these masks would take as much memory, and time, as the reference.
        """
        wide = int(laid.sizes.max())
        corner = np.zeros((high + wide, wide), dtype=bool)
        corner[high:, laid.n_head + self.skipped_keys :] = True
        return torch.from_numpy(corner), high, wide

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


@dataclass(frozen=True)
class AlgorithmicSample(Sample):
    """A text of a task, with the question and the answer that it consists of.

    `text` is all that the tokens say, but for the special tokens around it: the task's own text, after the
    instruction and the examples if there are any, or the whole chat.

    What is evaluated is a view of a mask that many samples share: copy it before you change it.

    Attributes:
        prompt: the question: the task's own text up to where the answer begins.
        answer: the rest of the task's own text.
        n_prompt: tokens before the answer's first; the last of them is the query that predicts it.
    """

    prompt: str = ""
    answer: str = ""
    n_prompt: int = 0


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
    """Samples that exist one by one, as one batch.

    Raises:
        ValueError: there are none.
    """
    if not samples:
        raise ValueError("a batch needs at least one sample; got none")
    sizes = torch.tensor([len(sample.input_ids) for sample in samples])
    shape = (len(samples), int(sizes.max()))
    input_ids, target_ids = torch.full(shape, padding), torch.full(shape, ignore_index)
    labelled = all(sample.reference is not None and sample.evaluated is not None for sample in samples)
    masks = torch.zeros((2, *shape, shape[1]) if labelled else (2, 0, 0, 0), dtype=torch.bool)
    for row, sample in enumerate(samples):
        n = len(sample.input_ids)
        input_ids[row, :n], target_ids[row, :n] = sample.input_ids, sample.target_ids
        if sample.reference is not None and sample.evaluated is not None and labelled:
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
