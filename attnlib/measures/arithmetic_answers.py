"""What a model answers to problems of arithmetic: one at a time, and on problems it has seen or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn

from attnlib.generators.arithmetic import Arithmetic, Splits
from attnlib.generators.base import IGNORE, Batch
from attnlib.measures.lens import digit_rows
from attnlib.models.attention import evaluating
from attnlib.models.transformer import Transformer
from attnlib.stats.intervals import proportion, ratio


@torch.no_grad()
def solve(model: Transformer, task: Arithmetic, text: str) -> str:
    """What a model writes behind the = of a problem, its most probable token each time.

    Args:
        model: trained on the task, or on its way there; it stops at its end token, or after as many tokens as
            the longest answer of the task has.
        task: how problems are written.
        text: such as "12+34=".

    Returns:
        The answer as the model writes it; right or wrong, and not always a number.

    Raises:
        ValueError: the text is not a problem of the task, or problem and answer are longer than the model can
            read.
    """
    ids = task.prompt(text)
    longest = task.max_length - (task.space.n_operands * (task.widths[0] + 1) + 1)
    if len(ids) + longest > model.config.max_length:
        raise ValueError(
            f"{text!r} has {len(ids)} tokens and its answer up to {longest}, and this model reads at most "
            f"max_length={model.config.max_length}: take a shorter problem, or a model built for longer ones"
        )
    ids = ids[None].to(next(model.parameters()).device)
    start = ids.shape[1]
    with evaluating(model):
        for _ in range(longest + 1):
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], dim=1)
            if int(ids[0, -1]) == task.tokenizer.eos_token_id:
                break
    return task.tokenizer.decode(ids[0, start:], skip_special_tokens=True)


@torch.no_grad()
def forming(models: Iterable[Transformer], task: Arithmetic, text: str) -> dict[str, Any]:
    """One problem at every checkpoint, as `attnlib.widgets.TrainingExplorer` shows it.

    Args:
        models: of each checkpoint.
        task: of the problem.
        text: the problem; the attention is that of reading it with its right answer.

    Returns:
        `tokens`, `attentions` [checkpoint layer head query key], `answers` (what each model writes),
        `references` and `expected`.

    Raises:
        ValueError: see `solve`.
    """
    sample, attentions, answers = task.annotate(text), [], []
    for model in models:
        device = next(model.parameters()).device
        read = model(sample.input_ids[None].to(device), output_attentions=True)
        attentions.append(read.attentions[0].cpu())
        answers.append(solve(model, task, text))
    return {
        "tokens": task.tokenizer.convert_ids_to_tokens(sample.input_ids.tolist()),
        "attentions": torch.stack(attentions),
        "answers": answers,
        "references": sample.reference,
        "expected": sample.text.partition("=")[2],
    }


@torch.no_grad()
def token_figures(model: nn.Module, batches: Iterable[Batch]) -> pd.DataFrame:
    """Accuracy and cross entropy per token asked for, with intervals over samples.

    Returns:
        Rows `accuracy` and `cross_entropy` (in nats, so that it may exceed 1); columns `value`, `low`, `high`
        and `n`.
    """
    device, parts = next(model.parameters()).device, []
    for batch in batches:
        batch = batch.to(device)
        logits = model(batch.input_ids, attention_mask=batch.attention_mask).logits
        asked = batch.target_ids != IGNORE
        losses = F.cross_entropy(logits.mT, batch.target_ids, ignore_index=IGNORE, reduction="none")
        right = (logits.argmax(-1) == batch.target_ids) & asked
        parts.append(torch.stack([right.sum(1), losses.sum(1), asked.sum(1)], dim=1).double().cpu())
    right, losses, asked = torch.cat(parts).numpy().T
    rows = {"accuracy": ratio(right, asked), "cross_entropy": ratio(losses, asked)}
    return pd.DataFrame(rows.values(), index=pd.Index(rows, name="metric"))


def seen_table(model: nn.Module, task: Arithmetic, splits: Splits) -> pd.DataFrame:
    """Exact match on the test problems that were training problems too, on those that were not, and on all.

    Returns:
        Columns `test problems` ("all", "seen in training", "not seen"), `value`, `low`, `high` and `n`; kinds
        without a problem are left out.
    """
    seen = splits.seen()
    rows = digit_rows(model, task, splits.test)
    right = rows.groupby("problem")["right"].all().to_numpy()
    kinds = {"all": np.ones_like(seen), "seen in training": seen, "not seen": ~seen}
    table = [
        {"test problems": kind} | proportion(int(right[mask].sum()), int(mask.sum()))._asdict()
        for kind, mask in kinds.items()
        if mask.any()
    ]
    return pd.DataFrame(table)
