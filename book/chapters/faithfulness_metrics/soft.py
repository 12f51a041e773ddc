r"""Protocols that take a part of every token: channels of its embedding, more of them the less it scores.

With $a_k$ the scores of a question's candidates, from 0 (the lowest) to 1 (the highest), every channel of the
embedding of candidate $k$ stays with probability $q_k$, and is 0 else; the other tokens stay whole. With
$p(q)$ the probability of the answer, the mean over draws, and $l(q) = \max(0, p(1) - p(q))$ what is lost,

    Soft-NS    max(0, l(0) - l(a)) / l(0)            large: what scores high is enough
    Soft-NC    l(1 - a) / l(0)                       large: what scores high was needed

A measure whose scores are high on the whole keeps more, whatever it says. "At a fixed share" it does not: $a$
is brought to a mean of 1/2 over the candidates, in proportion and up to 1 (where too few score above 0, the
others get what is left, each the same).

Channels are taken before positions are added, so that what a model's positions carry is not touched: on the
largest of them rests the norm of a compiled model.

References:
    Zhao and Aletras 2023, *Incorporating attribution importance for improving faithfulness metrics*, section
    3. Huang and Chan 2026, *Faithfulness evaluation for decoder-only LLM attributions with controlled
    retained information* (arXiv 2601.03089): the share. How scores are brought to it is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlib.attribution.stream import embedding_of, passing
from attnlib.stats.plausibility import comparable
from book.chapters.attribution_benchmark.questions import alike
from book.chapters.faithfulness_metrics.removal import READINGS, Case

Shares = Float[np.ndarray, "item variant token"]
Numbers = Float[np.ndarray, "item measure"]

FIXED = 0.5
"""The mean share that stays."""

ITEMS_AT_ONCE = 16
"""Questions whose coins are held at a time."""


def from_0_to_1(scores: Shares, candidates: Bool[np.ndarray, "item token"]) -> Shares:
    """`a`; NaN is lowest, and where all candidates score the same, all are 0."""
    known = np.stack([comparable(scores[:, m], candidates) for m in range(scores.shape[1])], 1)
    inside = np.broadcast_to(candidates[:, None], known.shape) & np.isfinite(known)
    low = np.where(inside, known, np.inf).min(-1, keepdims=True)
    high = np.where(inside, known, -np.inf).max(-1, keepdims=True)
    width = np.where(high > low, high - low, 1.0)
    return np.where(inside, (np.where(inside, known, 0.0) - np.where(np.isfinite(low), low, 0)) / width, 0.0)


def at_share(a: Shares, candidates: Bool[np.ndarray, "item token"], share: float = FIXED) -> Shares:
    """`a` with this mean over the candidates; see the module."""
    inside = np.broadcast_to(candidates[:, None], a.shape)
    wanted = share * inside.sum(-1, keepdims=True)
    positive = inside & (a > 0)
    low, high = np.zeros_like(wanted), np.full_like(wanted, 1e12)
    for _ in range(100):  # the sum grows with the factor
        factor = np.sqrt((low + 1e-12) * high)
        enough = np.minimum(1, factor * a).sum(-1, keepdims=True) >= wanted
        low, high = np.where(enough, low, factor), np.where(enough, factor, high)
    found = np.where(positive, np.minimum(1, high * a), 0.0)
    few = positive.sum(-1, keepdims=True) < wanted
    rest = (wanted - positive.sum(-1, keepdims=True)) / np.maximum(
        (inside & ~positive).sum(-1, keepdims=True), 1
    )
    return np.where(few, np.where(positive, 1.0, np.where(inside, rest, 0.0)), found)


def softly(case: Case, stay: Shares) -> Float[np.ndarray, "item variant"]:
    """The probability of the answer where every channel of a candidate stays with some probability."""
    width = next(embedding_of(case.model).parameters()).shape[1]
    q, found, n = case.questions, np.zeros(stay.shape[:2]), stay.shape[1]
    chances = torch.from_numpy(np.where(case.candidates[:, None], stay, 1.0)).float()
    for draw in range(case.draws):
        rng = np.random.default_rng([case.seed, draw])
        for items in torch.arange(len(stay)).split(ITEMS_AT_ONCE):
            coins = torch.from_numpy(rng.random((len(items), stay.shape[2], width), dtype=np.float32))
            item, variant = torch.arange(len(items) * n) // n, torch.arange(len(items) * n) % n
            for end, rows in alike(case.ends(items[item]), most=case.batch_size):
                some, which = items[item[rows]], variant[rows]
                kept = coins[item[rows], :end] < chances[some, which, :end, None]
                with passing(case.model, partial(_times, kept)):
                    ends = torch.full((len(some),), end)
                    read = case.readings(q.input_ids[some], ends, q.query[some], some)
                found[some.numpy(), which.numpy()] += np.exp(read[:, READINGS.index("log p")]) / case.draws
    return found


def _times(kept: Bool[Tensor, "row token width"], embedded: Tensor) -> Tensor:
    return embedded * kept.to(embedded.device)


def _lost(case: Case, stay: Shares) -> tuple[Numbers, Numbers]:
    """`l` of these shares, and of none."""
    ends = np.ones((len(stay), 2, stay.shape[-1])) * [[[1.0], [0.0]]]
    p = softly(case, np.concatenate([ends, stay], 1))
    lost = np.maximum(0, p[:, :1] - p)
    return lost[:, 2:], lost[:, 1:2]


def soft_ns(fixed: bool, case: Case, scores: Shares) -> Numbers:
    """Soft normalised sufficiency; 0 where nothing is lost without any channel."""
    lost, most = _lost(case, _shares(fixed, case, scores))
    return np.divide(np.maximum(0, most - lost), most, out=np.zeros_like(lost), where=most > 0)


def soft_nc(fixed: bool, case: Case, scores: Shares) -> Numbers:
    """Soft normalised comprehensiveness; 0 where nothing is lost without any channel."""
    lost, most = _lost(case, 1 - _shares(fixed, case, scores))
    return np.divide(lost, most, out=np.zeros_like(lost), where=most > 0)


def _shares(fixed: bool, case: Case, scores: Shares) -> Shares:
    a = from_0_to_1(scores, case.candidates)
    return at_share(a, case.candidates) if fixed else a


SOFT: dict[str, Callable[[Case, Shares], Numbers]] = {
    "Soft-NS": partial(soft_ns, False),
    "Soft-NC": partial(soft_nc, False),
    "Soft-NS at a fixed share": partial(soft_ns, True),
    "Soft-NC at a fixed share": partial(soft_nc, True),
}
"""Name -> function: protocols without an operator and a reading."""
