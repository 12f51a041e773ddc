"""Answers that a model generates itself, and whether they are right."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn
from transformers import GenerationConfig

from attnlib.generators.base import IGNORE, Batch
from attnlib.measures.evaluation import answer_rows, rows_of_batches
from attnlib.measures.returned import is_followed
from attnlib.models.attention.forward import check_prompt, context_of
from attnlib.models.transformer import Transformer


@torch.no_grad()
def generate_answers(model: nn.Module, batches: Iterable[Batch], *, progress: bool = False) -> pd.DataFrame:
    """The answers that a model generates by greedy decoding, beside the right answers.

    A sample's prompt ends at the first position that has a target. The model generates as many tokens as the
    right answer has (including an end-of-sequence token, if that is a target), each from its own tokens so
    far. Apart from ties, an answer is right as a whole exactly if `evaluate_rows` predicts all its tokens
    right. Accuracies per token differ, since a wrong token can make later ones wrong.

    Args:
        model: as in `evaluate_rows`. Hugging Face models generate with their own `generate`; prompts of a
            batch are padded on the left. Other modules, of which only the output is known, read each prompt
            without padding, once for every generated token.
        batches: as in `evaluate_rows`; reference attention is not needed.
        progress: show a bar.

    Returns:
        A row per token of the answers: `sample`, `position`, `n_answer`, `target`, `predicted`, `correct`, as
        in `evaluate_rows`; `answer_accuracy`, `error_positions` and `answer_texts` take these rows.

    Raises:
        ValueError: the model is not causal; there are no batches; or the answers do not fit the model's
            context.
    """

    def rows_of(batch: Batch) -> pd.DataFrame:
        asked = batch.target_ids != IGNORE
        position = (asked.cumsum(1) - 1)[asked]
        return answer_rows(batch, _written(model, batch, asked)[asked.nonzero()[:, 0], position])

    return rows_of_batches(model, batches, rows_of, "generation", progress)


def _written(
    model: nn.Module, batch: Batch, asked: Bool[Tensor, "batch token"]
) -> Int64[Tensor, "batch answer"]:
    """The generated tokens; every sample has as many columns as the longest answer has tokens."""
    ids, real = _prompts(batch, asked)
    wanted = asked.sum(1).tolist()
    if not (new := max(wanted)):
        return ids[:, :0]
    write = _greedy if isinstance(model, Transformer) or not is_followed(model) else _generate
    context = context_of(model)
    if is_followed(model) and (context is None or ids.shape[1] + new - 1 <= context):
        return write(model, ids, real, new)
    written = ids.new_zeros(len(ids), new)  # one at a time: each needs room only for itself
    for sample, own in enumerate(real):
        if n := wanted[sample]:
            prompt = ids[sample : sample + 1, own]
            check_prompt(model, prompt, None, more=n - 1)  # the last generated token is not read
            written[sample, :n] = write(model, prompt, torch.ones_like(prompt, dtype=torch.bool), n)[0]
    return written


def _prompts(
    batch: Batch, asked: Bool[Tensor, "batch token"]
) -> tuple[Int64[Tensor, "batch prompt"], Bool[Tensor, "batch prompt"]]:
    """Prompts, padded on the left, and their mask; a sample without targets has its first token as prompt."""
    lengths = torch.where(asked.any(1), asked.int().argmax(1) + 1, 1)
    longest = int(lengths.max())
    places = torch.arange(longest, device=lengths.device) - (longest - lengths)[:, None]
    real = places >= 0
    return batch.input_ids.gather(1, places.clamp(min=0)), real


def _greedy(
    model: nn.Module, ids: Int64[Tensor, "batch prompt"], real: Bool[Tensor, "batch prompt"], new: int
) -> Int64[Tensor, "batch new"]:
    for _ in range(new):
        chosen = model(input_ids=ids, attention_mask=real).logits[:, -1:].argmax(-1)
        ids = torch.cat([ids, chosen], 1)
        real = torch.cat([real, torch.ones_like(chosen, dtype=torch.bool)], 1)
    return ids[:, -new:]


def _generate(
    model: Any, ids: Int64[Tensor, "batch prompt"], real: Bool[Tensor, "batch prompt"], new: int
) -> Int64[Tensor, "batch new"]:
    """Generate greedily with Hugging Face's `generate`, without the model's settings or early stopping."""
    config = GenerationConfig(
        max_new_tokens=new, do_sample=False, num_beams=1, repetition_penalty=1.0, pad_token_id=0
    )
    plain = copy.copy(model)  # shares weights; the model's own settings would replace None
    plain.generation_config = config
    return plain.generate(ids, attention_mask=real.long())[:, ids.shape[1] :]


def answer_texts(rows: pd.DataFrame, tokenizer: Any) -> pd.DataFrame:
    """Right and predicted answers as texts, one row per sample.

    Args:
        rows: rows of `generate_answers`, or of `evaluate_rows` (where each token is predicted from the right
            tokens, so that the model did not generate the predicted text as a whole).
        tokenizer: a Hugging Face tokenizer; special tokens are left out of the texts.

    Returns:
        Columns `sample`, `target`, `predicted` (texts), `right` (number of right tokens), `n_answer` and
        `correct` (whether all tokens are right).
    """
    table = []
    for sample, group in rows.groupby("sample"):
        texts = {
            name: tokenizer.decode(group[name].tolist(), skip_special_tokens=True)
            for name in ("target", "predicted")
        }
        right, n = int(group["correct"].sum()), len(group)
        table.append({"sample": sample, **texts, "right": right, "n_answer": n, "correct": right == n})
    columns = ["sample", "target", "predicted", "right", "n_answer", "correct"]
    return pd.DataFrame(table, columns=columns)
