"""The data of the figure of one sentence: every score of its words, layer by layer."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlib.models.attention import evaluating
from book.chapters.flow.agreement import Sentence, SentenceTask, TokenizedTask
from book.chapters.flow.measures import FLOW, RAW, ROLLOUT, SentenceScores


def sentence_map(
    model: nn.Module, task: SentenceTask | TokenizedTask, sentence: Sentence
) -> tuple[list[str], Float[Tensor, "row key"], int]:
    """All scores of one sentence, each row scaled so that its largest value is 1."""
    seen = SentenceScores(model, task, [sentence], (RAW, ROLLOUT, FLOW), ())
    named = {
        f"{way} {layer}": row[0]
        for way in (RAW, ROLLOUT, FLOW)
        for layer, row in enumerate(seen.scores[way], 1)
    }
    named |= {name: row[0] for name, row in seen.relevance.items()}
    rows = torch.stack([*named.values()])
    batch = task.batch([sentence]).to(next(model.parameters()).device)
    query = batch.input_ids.shape[1] - 1 if task.at_end else 0
    with evaluating(model), torch.no_grad():
        predicted = int(model(**batch.inputs).logits[0, query].argmax())
    return [*named], rows / rows.amax(1, keepdim=True), predicted
