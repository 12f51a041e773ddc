r"""What each word meant to a classifier: attention, keyword relevance, gradient influence; over training.

Of a word $i$ in a document with label $y$:

* `alpha`, attention: $\alpha_i$, the share of the head's attention on it;
* `beta`, keyword relevance towards the label: $(2y - 1) \beta_i$, the log odds that the model would give the
  label if all attention were on the word; of a model trained with uniform attention, the study's
  $\beta^{\mathrm{uf}}$;
* `delta`, gradient influence: $\Delta_i = \partial \log p(y) / \partial g_i$ at $g_i = 1$, where $g_i$
  multiplies the word's vector. Positive if more of the word makes the label more likely. (The authors' code
  turns it round once too often before it compares; the statistics can do the same, as published.)

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns*, and the
authors' code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from attnlib.generators.classification import Documents
from attnlib.models.attention import evaluating
from attnlib.models.classifier import Classifier

__all__ = ["EARLY", "STEPS", "TokenScores", "checkpoint_steps", "relevance"]


EARLY = (0, 10, 50, 100, 150, 200)
"""When the original looks more often, as updates made."""


def checkpoint_steps(steps: int = 4000, every: int = 250, early: Iterable[int] = EARLY) -> tuple[int, ...]:
    """When to look at a model during training, as updates made: early ones, every so many, and the last.

    With the defaults these are the original's 22, the last of which it calls 3999: it counts from 0, and that
    model has seen all 4,000 updates.

    Raises:
        ValueError: `steps` or `every` is not positive.
    """
    if steps < 1 or every < 1:
        raise ValueError(f"steps and every should be at least 1; got {steps} and {every}")
    return tuple(sorted({*(step for step in early if step < steps), *range(every, steps, every), steps}))


STEPS = checkpoint_steps()
"""The checkpoints of the original."""


@dataclass(frozen=True)
class TokenScores:
    """What each input token meant for each prediction of one model; ragged: values of all rows end to end.

    A row is a prediction: the class of a document, or a target token of a translation.

    Attributes:
        lengths: input tokens of each row, special ones among them.
        alpha: attention of each token.
        beta: keyword relevance of each token, towards the right answer.
        log_probability: of each row's right answer, as the model has it.
        right: whether the model held that the most probable one.
        delta: gradient influence of each token; `None` if it was not asked for.
    """

    lengths: Int64[Tensor, " row"]
    alpha: Float[Tensor, " token"]
    beta: Float[Tensor, " token"]
    log_probability: Float[Tensor, " row"]
    right: Bool[Tensor, " row"]
    delta: Float[Tensor, " token"] | None = None

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.lengths)

    @property
    def accuracy(self) -> float:
        """The share of rows that the model is right on."""
        return float(self.right.double().mean())

    @property
    def perplexity(self) -> float:
        r"""$\exp(-\frac{1}{T} \sum_t \log p(y_t))$ over all T rows."""
        return float(self.log_probability.double().mean().neg().exp())

    def of(self, row: int) -> dict[str, Float[Tensor, " token"]]:
        """`alpha`, `beta` and, if there is one, `delta` of one row."""
        start = int(self.lengths[:row].sum())
        names = ["alpha", "beta"] + (["delta"] if self.delta is not None else [])
        return {name: getattr(self, name)[start : start + int(self.lengths[row])] for name in names}


def relevance(
    model: Classifier | str | Path,
    documents: Documents,
    *,
    delta: bool = True,
    batch_size: int = 64,
) -> TokenScores:
    """What each word of some documents means to a model.

    Args:
        model: a classifier, or the path of a checkpoint of one; left in the mode it had, with no gradients.
        documents: any, evaluated in order of length, returned in their own order.
        delta: whether to compute the gradient influence, which costs twice the rest.
        batch_size: documents at a time; changes nothing but speed and memory.

    Raises:
        CheckpointError: there is no such checkpoint, or it is not of a `Classifier`.
        ValueError: there are no documents.
    """
    if not len(documents):
        raise ValueError("there should be documents; there are none")
    if not isinstance(model, nn.Module):
        model = Classifier.load(model)
    device = next(model.parameters()).device
    flat = {name: torch.empty(len(documents.tokens)) for name in ("alpha", "beta", "delta")}
    logits = torch.empty(len(documents))
    needed = {weight: weight.requires_grad for weight in model.parameters()}
    with evaluating(model):
        model.train(delta)  # cuDNN's LSTM differentiates in training mode only; nothing here depends on it
        try:
            for weight in needed:
                weight.requires_grad_(False)
            for batch in documents.in_batches(batch_size):
                places = documents.positions(batch.rows)
                values, logits[batch.rows] = _of_batch(model, batch.to(device), delta)
                for name, value in values.items():
                    flat[name][places] = value
        finally:
            for weight, need in needed.items():
                weight.requires_grad_(need)
    beta = documents.toward_label(flat["beta"])
    log_probability = F.logsigmoid(logits * (2 * documents.labels - 1))
    right = (logits > 0) == (documents.labels == 1)
    influence = flat["delta"] if delta else None
    return TokenScores(documents.lengths, flat["alpha"], beta, log_probability, right, influence)


def _of_batch(model: nn.Module, batch: Any, delta: bool) -> tuple[dict[str, Tensor], Tensor]:
    """Values of the words of a batch, document by document without padding, and the logits."""
    scale = torch.ones(batch.input_ids.shape, device=batch.input_ids.device) if delta else None
    with torch.set_grad_enabled(delta):
        output = model(batch.input_ids, batch.lengths, None if scale is None else scale.requires_grad_())
        values = {"alpha": output.alpha, "beta": output.beta}
        if scale is not None:
            log_probability = F.logsigmoid(output.logits * (2 * batch.labels - 1))
            (values["delta"],) = torch.autograd.grad(log_probability.sum(), scale)
    found = {name: value.detach()[batch.attention_mask].float().cpu() for name, value in values.items()}
    return found, output.logits.detach().float().cpu()
