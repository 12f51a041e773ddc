"""A measure that has to be learned, asked of questions that it was not learned from."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlib.attribution.learned import learned_heads
from attnlib.attribution.prompts import Prompts
from book.chapters.attribution_benchmark.measures import scored
from book.chapters.attribution_benchmark.questions import Questions, alike

LEARNED = "learned weights of heads"
"""What the measure is called that `learned_heads` learns."""


def cross_fitted(model: nn.Module, questions: Questions) -> Float[Tensor, "item token"]:
    """Scores by weights that were learned from the other half of the questions, of every second one."""
    even = torch.arange(len(questions)) % 2 == 0
    scores = torch.zeros(questions.input_ids.shape)
    for asked, learned in ((even, ~even), (~even, even)):
        method = learned_heads(model, prompts_of(questions.where(learned)))
        scores[asked] = scored(model, questions.where(asked), {LEARNED: method}).scores[LEARNED]
    return scores


def prompts_of(questions: Questions) -> Iterator[Prompts]:
    """Questions as measures are given them: those of one query and length at a time."""
    sizes = questions.attention_mask.sum(1)
    for query, length, rows in alike(questions.query, sizes, most=len(questions)):
        some = questions.where(rows)
        yield Prompts(some.input_ids[:, :length], query, some.target, some.foil)
