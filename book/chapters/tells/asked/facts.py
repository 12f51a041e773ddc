"""Questions of the needle test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import torch

from attnlib.generators.needle import NeedleGenerator, NeedleSample
from book.chapters.tells.asked.question import Alike, Question, but


def about_facts(
    generator: NeedleGenerator,
    samples: Iterable[NeedleSample],
    *,
    others: Iterable[NeedleSample] = (),
    seed: int = 0,
) -> Iterator[Question]:
    """A question about the first token of every prompt's answer: in which fact does it stand?

    The truth are the tokens of the value in that fact; candidates are all tokens of the prompt but the query
    and special ones. In the counterfactual two facts have exchanged their values. Prompts in which all values
    begin with the same token are left out.

    Args:
        generator: of the samples.
        samples: prompts.
        others: prompts that counterfactuals are taken from, if they are to be prompts of their own: as long,
            with the needle at the same place and another answer.
        seed: of what is drawn.
    """
    special = torch.tensor(generator.tokenizer.all_special_ids, dtype=torch.int64)
    alike = Alike(others, _form)
    for row, sample in enumerate(samples):
        rng = np.random.default_rng([seed, row])
        if alike.by_form:
            other = alike.draw(_form(sample), partial(_answers_otherwise, sample), rng)
        else:
            other = generator.exchanged(sample, rng)
        if other is None:
            continue
        assert sample.reference is not None
        n = sample.n_prompt
        ids = sample.input_ids[:n]
        yield Question(
            ids,
            n - 1,
            int(sample.input_ids[n]),
            sample.reference[n - 1, :n],
            but(~torch.isin(ids, special), n - 1),
            int(other.input_ids[n]),
            other.input_ids[:n],
            True,
        )


def _form(sample: NeedleSample) -> tuple[int, tuple[int, ...]]:
    """How long a prompt is, and where its needle stands."""
    assert sample.reference is not None
    return sample.n_prompt, tuple(sample.reference[sample.n_prompt - 1].nonzero()[:, 0].tolist())


def _answers_otherwise(sample: NeedleSample, other: NeedleSample) -> bool:
    return bool(sample.input_ids[sample.n_prompt] != other.input_ids[other.n_prompt])
