"""Questions of the needle test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from attnlib.generators.exchanged import exchanged_values
from attnlib.generators.needle import NeedleGenerator, NeedleSample
from attnlib.measures.asked.question import Question, but


def about_facts(
    generator: NeedleGenerator, samples: Iterable[NeedleSample], *, seed: int = 0
) -> Iterator[Question]:
    """A question about the first token of every prompt's answer: in which fact does it stand?

    The truth are the tokens of the value in that fact; candidates are all tokens of the prompt but the query
    and special ones. In the counterfactual two facts have exchanged their values. Prompts in which all values
    begin with the same token are left out.

    Args:
        generator: of the samples.
        samples: prompts.
        seed: of what is drawn.
    """
    special = torch.tensor(generator.tokenizer.all_special_ids, dtype=torch.int64)
    for row, sample in enumerate(samples):
        other = exchanged_values(generator, sample, np.random.default_rng([seed, row]))
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
