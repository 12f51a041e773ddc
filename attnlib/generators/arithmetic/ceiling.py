"""The best that any model can do on a task that also asks for what nobody can know."""

from __future__ import annotations

import numpy as np

from attnlib.generators.arithmetic.splits import ENUMERATED
from attnlib.generators.arithmetic.task import Arithmetic
from attnlib.generators.base import IGNORE


def best_possible(task: Arithmetic) -> dict[str, float]:
    r"""Accuracy per token and cross entropy of a model that knows the task, but not which problem comes.

    With $n(x_{\le t})$ the number of problems that begin with the characters $x_{\le t}$, such a model
    predicts $p(x_t \mid x_{<t}) = n(x_{\le t}) / n(x_{<t})$. It is right with probability
    $\max_{x_t} p$, and its cross entropy is the entropy of $p$, both as means over all tokens asked for. An
    answer follows from its problem, so it costs nothing; operands do, where `operands_too` asks for them.

    Returns:
        `accuracy` and `cross_entropy` (in nats), exact: every problem counts once.

    Raises:
        ValueError: there are more problems than can be listed.
    """
    if task.space.size > ENUMERATED:
        raise ValueError(
            f"there are {task.space.size:,} problems, more than the {ENUMERATED:,} that can be listed: "
            "narrow numbers"
        )
    indices = np.arange(task.space.size)
    batch = task.batch(task.space.problems(indices[task.space.allowed(indices)]), reference=False)
    targets, ids = batch.target_ids.numpy(), batch.input_ids.numpy()
    prefix = np.zeros(len(ids), dtype=np.int64)
    right, entropy, asked = 0, 0.0, 0
    for read, target in zip(ids.T, targets.T, strict=True):
        prefix = np.unique(np.stack([prefix, read]), axis=1, return_inverse=True)[1]
        here = target != IGNORE
        _, n_prefix = np.unique(prefix[here], return_counts=True)
        (known, _), n_next = np.unique(np.stack([prefix[here], target[here]]), axis=1, return_counts=True)
        _, first = np.unique(known, return_index=True)
        right += np.maximum.reduceat(n_next, first).sum() if len(first) else 0
        entropy += (n_prefix * np.log(n_prefix)).sum() - (n_next * np.log(n_next)).sum()
        asked += here.sum()
    return {"accuracy": float(right / asked), "cross_entropy": float(entropy / asked)}
