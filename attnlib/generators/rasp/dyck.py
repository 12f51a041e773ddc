"""Dyck languages: brackets of k kinds, judged prefix by prefix."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from attnlib.generators.rasp.sequences import Sequences

NEUTRAL = "a"
PAIRS = ("()", "{}", "[]", "<>", "\\/", "`'", "uv", "xy")
"""Opening and closing symbol of each kind. The original's seventh pair, "ab", collides with its neutral
symbol "a", so that its dyck7 and dyck8 cannot be made; ours is "uv"."""

GROUP = 700
"""How many sequences grow together: few enough for a cache."""

OPEN, BALANCED, BROKEN = 0, 1, 2
"""Classes of a prefix: P, it can still be balanced; T, it is balanced; F, it is broken for ever."""


def classify(sequences: Sequences) -> Int64[Tensor, "batch position"]:
    """Class of every prefix: `OPEN`, `BALANCED` or `BROKEN`.

    With symbols 2i and 2i + 1 for the i-th pair and the last symbol neutral, the depth of a prefix is the
    number of openings minus the number of closings in it. A prefix is broken from the first closing that
    takes the depth below zero or does not fit the opening it meets. Until then, openings and closings *of
    one depth* alternate, so the opening that a closing meets is the symbol before it among those of its
    depth: a stable sort by depth puts the two side by side, for all sequences at once and without a stack.
    """
    symbols, real = sequences.symbols, sequences.real
    neutral = len(sequences.code_points) - 1
    bracket = real & (symbols < neutral)
    closing = bracket & (symbols % 2 == 1)
    depth = (bracket.long() - 2 * closing.long()).cumsum(1)
    level = torch.where(bracket, depth + closing, -1)  # an opening and its closing stand on one level
    order = level.argsort(dim=1, stable=True)
    ordered = symbols.gather(1, order)
    misfit = torch.zeros_like(closing)
    misfit[:, 1:] = (ordered[:, 1:] % 2 == 1) & (ordered[:, 1:] != ordered[:, :-1] + 1)
    unmatched = closing & torch.zeros_like(closing).scatter(1, order, misfit)
    broken = (unmatched | (depth < 0)).cumsum(1) > 0
    return torch.where(broken, BROKEN, torch.where(depth == 0, BALANCED, OPEN))


def sample(rng: np.random.Generator, lengths: np.ndarray, alphabet_size: int) -> np.ndarray:
    """Symbols [batch position] in which all three classes are common.

    By turns: a balanced sequence; one whose beginning is balanced and whose end is random; a random one.
    (The original's balanced sequences can be one symbol longer than asked for; these are not.)
    """
    symbols = random_symbols(rng, lengths, alphabet_size)
    kind = np.arange(len(lengths)) % 3
    some = np.flatnonzero(kind < 2)
    some = some[np.argsort(lengths[some], kind="stable")]  # those of a group grow for as many steps
    for rows in np.array_split(some, len(lengths) // GROUP + 1):
        kept = np.where(kind[rows] == 0, lengths[rows], rng.integers(0, lengths[rows] + 1))[:, None]
        balanced = _balanced(rng, lengths[rows], n_pairs=(alphabet_size - 1) // 2)
        begins = symbols[rows, : balanced.shape[1]]
        symbols[rows, : balanced.shape[1]] = np.where(np.arange(balanced.shape[1]) < kept, balanced, begins)
    return symbols


def random_symbols(rng: np.random.Generator, lengths: np.ndarray, alphabet_size: int) -> np.ndarray:
    """Symbols [batch position] drawn uniformly; what lies beyond a sequence's length means nothing."""
    return rng.integers(0, alphabet_size, size=(len(lengths), int(lengths.max(initial=0))), dtype=np.int16)


def _balanced(rng: np.random.Generator, lengths: np.ndarray, n_pairs: int) -> np.ndarray:
    """Balanced sequences, grown as the original grows them: insert a pair (70 %) or "a" at a random place.

    Every step grows all sequences together, so the loop is as long as the longest sequence, whatever the
    number of sequences.
    """
    n_samples, longest = len(lengths), int(lengths.max(initial=0))
    position = np.arange(longest, dtype=np.int16)[None]
    grown = np.zeros((n_samples, longest + 2), dtype=np.int16)  # two columns in front, to shift from
    size = np.zeros(n_samples, dtype=np.int16)
    lengths = lengths.astype(np.int16)
    while (growing := size < lengths).any():
        pair = (rng.random(n_samples) >= 0.3) & (size + 2 <= lengths)
        kind = rng.integers(0, n_pairs, n_samples, dtype=np.int16)
        opening = np.where(pair, 2 * kind, np.int16(2 * n_pairs))[:, None]
        width = np.where(growing, 1 + pair, 0).astype(np.int16)[:, None]
        place = rng.integers(0, size + 1, dtype=np.int16)[:, None]
        part = slice(2, 2 + min(longest, int(size.max()) + 2))  # nothing is to the right of it yet
        after = position[:, : part.stop - 2] - place  # places after the insertion
        shifted = np.where(pair[:, None], grown[:, : part.stop - 2], grown[:, 1 : part.stop - 1])
        inserted = np.where(after < width, opening + after, shifted)
        grown[:, part] = np.where((after < 0) | (width == 0), grown[:, part], inserted)
        size += width[:, 0]
    return grown[:, 2:]
