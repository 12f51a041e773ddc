"""Questions about characters of answers: of the algorithmic tasks, and of arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from attnlib.generators.algorithmic import AlgorithmicGenerator
from attnlib.generators.arithmetic import Arithmetic
from attnlib.generators.base import Sample
from book.chapters.tells.asked.question import Alike, Question, but, form, in_random_order

Exchange = Callable[[str, int, Sequence[int], np.random.Generator], Sample | None]
"""Makes a text, a place in its answer and what that is made of into one with another answer there."""


def about_answers(
    generator: AlgorithmicGenerator,
    samples: Iterable[Sample],
    *,
    others: Iterable[Sample] = (),
    in_distribution: bool = True,
    seed: int = 0,
) -> Iterator[Question]:
    """A question about one character of every text's answer, drawn from those that have a reference.

    The truth is the `reference`, without the query's own token; candidates are the task's text up to the
    query. Questions where no text of the same length has another answer are left out: a space between two
    numbers of a series, whether a number ends.

    Args:
        generator: of texts without instruction, examples or chat.
        samples: of it.
        others: texts that counterfactuals are taken from, if they are to be texts of their own in which
            everything is another: of the same form, with another answer.
        in_distribution: whether models were trained on such.
        seed: of what is drawn.
    """
    exchange = _another(others) or generator.exchanged
    return _about(samples, exchange, in_distribution, seed)


def about_sums(
    task: Arithmetic,
    samples: Iterable[Sample],
    *,
    others: Iterable[Sample] = (),
    in_distribution: bool = True,
    seed: int = 0,
) -> Iterator[Question]:
    """A question about one digit of every problem's answer; the truth are its column, and the carry's.

    Args:
        task: that does not ask for operands.
        samples: of it.
        others: see `about_answers`.
        in_distribution: whether models were trained on such.
        seed: of what is drawn.
    """
    exchange = _another(others) or task.exchanged
    return _about(samples, exchange, in_distribution, seed)


def _another(others: Iterable[Sample]) -> Exchange | None:
    """What takes another one of the same form, if there are any."""
    alike = Alike(others, lambda sample: form(sample.text))
    if not alike.by_form:
        return None

    def exchange(text: str, place: int, keys: Sequence[int], rng: np.random.Generator) -> Sample | None:
        return alike.draw(form(text), lambda sample: sample.text[place] != text[place], rng)

    return exchange


def _about(
    samples: Iterable[Sample], exchange: Exchange, in_distribution: bool, seed: int
) -> Iterator[Question]:
    """Tokens are the beginning and the text's characters: what predicts character `n` is token `n`."""
    for row, sample in enumerate(samples):
        rng = np.random.default_rng([seed, row])
        assert sample.reference is not None and sample.evaluated is not None
        for query in in_random_order(sample.reference.any(1), rng):
            seen = slice(0, query + 1)
            truth = but(sample.reference[query], query)
            keys = (truth.nonzero()[:, 0] - 1).tolist()
            other = exchange(sample.text, query, keys, rng) if keys else None
            if other is None:
                continue
            yield Question(
                sample.input_ids[seen],
                query,
                int(sample.target_ids[query]),
                truth[seen],
                but(sample.evaluated[query], query)[seen],
                int(other.target_ids[query]),
                other.input_ids[seen],
                in_distribution,
            )
            break
