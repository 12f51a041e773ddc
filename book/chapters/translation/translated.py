"""Whole translations of a model, and how like the references they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from attnlib.generators.translation import Pairs, Subwords
from attnlib.models.attention import evaluating
from attnlib.models.seq2seq import Seq2Seq, translate
from attnlib.stats.intervals import interval, redrawn


def translations(
    model: Seq2Seq,
    pairs: Pairs,
    subwords: Subwords,
    width: int = 1,
    max_length: int = 100,
    batch_size: int = 64,
) -> list[str]:
    """What a model makes of source sentences, as texts, in their order; see `translate`.

    Args:
        model: called in evaluation mode.
        pairs: whose source sentences are translated.
        subwords: their tokens.
        width: 1, greedily; more, by beam search.
        max_length: tokens at most.
        batch_size: sentences at a time; changes nothing but speed and memory.
    """
    device = next(model.parameters()).device
    texts = [""] * len(pairs)
    with evaluating(model):
        for batch in pairs.in_batches(batch_size):
            batch = batch.to(device)
            ids, _ = translate(model, batch.source, batch.source_lengths, width, max_length)
            for row, line in zip(batch.rows.tolist(), ids.tolist(), strict=True):
                texts[row] = subwords.decode(line)
    return texts


def translation_quality(hypotheses: Sequence[str], references: Sequence[str], seed: int = 0) -> pd.DataFrame:
    """BLEU and chrF by sacrebleu, with intervals by drawing sentences again.

    Args:
        hypotheses: what was translated; an empty one counts, as the bad translation it is.
        references: what it should be, in the same order.
        seed: of the resamples.

    Returns:
        Columns `metric`, `value`, `low`, `high` (in percent, as both are given by custom), `n` (sentences),
        `empty` (hypotheses without a word) and `signature` (sacrebleu's, which says how it was computed).

    Raises:
        ValueError: there are no sentences, or not as many references, or a reference is empty.
    """
    from sacrebleu.metrics import BLEU, CHRF  # only here: it reads its tokenizers when it is imported

    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError(
            f"there should be as many translations as references, at least one; got {len(hypotheses)} and "
            f"{len(references)}"
        )
    if missing := [row for row, text in enumerate(references) if not text.split()]:
        raise ValueError(f"references should have words; number {missing[0]} of {len(references)} has none")
    rows: list[dict[str, Any]] = []
    for name, metric in {"BLEU": BLEU(), "chrF": CHRF()}.items():
        # What sacrebleu itself adds up over sentences: a resample is another sum.
        counts = np.array(
            metric._extract_corpus_statistics(list(hypotheses), [list(references)]), dtype=float
        )
        score = lambda sums: float(metric._compute_score_from_stats(sums.tolist()).score)  # noqa: B023, E731
        draws = [score(each) for times in redrawn(len(counts), seed) for each in times @ counts]
        ends = dict(zip(("low", "high"), interval(np.array(draws)), strict=True))
        rows.append(
            {"metric": name, "value": score(counts.sum(0)), **ends, "n": len(hypotheses)}
            | {"empty": sum(not text.split() for text in hypotheses)}
            | {"signature": str(metric.get_signature())}
        )
    return pd.DataFrame(rows)


@torch.no_grad()
def bleu(model: Seq2Seq, pairs: Pairs, subwords: Subwords, width: int = 1) -> float:
    """BLEU of a model's translations, in percent, without an interval: for curves over training."""
    from sacrebleu.metrics import BLEU

    texts = translations(model, pairs, subwords, width)
    return float(BLEU().corpus_score(texts, [[target for _, target in pairs.texts]]).score)
