r"""ReAGent: replace many tokens at once, again and again, until it is clear which tokens are sufficient.

With `p` the probability of the target (with a foil, `p_y / (p_y + p_z)`), `R` a random share of the tokens
and `p(R)` the probability after the tokens at `R` are replaced, ReAGent starts at random `s` and iterates

    s_k  <-  s_k + (2 [k in R] - 1) logit((1 + p - p(R)) / 2),        score of k = exp s_k / sum_j exp s_j

so that a loss of probability raises the tokens that were replaced, and lowers the others. A run ends as soon
as the tokens with the largest `s` are sufficient: with all others replaced, the target ranks as high as in
the whole prompt. Scores are means over several runs.

Differences from the paper: its replacements come from a masked language model (RoBERTa); here, they are
different tokens of the same prompt, so that no second model with the same vocabulary is needed. Its target is
the model's own prediction, which has to stay among the first 3 of some 50,000 words. And here, a run ends
after `steps` at the latest; the authors' code allows 3,000 and more.

References:
    Zhao and Shan 2024, *ReAGent: a model-agnostic feature attribution method for generative language models*,
    section 3, and their code, for `s` at the start and how many runs.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.attribution.prompts import MUST_READ_ANOTHER, Prompts, measure
from attnlib.checks import check, check_at_least
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of
from attnlib.models.causal import is_causal

NEARLY = 1e-6
"""Numbers are kept this far from 0 and 1 before their logit is taken."""

ENOUGH = 0.3
"""The share of the tokens, those with the largest `s`, that has to be sufficient."""


@measure
@torch.no_grad()
def reagent(
    model: nn.Module,
    prompts: Prompts,
    *,
    replaced: float = 0.3,
    runs: int = 8,
    steps: int = 30,
    seed: int = 0,
    batch_size: int = 32,
) -> Float[Tensor, "batch key"]:
    """ReAGent: the importance of each token, from 0 to 1; a prompt's scores sum to 1.

    Each token is in `R` with probability `replaced`. The random draws are the same for all prompts of a
    length.
    """
    check_at_least(1, runs=runs, steps=steps)
    check(0 < replaced < 1, "replaced must be above 0 and below 1: else no token is set apart", replaced)
    n = prompts.query + 1 if is_causal(model) else prompts.ids.shape[1]
    check(n >= 2, MUST_READ_ANOTHER, f"{n} token")
    ids, rng = prompts.ids[:, :n], np.random.default_rng([seed, n])

    def drawn() -> Float[Tensor, "run token"]:
        return torch.from_numpy(rng.random((runs, n), np.float32)).to(ids.device)

    def logits_at(given: Int[Tensor, "row token"]) -> Float[Tensor, "row vocabulary"]:
        parts = [logits_of(model, some, start=prompts.query)[:, 0] for some in given.split(batch_size)]
        return torch.cat(parts)

    with evaluating(model):
        logits = logits_at(ids)
        aimed = prompts._replace(ids=ids).aimed(logits)
        whole, rank = _answer(aimed, logits)
        prompt = torch.arange(len(ids), device=ids.device).repeat_interleave(runs)
        run = torch.arange(runs, device=ids.device).repeat(len(ids))  # the runs that go on
        s = drawn().to(whole).repeat(len(ids), 1, 1)
        for _ in range(steps):
            some, gone = aimed.rows(prompt), drawn()[run] < replaced
            fallen = whole[prompt] - _answer(some, logits_at(_exchanged(some.ids, gone, drawn()[run])))[0]
            update = ((1 + fallen) / 2).logit(NEARLY)[:, None]
            s[prompt, run] += torch.where(gone, update, -update)
            first = s[prompt, run].topk(math.ceil(ENOUGH * n)).indices
            others = torch.ones_like(gone).scatter(1, first, False)
            now = _answer(some, logits_at(_exchanged(some.ids, others, drawn()[run])))[1]
            left = now > rank[prompt]
            if not left.any():
                break
            prompt, run = prompt[left], run[left]
    found = whole.new_zeros(prompts.ids.shape)
    found[:, :n] = s.softmax(-1).mean(1)
    return found


def _answer(
    prompts: Prompts, logits: Float[Tensor, "row vocabulary"]
) -> tuple[Float[Tensor, " row"], Int[Tensor, " row"]]:
    """`p` of prompts that are `aimed`, and how many tokens rank above the target."""
    assert prompts.target is not None
    score = prompts.score(logits)
    before = (logits > logits.gather(1, prompts.target[:, None])).sum(1)
    return score.exp() if prompts.foil is None else score.sigmoid(), before


def _exchanged(
    ids: Int[Tensor, "row token"], gone: Bool[Tensor, "row token"], chance: Float[Tensor, "row token"]
) -> Int[Tensor, "row token"]:
    """Prompts with `gone` tokens replaced by different ones of the same prompt, if any, drawn by `chance`."""
    ordered = ids.sort(1).values
    low, high = (torch.searchsorted(ordered, ids, right=right) for right in (False, True))
    at = (chance * (ids.shape[1] - (high - low))).long()  # counted among different tokens only
    at = at + (at >= low) * (high - low)
    return torch.where(gone, ordered.gather(1, at.clamp(max=ids.shape[1] - 1)), ids)
