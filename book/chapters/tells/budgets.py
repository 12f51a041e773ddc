r"""Does a model need the tokens that a score puts first, and do these suffice?

With $p(S)$ the probability of the prediction on the tokens $S$, $C$ all candidates and $T_b$ the first $b$ of
them by the score, a budget that is the same for every score,

    comprehensiveness    mean over b of p(C) - p(C without T_b)      large: what is put first was needed
    sufficiency          mean over b of p(C) - p(T_b)                small: what is put first is enough

The level of chance is the mean of the same number over random orders. Normalised by it, 0 is a random order;
1 is a prediction that is gone without the first tokens, whatever the budget, or as sure with these alone.

References:
    DeYoung et al. 2020, *ERASER: A Benchmark to Evaluate Rationalized NLP Models*, section 4: they divide by
    one budget more, that of no token, which is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int

from attnlib.stats.plausibility import Mask, Numbers, Scores, comparable
from attnlib.stats.ragged import Ragged
from attnlib.stats.rank_measures import spearman_rows

Budget = float | int
"""How many tokens: a share of the candidates, rounded up, if below 1; else their number."""


def tokens_of(budget: Budget, candidates: Mask) -> Int[np.ndarray, " item"]:
    """How many tokens a budget is, of every item.

    Raises:
        ValueError: the budget is not above 0, or is a number of tokens that is not whole.
    """
    if not budget > 0 or (budget >= 1 and budget != int(budget)):
        raise ValueError(f"a budget should be a share between 0 and 1, or a number of tokens; got {budget}")
    n = candidates.sum(1)
    return np.minimum(n, int(budget)) if budget >= 1 else np.ceil(np.round(budget * n, 9)).astype(np.int64)


def order_of(scores: Scores, candidates: Mask, seed: int = 0) -> Int[np.ndarray, "item token"]:
    """Each candidate's place from the largest score on, from 0; what is no candidate comes after them.

    Equal scores are ordered by a coin, the same for all scores of one shape and seed; NaN comes last.
    """
    coins = np.random.default_rng(seed).random(scores.shape)
    values = comparable(scores, candidates)
    order = np.lexsort((coins, -values, ~candidates), axis=-1)
    return order.argsort(axis=1)


def first_tokens(
    scores: Scores, candidates: Mask, budgets: Sequence[Budget], seed: int = 0
) -> Bool[np.ndarray, "item budget token"]:
    """Which candidates the score puts first, within every budget; ties as in `order_of`."""
    place = order_of(scores, candidates, seed)
    counts = np.stack([tokens_of(budget, candidates) for budget in budgets], axis=1)
    return (place[:, None] < counts[..., None]) & candidates[:, None]


def rank_agreement(scores: Scores, standard: Scores, candidates: Mask) -> Numbers:
    """Spearman's correlation of two scores over an item's candidates.

    Returns:
        0 where the first is constant, and so says nothing; NaN where the second is (there is nothing to say),
        or where either holds a NaN among the candidates.
    """
    pair = [comparable(each, candidates) for each in (scores, standard)]
    broken = np.isnan(np.stack(pair)).any(0) & candidates
    low, high = (np.where(candidates, pair[1], end) for end in (np.inf, -np.inf))
    silent = low.min(1, initial=np.inf) >= high.max(1, initial=-np.inf)
    found = spearman_rows(*(Ragged.from_padded(each, candidates) for each in pair))
    return np.where(broken.any(1) | silent, np.nan, np.nan_to_num(found))
