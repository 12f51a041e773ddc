"""Questions about outputs of the RASP languages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnlib.generators.base import IGNORE
from attnlib.generators.rasp import Language, Sequences
from book.chapters.tells.asked.question import Question, but, in_random_order

DRAWN = 20
"""Sequences that another one with another output is taken from."""


def about_programs(
    lang: Language,
    sequences: Sequences,
    *,
    others: bool = False,
    in_distribution: bool = True,
    seed: int = 0,
) -> Iterator[Question]:
    """A question about one output of every sequence, drawn from those that have a source.

    The truth are the symbols that the program's last selector looks at, as in
    `book.chapters.rasp.known_sources`: the mirrored place (reverse), the token that belongs here (sort), the
    other occurrences of the symbol (hist). Candidates are all symbols but the query's own: the one in the
    middle of a sequence to reverse, and one that stands alone in hist, have no source among them.

    Args:
        lang: with heads whose algorithm is known.
        sequences: of any lengths.
        others: whether counterfactuals are sequences of their own, as long, in which everything is another.
        in_distribution: whether models were trained on such.
        seed: of what is drawn.

    Raises:
        ValueError: no program of the language is known.
    """
    if not lang.definition.heads:
        raise ValueError(f"no program is known for {lang.name}, so its sources are not, either")
    batch, last = lang.batch(sequences), max(lang.definition.heads)
    for row in range(len(sequences)):
        rng, alone = np.random.default_rng([seed, row]), sequences[slice(row, row + 1)]
        n = int(batch.attention_mask[row].sum())
        ids, targets = batch.input_ids[row, :n], batch.target_ids[row, :n]
        symbols = targets != IGNORE
        selected = batch.target_attention[last][row, :n, :n] & symbols
        for query in in_random_order(symbols, rng):
            truth = but(selected[query], query)
            if not truth.any():
                continue
            if others:
                other = other_sequence(lang, alone, query - lang.bos, rng)
            else:
                other = lang.exchanged(alone, query - lang.bos, truth[int(lang.bos) :], rng)
            if other is None:
                continue
            twin = lang.batch(other, target_attention=False)
            yield Question(
                ids,
                query,
                int(targets[query]),
                truth,
                but(symbols, query),
                int(twin.target_ids[0, query]),
                twin.input_ids[0],
                in_distribution,
            )
            break


def other_sequence(
    lang: Language, sequence: Sequences, query: int, rng: np.random.Generator
) -> Sequences | None:
    """A sequence as long, with another output at one position; `None` if none of those drawn has."""
    (length,) = sequence.lengths.tolist()
    seed, size = int(rng.integers(2**31)), {"min_length": length, "max_length": length}
    drawn = lang.sequences(DRAWN, split="test", seed=seed, **size)
    outputs = lang.definition.outputs
    differs = (outputs(drawn)[:, query] != outputs(sequence)[0, query]).nonzero()
    return drawn[differs[0]] if len(differs) else None
