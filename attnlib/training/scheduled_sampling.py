r"""Scheduled sampling for `fit`: training on the model's own predictions too, in two passes per batch.

A model trained by teacher forcing reads only right tokens; when it generates an answer, it reads tokens of
its own. Scheduled sampling (Bengio et al. 2015, *Scheduled Sampling for Sequence Prediction with Recurrent
Neural Networks*) mixes the two, with a share of own predictions that grows over training. Done token by
token, it costs a forward pass per token. Here, after Mihaylova and Martins 2019, *Scheduled Sampling for
Transformers* (section 3), it costs one more pass for the whole batch: the first pass reads the right tokens
and predicts the next token at all positions; the second reads a mixture of right and predicted tokens,

$$ x'_t = (1 - z_t) \, x_t + z_t \, \arg\max_v p(v \mid x_{<t}), \qquad z_t \sim \text{Bernoulli}(p_s), $$

with $x$ the right tokens, $p_s$ the share at step $s$, and $z_t = 0$ for tokens that are no target of the
batch. The targets are unchanged. No gradient flows through the first pass.

The $z$ are drawn with the data and depend on seed and step only, so that a resumed run is exact:

    batch_at = with_own_predictions(batch_at, share_up_to(0.5, plan.steps))
    fit(model, batch_at, on_own_predictions(token_loss()), plan)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn

from attnlib.checks import check, check_at_least, check_between
from attnlib.generators.base import IGNORE, Batch


@dataclasses.dataclass(frozen=True)
class MixedBatch(Batch):
    """A batch with a mask `own` of the tokens that are replaced by the model's own predictions."""

    own: Bool[Tensor, "batch token"] | None = None


@dataclasses.dataclass(frozen=True)
class ShareUpTo:
    """The share of own predictions at each step: from 0 along a straight line to `end` at the last step.

    The original's "from full teacher forcing down to half" is `share_up_to(0.5, steps)`.
    """

    end: float | int
    steps: int

    def __post_init__(self) -> None:
        """Raise a `ValueError` if `end` is not from 0 to 1, or `steps` is below 1."""
        check_between(0, 1, end=self.end)
        check_at_least(1, steps=self.steps)

    def __call__(self, step: int) -> float:
        """The share at a step."""
        return self.end * min(1.0, step / max(1, self.steps - 1))


share_up_to = ShareUpTo


@dataclasses.dataclass(frozen=True)
class WithOwnPredictions:
    """Batches with a random mask `own` of the tokens to replace; a pure function of the step.

    Attributes:
        after: replace only tokens after the token with this id (such as the = of a sum). Use it for batches
            whose question tokens are targets, too: a replaced token would change the question.
    """

    batch_at: Callable[[int], Batch]
    share_at: Callable[[int], float]
    _: dataclasses.KW_ONLY
    seed: int = 0
    after: int | None = None

    def __call__(self, step: int) -> MixedBatch:
        """The batch of a step."""
        batch, share = self.batch_at(step), self.share_at(step)
        check_between(0, 1, **{f"the share at step {step}": share})
        coins = np.random.default_rng([self.seed, step]).random(batch.input_ids.shape) < share
        own = torch.from_numpy(coins) & batch.attention_mask
        own[:, 0] = False
        own[:, 1:] &= batch.target_ids[:, :-1] != IGNORE
        if self.after is not None:
            own &= ((batch.input_ids == self.after).cumsum(1) > 0) & (batch.input_ids != self.after)
        return MixedBatch(**vars(batch), own=own)


with_own_predictions = WithOwnPredictions


def mixed_inputs(model: nn.Module, batch: MixedBatch) -> Int64[Tensor, "batch token"]:
    """The input of the second pass: the tokens of `batch`, with predicted ones where `own` is True."""
    if batch.own is None:
        raise ValueError("a batch must be of with_own_predictions(batch_at, share_at); got another")
    with torch.no_grad():
        logits = model(**batch.inputs).logits
    config: Any = getattr(model, "config", None)
    vocabulary = getattr(config, "vocabulary", logits.shape[-1])
    n = logits.shape[-1]
    check(n == vocabulary, f"a model must predict the {vocabulary} ids that it reads", n)
    predicted = logits.argmax(-1).roll(1, dims=1)
    return torch.where(batch.own, predicted, batch.input_ids)


@dataclasses.dataclass(frozen=True)
class OnOwnPredictions:
    """A loss for `fit`: `loss` of the batch with `mixed_inputs` as its input."""

    loss: Callable[[nn.Module, Any], Any]

    def __call__(self, model: nn.Module, batch: MixedBatch) -> Any:
        """The result of `loss` in the second pass."""
        if batch.own is not None and not batch.own.any():
            return self.loss(model, batch)  # full teacher forcing: the first pass would change nothing
        return self.loss(model, dataclasses.replace(batch, input_ids=mixed_inputs(model, batch)))


on_own_predictions = OnOwnPredictions
