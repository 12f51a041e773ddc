"""What attention heads are like before training, and which of several finds the token to copy."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor

from attnlib.generators.copying import CopyBatch
from attnlib.models.base import evaluating
from attnlib.models.copier import Copier
from book.chapters.copying.measures import OFFSETS, CopyingLooks

PREFERENCES = (*OFFSETS, "other symbols", "ahead of both", "beyond place", "rank")
"""The columns of `initial_preference`."""


@torch.no_grad()
def head_look(model: Copier, batch: CopyBatch) -> dict[str, Tensor]:
    """How well models copy, and where each of their heads looks.

    Args:
        model: on any device; called in evaluation mode, and left in the mode it had.
        batch: sequences of each model.

    Returns:
        On the CPU: `accuracy` of each model (the end counted); and `on it` [model head], the share of target
        places whose largest attention is on the token to copy.
    """
    with evaluating(model):
        batch = batch.to(next(model.parameters()).device)
        copied = model(**batch.inputs)
    right = copied.logits.argmax(-1) == batch.predicted
    places = torch.arange(copied.alpha.shape[-2], device=copied.alpha.device)
    on_it = (copied.alpha.argmax(-1) == places).float().mean((1, 3))
    return {"accuracy": right.float().mean((1, 2)).cpu(), "on it": on_it.cpu()}


class HeadLooks(CopyingLooks):
    """A hook that keeps `head_look` at chosen steps of training, a file each: see `CopyingLooks`."""

    KIND, FOLDER = "look at heads", "looks"

    def look(self, model: Copier) -> dict[str, Tensor]:
        """What is to be seen of models and their heads now."""
        return head_look(model, self.batch)


@torch.no_grad()
def initial_preference(model: Copier, batch: CopyBatch, heads: Sequence[int]) -> pd.DataFrame:
    r"""How much heads prefer the token to copy before they learn anything.

    With $\alpha_{ts}$ the attention of target place t to source token s, averaged over sequences and over
    those places that have a token on either side of the one to copy ($t = 1, \ldots, n - 1$ for n symbols):

    Args:
        model: models of one head each, not trained.
        batch: sequences of each model.
        heads: what to call the models' heads.

    Returns:
        A row per head: `head`; `on it`, `one before` and `one after`: $\alpha_{tt}$, $\alpha_{t,t-1}$ and
        $\alpha_{t,t+1}$; `other symbols`: the mean over symbols further away (the end is none); `ahead of
        both`: the first less the mean of the two beside it; `beyond place`: the first less what the same
        token gets from the other target places; `rank`: the share of other source tokens with less attention
        than the one to copy, equals counted half.

    Raises:
        ValueError: models have several heads, or sequences fewer than three symbols.
    """
    if model.config.n_heads != 1 or batch.source.shape[-1] < 4:
        raise ValueError(
            f"models should have one head, and sequences at least 3 symbols; got {model.config.n_heads} "
            f"heads and {batch.source.shape[-1] - 1} symbols"
        )
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
