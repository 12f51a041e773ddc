"""Questions about symbols of copies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from attnlib.generators.copying import Copying
from book.chapters.tells.asked.question import Question
from book.chapters.tells.single_head import ReadCopies


def about_copies(
    model: ReadCopies,
    task: Copying,
    n: int,
    *,
    others: bool = False,
    in_distribution: bool = True,
    seed: int = 0,
) -> Iterator[Question]:
    """A question about one symbol of every copy: where does it stand in the source?

    The truth is the one place; candidates are all symbols of the source. What was written so far is given,
    and right. In the counterfactual another symbol stands at that place: one that the sequence does not have,
    or, where it has them all or symbols may occur again, any other, which then changes places with it.

    Args:
        model: which is asked: its rows are source and what was written.
        task: with the ids that the model knows.
        n: how many.
        others: whether counterfactuals are sequences of their own, in which everything is another.
        in_distribution: whether the model was trained on such.
        seed: of what is drawn.
    """
    for row in range(n):
        rng = np.random.default_rng([seed, row])
        symbols = task.sequences(1, rng)[0]
        place = int(rng.integers(task.length))
        free = np.setdiff1d(np.arange(task.symbols), symbols)
        other = int(rng.choice(free if len(free) else symbols[symbols != symbols[place]]))
        swap = np.arange(task.symbols)
        swap[[symbols[place], other]] = swap[[other, symbols[place]]]
        if others:  # a permutation that moves every symbol
            swap = np.roll(np.arange(task.symbols), int(rng.integers(1, task.symbols)))
            other = int(swap[symbols[place]])
        rows = [
            torch.cat([torch.tensor([*one, task.end]), model.written(torch.tensor(one[:place]))])
            for one in (symbols, swap[symbols])
        ]
        at = torch.arange(len(rows[0]))
        yield Question(
            rows[0],
            len(rows[0]) - 1,
            int(symbols[place]),
            at == place,
            at < task.length,
            other,
            rows[1],
            in_distribution,
        )
