"""Attention of copiers and their heads during training, and the relevance of single encoder states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attnlib.files import save_tensors
from attnlib.generators.copying import CopyBatch
from attnlib.models.base import evaluating
from attnlib.models.copier import Copied, Copier
from attnlib.training.keeping import Keeper, load_own

OFFSETS = {"one before": -1, "on it": 0, "one after": 1}
"""Places of the largest attention, relative to the token to copy."""


@torch.no_grad()
def copying_look(
    model: Copier, batch: CopyBatch, shown: CopyBatch | None = None, *, relevance: bool = False
) -> dict[str, Tensor]:
    """The accuracy, attention and optionally relevance of parallel models, by name.

    With `relevance`, also the numbers of `information`; with `shown`, attention and predictions there.
    """
    with evaluating(model):
        batch = batch.to(model.embedding.device)
        copied = model(**batch.inputs)
        log_probability = copied.logits.log_softmax(-1)
        gold = log_probability.gather(-1, batch.predicted[..., None])
        found = {
            "accuracy": (log_probability.argmax(-1) == batch.predicted).float().mean((1, 2)),
            "cross_entropy": -gold.mean((1, 2, 3)),
        }
        if model.config.context == "attention":
            found |= _where(copied.alpha)
        if relevance:
            found |= information(state_relevance(model, batch, copied), batch)
        if shown is not None:
            copied = model(**shown.to(model.embedding.device).inputs)
            found |= {"alpha": copied.alpha.mean(2), "predicted": copied.logits.argmax(-1)}
    return {name: value.cpu() for name, value in found.items()}


def _where(alpha: Float[Tensor, "model batch head target source"]) -> dict[str, Tensor]:
    offsets = alpha.argmax(-1) - torch.arange(alpha.shape[-2], device=alpha.device)
    found = {name: (offsets == offset).float().mean((1, 2, 3)) for name, offset in OFFSETS.items()}
    return found | {"mass": alpha.diagonal(dim1=-2, dim2=-1).mean((1, 2, 3))}


@torch.no_grad()
def state_relevance(
    model: Copier, batch: CopyBatch, copied: Copied | None = None
) -> Float[Tensor, "model batch target source"]:
    r"""Keyword relevance of every source state: the correct id's log-probability with that state as context.

    $$\beta_{ts} = \log p(y_t \mid d_t, c = C h_s + b)$$

    (the mean over heads, if there are several). In a model with uniform attention, this is the study's
    $\beta^{\mathrm{uf}}$.
    """
    if model.config.context == "none":
        raise ValueError('without context no state is relevant: context should not be "none"')
    with evaluating(model):
        copied = copied or model(**batch.inputs)
        contexts = model.context_of(copied.encoded.states[:, :, None])
        pieces = []
        for row in range(batch.source.shape[1]):  # one sequence at a time, to save memory
            one = slice(row, row + 1)
            logits = model.next_logits(copied.states[:, one, :, None], contexts[:, one, None])
            gold = batch.predicted[:, one, :, None, None].expand(*logits.shape[:-1], 1)
            pieces.append(logits.log_softmax(-1).gather(-1, gold)[..., 0])
    return torch.cat(pieces, 1)


def information(
    beta: Float[Tensor, "model batch target source"], batch: CopyBatch
) -> dict[str, Float[Tensor, " model"]]:
    """How well relevance locates the symbol to copy: its `auc`, and how often it is `largest` there.

    The end token is not evaluated. Other places with the same symbol count as neither right nor wrong.
    """
    others = ~batch.elsewhere[:, :, :-1]
    right = beta.diagonal(dim1=-2, dim2=-1)[:, :, :-1, None]
    beta = beta[:, :, :-1]
    others &= ~torch.eye(beta.shape[-1], dtype=torch.bool, device=beta.device)[:-1]
    less = ((beta < right).float() + (beta == right).float() / 2) * others
    auc = less.sum(-1) / others.sum(-1)
    ahead = ((beta > right) & others).any(-1)
    ties = 1 + ((beta == right) & others).sum(-1)
    return {"auc": auc.mean((1, 2)), "largest": (~ahead / ties).mean((1, 2))}


class CopyingLooks(Keeper):
    """A hook that stores `copying_look` after chosen updates, one file each, which a killed run keeps."""

    KIND, FOLDER = "look", "looks"

    def __init__(
        self,
        steps: Iterable[int],
        batch: CopyBatch,
        shown: CopyBatch | None = None,
        *,
        relevance: bool = False,
    ) -> None:
        super().__init__(steps)
        self.batch, self.shown, self.relevance = batch, shown, relevance

    @property
    def cache_key(self) -> Any:
        """The parameters that determine the files' contents."""
        return self.steps, self.batch, self.shown, self.relevance

    def paths(self, step: int) -> list[Path]:
        """The file of a step."""
        return [self.home / f"step-{step:08d}.safetensors"]

    def look(self, model: Copier) -> dict[str, Tensor]:
        """The measurements of the models at this moment."""
        return copying_look(model, self.batch, self.shown, relevance=self.relevance)

    def write(self, step: int, model: Any) -> None:
        """Measure the models, and write the file of a step."""
        header = {"kind": self.KIND, "run": self.run, "step": step}
        save_tensors(self.paths(step)[0], self.look(model), header)

    def at(self, step: int) -> dict[str, Tensor]:
        """The measurements at a step."""
        return load_own(self.paths(step)[0], self.run, kind=self.KIND, step=step)[0]

    def curves(self, seeds: Iterable[int]) -> pd.DataFrame:
        """Measurements by training step: columns `seed`, `step`, `n` (sequences), those of `copying_look`."""
        seeds, n, tables = list(seeds), self.batch.source.shape[1], []
        for step in self.steps:
            seen = sorted(self.at(step).items())  # a file keeps no order
            numbers = {name: value.tolist() for name, value in seen if value.ndim == 1}
            tables.append(pd.DataFrame({"seed": seeds, "step": step, "n": n} | numbers))
        return pd.concat(tables, ignore_index=True)

    def attention(self, model: int, sequence: int = 0) -> Float[Tensor, "step target source"]:
        """The attention of one model on one of the sequences shown, over training."""
        return torch.stack([self.at(step)["alpha"][model, sequence] for step in self.steps])

    def written(self, model: int, sequence: int = 0) -> list[list[int]]:
        """The most probable ids in one model for one of the sequences shown, over training."""
        return [self.at(step)["predicted"][model, sequence].tolist() for step in self.steps]


PREFERENCES = (*OFFSETS, "other symbols", "ahead of both", "beyond place", "rank")
"""The columns of `initial_preference`."""


@torch.no_grad()
def head_look(model: Copier, batch: CopyBatch) -> dict[str, Tensor]:
    """The accuracy of parallel models, and how often each head attends most to the token to copy."""
    with evaluating(model):
        batch = batch.to(next(model.parameters()).device)
        copied = model(**batch.inputs)
    right = copied.logits.argmax(-1) == batch.predicted
    places = torch.arange(copied.alpha.shape[-2], device=copied.alpha.device)
    on_it = (copied.alpha.argmax(-1) == places).float().mean((1, 3))
    return {"accuracy": right.float().mean((1, 2)).cpu(), "on it": on_it.cpu()}


class HeadLooks(CopyingLooks):
    """A hook that stores `head_look` at chosen steps of training, one file each: see `CopyingLooks`."""

    KIND, FOLDER = "look at heads", "looks"

    def look(self, model: Copier) -> dict[str, Tensor]:
        """The measurements of the models and their heads at this moment."""
        return head_look(model, self.batch)


@torch.no_grad()
def initial_preference(model: Copier, batch: CopyBatch, heads: Sequence[int]) -> pd.DataFrame:
    """The attention of untrained heads on the token to copy and on others: the columns `PREFERENCES`.

    Means are over sequences and over places with a neighbour on either side. "ahead of both" is attention on
    the token to copy minus the mean of its two neighbours; "beyond place" is the same attention minus what
    other queries give to that place; "rank" is the share of other tokens with less attention (ties: half).
    """
    with evaluating(model):
        alpha = model(**batch.to(next(model.parameters()).device).inputs).alpha[:, :, 0]
    n = alpha.shape[-1]
    t, source = torch.arange(1, n - 1, device=alpha.device), torch.arange(n, device=alpha.device)
    rows = alpha[:, :, t]
    right = rows[..., torch.arange(len(t)), t]
    found = {name: rows[..., torch.arange(len(t)), t + at].mean((1, 2)) for name, at in OFFSETS.items()}
    far = ((t[:, None] - source).abs() > 1) & (source < n - 1)
    found["other symbols"] = rows[..., far].mean((1, 2))
    found["ahead of both"] = found["on it"] - (found["one before"] + found["one after"]) / 2
    others = (rows[..., t].sum(-2) - right) / (len(t) - 1)
    found["beyond place"] = (right - others).mean((1, 2))
    equal = (rows == right[..., None]).sum(-1) - 1
    less = (rows < right[..., None]).sum(-1)
    found["rank"] = ((less + equal / 2) / (n - 1)).mean((1, 2))
    return pd.DataFrame({"head": list(heads)} | {name: found[name].tolist() for name in PREFERENCES})
