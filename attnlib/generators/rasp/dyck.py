"""Dyck languages: sequences of brackets of k kinds, whose prefixes are classified."""

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
"""Fewer sequences than this are generated together, so that they fit the processor's cache."""

OPEN, BALANCED, BROKEN = 0, 1, 2
"""Classes of a prefix: P, it can still be balanced; T, it is balanced; F, it is broken for ever."""

NOT_A_BRACKET = 2**62
"""A sort key larger than that of any bracket."""


def classify(sequences: Sequences) -> Int64[Tensor, "batch position"]:
    """Class of every prefix: `OPEN`, `BALANCED` or `BROKEN`.

    With symbols 2i and 2i + 1 for the i-th pair and the last symbol neutral, the depth of a prefix is the
    number of openings minus the number of closings in it. A prefix is broken from the first closing that
    does not fit the opening it meets, or meets none. Until then, openings and closings *of one depth*
    alternate, so the opening that a closing meets is the symbol before it among those of its depth: a sort
    by depth, then position, puts the two side by side, for all sequences at once and without a stack.
    """
    symbols, neutral = sequences.symbols.numpy(), len(sequences.code_points) - 1
    longest = symbols.shape[1]
    position, bracket, closing = np.arange(longest), symbols < neutral, symbols & 1
    depth = np.where(bracket, 1 - 2 * closing, 0).cumsum(1)
    level = np.maximum(depth + closing, 0)  # an opening and its closing stand on one level
    # Level, position and symbol are packed into one integer: `np.sort` is far faster than `np.argsort`.
    for_place, for_symbol = longest.bit_length(), neutral.bit_length()
    numbers = ((level << for_place) | position) << for_symbol | symbols
    ordered = np.sort(np.where(bracket, numbers, NOT_A_BRACKET), axis=1)
    misfit = ordered & 1 == 1
    misfit[:, 1:] &= (ordered[:, 1:] ^ ordered[:, :-1]) & ((1 << for_symbol) - 1) != 1
    place = ordered >> for_symbol & ((1 << for_place) - 1)
    broken = position >= np.where(misfit, place, longest).min(1, initial=longest)[:, None]
    return torch.from_numpy(np.where(broken, BROKEN, np.where(depth == 0, BALANCED, OPEN)))


def sample(rng: np.random.Generator, lengths: np.ndarray, alphabet_size: int) -> np.ndarray:
    """Symbols [batch position] in which all three classes are common.

    Three kinds of sequence alternate: a balanced one; one with a balanced beginning and a random end; a
    random one. (The original's balanced sequences can be one symbol too long; these are not.)
    """
    symbols = random_symbols(rng, lengths, alphabet_size)
    kind = np.arange(len(lengths)) % 3
    some = np.flatnonzero(kind < 2)
    some = some[np.argsort(lengths[some], kind="stable")]  # similar lengths need similarly many steps
    for rows in np.array_split(some, len(lengths) // GROUP + 1):
        kept = np.where(kind[rows] == 0, lengths[rows], rng.integers(0, lengths[rows] + 1))[:, None]
        balanced = _balanced(rng, lengths[rows], n_pairs=(alphabet_size - 1) // 2)
        begins = symbols[rows, : balanced.shape[1]]
        symbols[rows, : balanced.shape[1]] = np.where(np.arange(balanced.shape[1]) < kept, balanced, begins)
    return symbols


def random_symbols(rng: np.random.Generator, lengths: np.ndarray, alphabet_size: int) -> np.ndarray:
    """Symbols [batch position] drawn uniformly; entries beyond a sequence's length are meaningless."""
    return rng.integers(0, alphabet_size, size=(len(lengths), int(lengths.max(initial=0))), dtype=np.int16)


def _balanced(rng: np.random.Generator, lengths: np.ndarray, n_pairs: int) -> np.ndarray:
    """Balanced sequences, generated as in the original: insert a pair (70 %) or "a" at a random place.

    All sequences grow in parallel. An insertion only updates indices: it adds its width to the place of every
    symbol at or behind the insertion. The symbols are written once, at their final places.
    """
    n_samples, longest = len(lengths), int(lengths.max(initial=0))
    places = np.empty((longest, 2, n_samples), np.min_scalar_type(longest + 1))  # narrow: most time goes here
    kinds = np.empty((longest, n_samples), np.int16)
    widths = np.empty((longest, n_samples), np.uint8)
    size = np.zeros(n_samples, dtype=np.int16)
    lengths, step = lengths.astype(np.int16), 0
    while (growing := size < lengths).any():
        pair = (rng.random(n_samples) >= 0.3) & (size <= lengths - 2)
        kinds[step] = rng.integers(0, n_pairs, n_samples, dtype=np.int16)
        place = rng.integers(0, size + 1, dtype=np.int16).astype(places.dtype)
        width = np.add(growing, pair, out=widths[step], dtype=np.uint8)
        before = places[:step]
        before += (before >= place) * width
        places[step, 0], places[step, 1] = place, place + 1
        size += width
        step += 1
    widths, places = widths[:step], places[:step]
    opening = np.where(widths == 2, 2 * kinds[:step], 2 * n_pairs)
    places[widths[:, None] <= [[0], [1]]] = longest  # what was not inserted goes into an extra column
    grown = np.zeros((n_samples, longest + 1), dtype=np.int16)
    grown[np.arange(n_samples), places] = np.stack([opening, opening + 1], axis=1)
    return grown[:, :longest]
