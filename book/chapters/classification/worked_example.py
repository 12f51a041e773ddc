"""A classifier of four short reviews, small enough to follow by hand: the two stages of Snell et al. 2021."""

from __future__ import annotations

import pandas as pd
import torch

REVIEWS = {"good plot": 1, "good film": 1, "bad plot": 0, "dull film": 0}
"""Reviews of two words, and whether they are positive."""


def two_stages(steps: int = 100, learning_rate: float = 4.0) -> pd.DataFrame:
    """Train attention and relevance of the single words of `REVIEWS` by gradient descent, both from 0."""
    words = list(dict.fromkeys(word for review in REVIEWS for word in review.split()))
    reviews = torch.tensor([[words.index(word) for word in review.split()] for review in REVIEWS])
    labels = torch.tensor([*REVIEWS.values()], dtype=torch.float64)
    attended, beta = (torch.zeros(len(words), dtype=torch.float64, requires_grad=True) for _ in range(2))
    rows = []
    for step in range(steps + 1):
        alpha = attended[reviews].softmax(-1)
        logits = (alpha * beta[reviews]).sum(-1)
        for place, word in enumerate(next(iter(REVIEWS)).split()):
            values = {"alpha": alpha[0, place], "beta": beta[reviews[0, place]]}
            rows += [(step, word, score, value.item()) for score, value in values.items()]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
        gradients = torch.autograd.grad(loss, (attended, beta))
        with torch.no_grad():
            for weight, gradient in zip((attended, beta), gradients, strict=True):
                weight -= learning_rate * gradient
    return pd.DataFrame(rows, columns=["step", "word", "score", "value"])
