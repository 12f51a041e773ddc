r"""A learned measure: one weight per attention head, fitted to the effects of ablations on other prompts.

With `A_h[q, k]` the attention of head `h` (of any layer) from the query and `w_h` its weight,

    score of k = sum_h w_h A_h[q, k],        w = argmin  sum_i mean_S (v_i(S) - 1_S . A_i w)^2 + r |w|^2

over prompts `i` and random halves `S` of their tokens (`attnlib.attribution.surrogate`). Answers `v_i` and
sums `1_S . A_i w` are centred at their means over `S`, and answers are divided by their standard deviation,
so that every prompt counts the same: up to the penalty, `w` gives the linear prediction that correlates best
with the answers. Learning takes some 32 passes per prompt; scores take one, as for plain attention.

References:
    Cohen-Wang et al. 2025, *Learning to attribute with attention* (AT2): there by gradients on Pearson's
    correlation, with attention from every written token.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from attnlib.attribution.prompts import Method, Prompts, measure
from attnlib.attribution.surrogate import answers, halves, players
from attnlib.checks import check, check_at_least
from attnlib.models.attention import AttentionCall
from attnlib.models.attention.forward import check_prompt, watched_pass
from attnlib.models.devices import brought
from attnlib.options import plain_options


@torch.no_grad()
def attention_of_heads(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch head key"]:
    """The query's attention in every head, layer by layer; errors as in `AttentionCall.changed_rows`."""
    calls, at, n = list[AttentionCall](), slice(prompts.query, prompts.query + 1), prompts.ids.shape[1]
    watched_pass(model, [calls.append], prompts.ids)
    rows = list[Tensor]()
    for call in calls:
        low, high = call.keys_of(at.start, at.stop)
        rows.append(pad(call.changed_rows(at)[:, :, 0], (low, n - high)).to(prompts.ids.device))
    return torch.cat(rows, 1)


@plain_options
def learned_heads(
    model: nn.Module,
    questions: Iterable[Prompts],
    *,
    ablations: int = 32,
    penalty: float = 0.01,
    seed: int = 0,
) -> Method:
    """Learn a weight for each head, from prompts other than those to be explained.

    Args:
        model: as in `attention_of_heads` and `keys_hidden`.
        questions: the prompts to learn from, those of one length and query at a time; a `ValueError` if no
            answer changes with their tokens.
        ablations: the number of random halves, at least 2: weights are fitted to how their answers differ.
        penalty: `r`, as a share of the mean over heads of the summed squares of their sums `1_S . A_i`.
        seed: the seed of the random halves.

    Returns:
        A measure like those of `METHODS`, with signed scores. `method.weights` are the weights.
    """
    check_at_least(2, ablations=ablations)
    squares, products = 0.0, 0.0
    for some in questions:
        check_prompt(model, some.ids, None)
        some = Prompts(*brought(model, *some))
        seen = players(model, some)
        kept = halves(ablations, len(seen), seed)
        heads = attention_of_heads(model, some)[:, :, seen].cpu().double().numpy()
        for row, v in zip(heads, answers(model, some, seen, kept).cpu().double().numpy(), strict=True):
            if v.std() > 1e-9 * np.abs(v).max():
                sums = kept @ row.T
                sums = sums - sums.mean(0)
                squares, products = squares + sums.T @ sums, products + sums.T @ (v - v.mean()) / v.std()
    learns = not isinstance(squares, float)
    check(learns, "questions must have an answer that changes with their tokens", questions)
    assert not isinstance(squares, float)
    ridge = penalty * np.trace(squares) / len(squares) * np.eye(len(squares))
    return of_weights(torch.from_numpy(np.linalg.solve(squares + ridge, products)))


def of_weights(weights: Float[Tensor, " head"]) -> Method:
    """The measure with given weights `w_h`, in the order of `attention_of_heads`."""

    @measure
    def learned(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
        heads = attention_of_heads(model, prompts)
        return torch.einsum("h,bhk->bk", weights.to(heads), heads)

    learned.weights = weights  # type: ignore[attr-defined]
    return learned
