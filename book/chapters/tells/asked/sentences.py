"""Questions about words of translations between the invented languages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from attnlib.generators.translation import Lexicon, Pairs, Subwords
from book.chapters.tells.asked.question import Alike, Question, in_random_order
from book.chapters.tells.single_head import ReadSentences


def about_sentences(
    model: ReadSentences,
    subwords: Subwords,
    pairs: Pairs,
    words: Lexicon,
    *,
    others: Pairs | None = None,
    in_distribution: bool = True,
    seed: int = 0,
) -> Iterator[Question]:
    """A question about one word of every translation: which source words does it translate?

    The truth is the `alignment`; candidates are the words of the source. What was written so far is given,
    and right. Words of which there is no other like them (the joining word) are not asked for.

    Args:
        model: which is asked: its rows are source and what was written.
        subwords: whole words.
        pairs: whose alignment is known.
        words: of their grammar.
        others: sentences that counterfactuals are taken from, if they are to be sentences of their own, as
            long as the source, with another word at the place that is asked about.
        in_distribution: whether models were trained on such.
        seed: of what is drawn.

    Raises:
        ValueError: their alignment is not known.
    """
    if pairs.alignment is None:
        raise ValueError("sentences should be invented ones, whose alignment is known")
    texts = [] if others is None else [(one.split(), other.split()) for one, other in others.texts]
    alike = Alike(texts, lambda each: len(each[0]) + 2)  # with `<bos>` and `<eos>`
    for row in range(len(pairs)):
        rng, pair = np.random.default_rng([seed, row]), pairs[slice(row, row + 1)]
        assert pair.alignment is not None
        n = len(pair.source)
        aligned = pair.alignment.view(-1, n)
        said, written = (text.split() for text in pair.texts[0])
        for place in in_random_order(aligned.any(1), rng):
            if others is None:
                other = words.exchanged(said, written, aligned[:-1, 1:-1], place, rng)
            else:
                other = alike.draw(n, partial(_differs, place, written[place]), rng)
            if other is None:
                continue
            source, target = (torch.tensor(ids) for ids in subwords.encode([*map(" ".join, other)]))
            # Of the target, `<bos>` is not written: the source's end stands for it.
            ids = torch.cat([pair.source, model.written(pair.target[1 : place + 1])])
            candidates = torch.zeros_like(ids, dtype=torch.bool)
            candidates[1 : n - 1] = True
            truth = torch.zeros_like(candidates)
            truth[:n] = aligned[place]
            yield Question(
                ids,
                len(ids) - 1,
                int(pair.target[place + 1]),
                truth,
                candidates,
                int(target[place + 1]),
                torch.cat([source, model.written(target[1 : place + 1])]),
                in_distribution,
            )
            break


def _differs(place: int, word: str, sentence: tuple[list[str], list[str]]) -> bool:
    """Whether another word stands at a place of its translation."""
    return place < len(sentence[1]) and sentence[1][place] != word
