r"""Surrogate measures: hide many random sets of tokens and fit a linear model of scores to the answers.

A token that is left out is hidden as a key from every other token, in all layers, and the others keep their
positions; for a single token, that is `blank_out`. With `v(S)` the answer when only the tokens `S` stay, `N`
the `n` tokens that can be left out (all that the query sees but itself), `1_S` their row of ones and zeros,

    ContextCite    argmin_a,b    mean_S (v(S) - b - 1_S . a)^2 / 2 + c |sd a|_1           S random halves
    KernelSHAP     argmin_a      sum_S w(S) (v(S) - v({}) - 1_S . a)^2,   sum a = v(N) - v({})

    w(S) = (n - 1) / (C(n, |S|) |S| (n - |S|)),  C a binomial coefficient

Most of ContextCite's scores are 0: its penalty assumes that few parts of a context matter. `sd` is the
standard deviation of each column of `1_S`, and `c` a share of that of the answers, so that the answers' unit
does not change the ranking (the authors' `c` is a number). ContextCite's `v` is a logit, log p - log(1 - p),
or the margin over a foil; KernelSHAP's is the score `s` of `attnlib.attribution.prompts`. On all subsets,
KernelSHAP gives Shapley values: the mean over all orders of what a token adds to those before it. Where there
are too many subsets, sizes are drawn in proportion to the kernel's total weight of each size, and every set
comes with its complement; then all weigh the same.

References:
    Cohen-Wang et al. 2024, *ContextCite: attributing model generation to context*, section 3 (there, parts
    are deleted). Lundberg and Lee 2017, *A unified approach to interpreting model predictions*, section 4.1.
    Covert and Lee 2021, *Improving KernelSHAP*: complements, and the sum as a constraint.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.attribution.assumptions import hides_nothing_else
from attnlib.attribution.perturbation_engine import scores_under
from attnlib.attribution.prompts import MUST_READ_ANOTHER, Prompts, check_logits, measure
from attnlib.checks import check, check_at_least
from attnlib.models.attention import AttentionCall, evaluating
from attnlib.models.attention.forward import logits_of
from attnlib.models.attention.inputs import keys_hidden
from attnlib.models.attention.interface import alone
from attnlib.models.causal import is_causal

PENALTY = 0.01
"""ContextCite's `c`, in standard deviations of the answers."""

Scores = Float[Tensor, "batch key"]

Kept = Bool[np.ndarray, "variant player"]
"""Which of the tokens that can be left out stay, in each variant of a prompt."""

Answer = Callable[[Prompts, Tensor], Float[Tensor, " batch"]]
"""The function `v`, of prompts (see `Prompts.aimed`) and logits."""


@measure
def context_cite(
    model: nn.Module,
    prompts: Prompts,
    *,
    ablations: int = 64,
    seed: int = 0,
    batch_size: int = 32,
) -> Scores:
    """ContextCite, in nats of the logit; positive for tokens that speak for the target.

    The random halves, `ablations` in number, are the same for all prompts of a length.
    """
    check_at_least(2, ablations=ablations)
    seen = players(model, prompts)
    kept = halves(ablations, len(seen), seed)
    found = answers(model, prompts, seen, kept, logit, batch_size=batch_size)
    return _fitted(prompts, seen, found, lambda v: sparse(kept, v, PENALTY))


@measure
def kernel_shap(
    model: nn.Module, prompts: Prompts, *, samples: int = 128, seed: int = 0, batch_size: int = 32
) -> Scores:
    """KernelSHAP, in nats; a prompt's scores sum to `v(N) - v({})`.

    Besides the empty and the full set, `samples` subsets are drawn, in pairs of a set and its complement, the
    same for all prompts of a length; if there are no more than `samples`, all subsets are taken.
    """
    check_at_least(2, samples=samples)
    seen = players(model, prompts)
    kept, weights = coalitions(samples, len(seen), seed)
    found = answers(model, prompts, seen, kept, batch_size=batch_size)
    return _fitted(prompts, seen, found, lambda v: shapley(kept, v, weights))


def _fitted(
    prompts: Prompts,
    seen: list[int],
    v: Float[Tensor, "batch variant"],
    fit: Callable[[np.ndarray], np.ndarray],
) -> Scores:
    """The scores fitted to each prompt's answers, at the positions of their tokens."""
    found = v.new_zeros(prompts.ids.shape)
    found[:, seen] = torch.as_tensor(np.stack([fit(row) for row in v.cpu().double().numpy()])).to(v)
    return found


def players(model: nn.Module, prompts: Prompts) -> list[int]:
    """`N`: the positions of the tokens that can be left out."""
    stop = prompts.query + 1 if is_causal(model) else prompts.ids.shape[1]
    found = [place for place in range(stop) if place != prompts.query]
    check(found, MUST_READ_ANOTHER, "1 token")
    return found


@torch.no_grad()
def answers(
    model: nn.Module,
    prompts: Prompts,
    seen: list[int],
    kept: Kept,
    of: Answer = Prompts.score,
    *,
    batch_size: int = 32,
) -> Float[Tensor, "batch variant"]:
    """`v(S)` of each prompt, read from logits by `of`, for each row `S` of `kept`, a subset of `seen`."""
    stop = max([*seen, prompts.query]) + 1
    ids = prompts.ids[:, :stop]
    gone = torch.zeros(len(kept), stop, dtype=torch.bool, device=ids.device)
    gone[:, seen] = torch.from_numpy(~kept).to(ids.device)
    texts = torch.stack([ids[0], ids[0].roll(1)])
    with alone(), evaluating(model):  # at this length: some models choose where to look in long texts only
        if message := hides_nothing_else(model, texts):
            raise ValueError(message)

    def run(one: int, some: Tensor) -> Tensor:
        with keys_hidden(model, partial(_from_others, some)):
            logits = logits_of(model, ids[one].expand(len(some), -1), start=prompts.query)[:, 0]
        check_logits(logits)
        return logits

    with evaluating(model):
        aimed = prompts.aimed(logits_of(model, ids, start=prompts.query)[:, 0])
        return torch.stack(scores_under(aimed, [gone] * len(ids), run, batch_size, of))


def _from_others(gone: Bool[Tensor, "copy key"], call: AttentionCall) -> Bool[Tensor, "copy 1 query key"]:
    """Hide the tokens that are gone from all others; each still sees itself, so that no query lacks a key."""
    itself = torch.eye(gone.shape[1], dtype=torch.bool, device=gone.device)[-call.query.shape[2] :]
    return (gone[:, None] & ~itself)[:, None]


def logit(prompts: Prompts, logits: Float[Tensor, "batch vocabulary"]) -> Float[Tensor, " batch"]:
    """ContextCite's `v`: the log odds of the target, or its margin over the foil."""
    assert prompts.target is not None
    if prompts.foil is not None:
        return prompts.score(logits)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    others = logits.scatter(1, prompts.target[:, None], -torch.inf)
    return prompts.margin(logits) - others.logsumexp(-1)


def halves(count: int, n: int, seed: int) -> Kept:
    """Random halves of `n` tokens: each token stays with probability 1/2."""
    return np.random.default_rng([seed, n]).random((count, n)) < 0.5


def sparse(kept: Kept, v: Float[np.ndarray, " variant"], penalty: float) -> Float[np.ndarray, " player"]:
    """ContextCite's scores of one prompt; see the module's docstring."""
    sd = kept.std(0)
    scale = np.where(sd > 0, sd, 1.0)
    if not v.std() > 1e-9 * np.abs(v).max():
        return np.zeros(kept.shape[1])  # the answers differ by rounding only
    from sklearn.linear_model import Lasso  # type: ignore[import-untyped]

    lasso = Lasso(alpha=penalty, tol=1e-8, max_iter=100_000, random_state=0)  # None would use numpy's
    lasso.fit((kept - kept.mean(0)) / scale, (v - v.mean()) / v.std())
    return lasso.coef_ * v.std() / scale


def coalitions(samples: int, n: int, seed: int) -> tuple[Kept, Float[np.ndarray, " between"]]:
    """Subsets for KernelSHAP, the empty and the full one first, and the weights of the others."""
    ends = np.array([[False], [True]]).repeat(n, 1)
    size = np.arange(1, n)
    if n < 2:
        return ends, np.zeros(0)
    if 2**n - 2 <= samples:
        every = (np.arange(1, 2**n - 1)[:, None] >> np.arange(n)) % 2 == 1
        by_size = (n - 1) / (size * (n - size)) / [math.comb(n, each) for each in size.tolist()]
        return np.concatenate([ends, every]), by_size[every.sum(1) - 1]
    rng, chance = np.random.default_rng([seed, n]), 1 / (size * (n - size))
    sizes = rng.choice(size, samples // 2, p=chance / chance.sum())
    drawn = rng.random((len(sizes), n)).argsort(1) < sizes[:, None]
    return np.concatenate([ends, drawn, ~drawn]), np.ones(2 * len(drawn))


def shapley(
    kept: Kept, v: Float[np.ndarray, " variant"], weights: Float[np.ndarray, " between"]
) -> Float[np.ndarray, " player"]:
    """KernelSHAP's scores of one prompt: least squares under the constraint, by a Lagrange multiplier."""
    n, rows = kept.shape[1], kept[2:].astype(float)
    system = np.ones((n + 1, n + 1))
    system[:n, :n], system[n, n] = rows.T @ (weights[:, None] * rows), 0
    right = np.append(rows.T @ (weights * (v[2:] - v[0])), v[1] - v[0])
    return np.linalg.lstsq(system, right, rcond=None)[0][:n]
