"""Where texts and their reference stand among tokens, and the masks that come of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlib.generators.algorithmic.prompt import Layout
from attnlib.generators.algorithmic.texts import Pairs, Texts


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
