r"""Measures that put a counterfactual prompt's residual stream in place of the prompt's, token by token.

With `x_k` the stream of token `k` (its input embedding, or what a layer hands on), `x'_k` that of the
counterfactual prompt at the same position, and `s` the score of the prediction:

    activation patching     s - s(x_k -> x'_k)
    attribution patching    (x_k - x'_k) . d s / d x_k

Both are positive for tokens that speak for the target, and 0 where the two prompts are the same up to there.
Patching is the causal standard: it asks the model itself, with nothing that it would not meet. At the input
embeddings it is the prompt with that one token replaced. The second is its first-order estimate, for the cost
of one forward and one backward pass and a forward pass of the counterfactual.

References:
    Vig et al. 2020, *Causal mediation analysis for interpreting neural NLP*, and Meng et al. 2022, *Locating
    and editing factual associations in GPT*: patching. Nanda 2023, *Attribution patching*; Syed et al. 2023,
    *Attribution patching outperforms automated circuit discovery*: its estimate.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlib.attribution.again import Copies, falls
from attnlib.attribution.prompts import Prompts, measure
from attnlib.attribution.stream import passing, slope, stream_of

Scores = Float[Tensor, "batch key"]


@measure
def activation_patching(model: nn.Module, prompts: Prompts, *, layer: int = 0, batch_size: int = 8) -> Scores:
    """Activation patching, in nats.

    Args:
        model: any with an embedding of its input tokens.
        prompts: what is asked, with a counterfactual.
        layer: 0 for the input embeddings, `l` for what layer `l` (from 1) hands on.
        batch_size: how many tokens at once; memory goes with it.

    Raises:
        ValueError: there is no counterfactual, or no such layer; or the model predicts no token.
    """
    other = prompts.otherwise("activation patching")
    there, _ = stream_of(model, torch.cat([prompts.ids, other]), prompts.query, layer)
    clean, patch = there.chunk(2)

    def disturbed(copies: Copies) -> AbstractContextManager[None]:
        def patched(stream: Tensor) -> Tensor:
            at = torch.arange(len(stream), device=stream.device), copies.tokens - copies.start
            return stream.index_put(at, patch[copies.prompt, copies.tokens])

        return passing(model, patched, layer)

    return falls(model, prompts, disturbed, batch_size, tokens=(clean != patch).any(-1))


@measure
def attribution_patching(model: nn.Module, prompts: Prompts, *, layer: int = 0) -> Scores:
    """Attribution patching, in nats; arguments and errors as in `activation_patching`."""
    other = prompts.otherwise("attribution patching")
    clean, gradient = slope(model, prompts, layer)
    patch, _ = stream_of(model, other, prompts.query, layer)
    return (gradient * (clean - patch)).sum(-1)
