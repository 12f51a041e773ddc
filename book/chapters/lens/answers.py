"""What a model answers to problems of arithmetic: one at a time, and on problems it has seen or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from attnlib.generators.arithmetic import Arithmetic, Splits
from attnlib.models.attention import evaluating
from attnlib.models.transformer import Transformer
from book.chapters.lens.measures import digit_rows, whole_answers

SEEN = ("seen in training", "not seen")
"""What a test problem can be, where splits overlap."""


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


def seen_rows(model: nn.Module, task: Arithmetic, splits: Splits) -> pd.DataFrame:
    """Whether a model is right on the test problems, on those that were training problems too, and on others.

    Returns:
        Columns `test problems` ("all", "seen in training", "not seen"), `problem` and `right`: every problem
        has a row in "all", and one more in the kind that it is of, by `Splits.seen`.
    """
    rows = whole_answers(digit_rows(model, task, splits.test))
    kinds = np.where(splits.seen(), "seen in training", "not seen")
    parts = [rows.assign(kind="all"), *(rows.assign(kind=kind)[kinds == kind] for kind in SEEN)]
    return pd.concat(parts, ignore_index=True).rename(columns={"kind": "test problems"})
