r"""Scores of each source token for each target token: attention, keyword relevance, gradient influence.

For a target token $y_t$, which the model has to predict, and a source token $s$:

* `alpha`, attention: $\alpha_{ts}$, the share of the head's attention on the source token;
* `beta`, keyword relevance: $\log p(y_t)$ in the model if all attention were on the source token, that is
  if the context were $W_c h_s + b_c$; in a model trained with uniform attention, this is the study's
  $\beta^{\mathrm{uf}}$. Where context is added, we leave out the decoder's state, as the original does;
* `delta`, gradient influence: $\Delta_{ts} = \partial \log p(y_t) / \partial g_s$ at $g_s = 1$, where $g_s$
  multiplies the source token's vector. It is positive if more of that vector makes the target token more
  likely. (The sign is the original's: the bug that reverses it is in its half on classification.)

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns*, and the
authors' code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attnlib.generators.translation import PairBatch, Pairs, Subwords
from attnlib.models.attention import evaluating
from attnlib.models.bag_of_words import WordTranslation
from attnlib.models.base import without_cudnn
from attnlib.models.seq2seq import Decoded, Encoded, Seq2Seq, translate
from attnlib.stats.intervals import interval, redrawn
from attnlib.stats.ragged import RunScores
from attnlib.training.key import digest
from book.chapters.dynamics import TokenScores, kept_scores, over_training

CELLS = 4_000_000
"""The number of logits computed at a time, which nearly fit into a processor's cache."""


def source_scores(model: Seq2Seq, pairs: Pairs, *, delta: bool = True, batch_size: int = 64) -> TokenScores:
    """The scores of each source token for each target token, given the target tokens before it."""
    if not len(pairs):
        raise ValueError("there should be pairs of sentences; there are none")
    device = next(model.parameters()).device
    n_pairs, n_targets = int(pairs.pair_counts.sum()), len(pairs.predicted)
    flat = {name: torch.empty(n_pairs) for name in ("alpha", "beta", *["delta"] * delta)}
    log_probability, right = torch.empty(n_targets), torch.empty(n_targets, dtype=torch.bool)
    with evaluating(model):
        for batch in pairs.in_batches(batch_size):
            places, targets = pairs.positions(batch.rows), pairs.target_positions(batch.rows)
            batch = batch.to(device)
            with torch.no_grad():
                encoded = model.encode(batch.source, batch.source_lengths)
                decoded = model.decode(batch.target[:, :-1], encoded)
                relevance = keyword_relevance(model, batch, encoded, decoded)
                found = {"alpha": decoded.alpha[batch.pairs], "beta": relevance}
                logits = model.to_vocabulary(decoded.joined[batch.real])
            gold = batch.predicted[batch.real]
            log_probability[targets] = logits.log_softmax(-1).gather(1, gold[:, None])[:, 0].float().cpu()
            right[targets] = (logits.argmax(-1) == gold).cpu()
            if delta:
                found["delta"] = gradient_influence(model, batch)[batch.pairs]
            for name, values in found.items():
                flat[name][places] = values.float().cpu()
    return TokenScores(
        pairs.row_lengths, flat["alpha"], flat["beta"], log_probability, right, flat.get("delta")
    )


@torch.no_grad()
def keyword_relevance(
    model: Seq2Seq, batch: PairBatch, encoded: Encoded, decoded: Decoded
) -> Float[Tensor, " pairs"]:
    """Keyword relevance of every target token with every source token of a batch; see the module."""
    weights, bias = model.to_vocabulary.weight, model.to_vocabulary.bias
    if model.config.context == "added":  # without the decoder's state: the same for all target tokens
        lines = model.to_vocabulary(encoded.context).log_softmax(-1)
        gold = batch.predicted[:, None].expand(-1, lines.shape[1], -1)
        return lines.gather(2, gold).transpose(1, 2)[batch.pairs]
    joined = model.join(decoded.states[:, :, None], encoded.context[:, None])[batch.pairs]
    gold = batch.predicted[..., None].expand(-1, -1, batch.source.shape[1])[batch.pairs]
    found = joined.new_empty(len(joined))
    size = max(1, CELLS // len(weights))
    for start in range(0, len(joined), size):
        part, line = joined[start : start + size], gold[start : start + size]
        logits = torch.addmm(bias, part, weights.T)
        chosen, highest = logits.gather(1, line[:, None])[:, 0], logits.amax(1)
        # By hand, in place: torch's logsumexp takes three times as long.
        total = logits.sub_(highest[:, None]).exp_().sum(1).log_().add_(highest)
        found[start : start + size] = chosen - total
    return found


def gradient_influence(model: Seq2Seq, batch: PairBatch) -> Float[Tensor, "batch target source"]:
    """Delta of every target token with every source token of a batch; see the module."""
    needed = {weight: weight.requires_grad for weight in model.parameters()}
    try:
        for weight in needed:
            weight.requires_grad_(False)
        with torch.enable_grad(), without_cudnn():
            scale = torch.ones(batch.source.shape, device=batch.source.device, requires_grad=True)
            encoded = model.encode(batch.source, batch.source_lengths, scale)
            decoded = model.decode(batch.target[:, :-1], encoded)
            found = []
            for place in range(decoded.joined.shape[1]):
                lines = model.to_vocabulary(decoded.joined[:, place]).log_softmax(-1)
                gold = lines.gather(1, batch.predicted[:, place, None]).sum()
                found.append(torch.autograd.grad(gold, scale, retain_graph=True)[0])
    finally:
        for weight, need in needed.items():
            weight.requires_grad_(need)
    return torch.stack(found, 1)


def word_translation_scores(
    log_probabilities: Float[Tensor, "word word"], pairs: Pairs
) -> Float[Tensor, " pairs"]:
    r"""$\beta^{\mathrm{px}}$: the log-probability of each target token given each source token alone."""
    return log_probabilities[pairs.source_of_pair, pairs.target_of_pair]


def translations(
    model: Seq2Seq, pairs: Pairs, subwords: Subwords, width: int = 1, max_length: int = 100
) -> list[str]:
    """A model's translations of source sentences, as texts in their order; see `translate`."""
    device = next(model.parameters()).device
    texts = [""] * len(pairs)
    with evaluating(model):
        for batch in pairs.in_batches():
            batch = batch.to(device)
            ids, _ = translate(model, batch.source, batch.source_lengths, width, max_length)
            for row, line in zip(batch.rows.tolist(), ids.tolist(), strict=True):
                texts[row] = subwords.decode(line)
    return texts


def translation_quality(hypotheses: Sequence[str], references: Sequence[str], seed: int = 0) -> pd.DataFrame:
    """BLEU and chrF by sacrebleu, with bootstrap intervals over sentences."""
    from sacrebleu.metrics import BLEU, CHRF  # here, since its import loads tokenizers

    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError(
            f"there should be as many translations as references, at least one; got {len(hypotheses)} and "
            f"{len(references)}"
        )
    if missing := [row for row, text in enumerate(references) if not text.split()]:
        raise ValueError(f"references should have words; number {missing[0]} of {len(references)} has none")
    rows: list[dict[str, Any]] = []
    for name, metric in {"BLEU": BLEU(), "chrF": CHRF()}.items():
        # The statistics that sacrebleu sums over sentences: a resample is another sum.
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


ModelAt = Callable[[int], Seq2Seq]
"""Returns the model at a step."""


def translation_run(
    model_at: ModelAt,
    steps: Sequence[int],
    pairs: Pairs,
    folder: Path,
    delta_at: Iterable[int] = (),
) -> RunScores:
    """Scores of source tokens for each target token (a row; a sentence is a group) at each checkpoint."""
    chosen = set(delta_at)
    of_which = digest((pairs.source, pairs.source_lengths, pairs.target, pairs.target_lengths))[:16]

    def at(step: int) -> TokenScores:
        delta = step in chosen
        name = f"{of_which}-{step:08d}{'-delta' * delta}"
        whose = {"name": name, "run": folder.parent.name}
        path = folder / f"{name}.safetensors"
        return kept_scores(path, whose, lambda: source_scores(model_at(step), pairs, delta=delta))

    return over_training(steps, at, pairs.sentences.numpy())


def word_translation_run(model: WordTranslation, pairs: Pairs) -> RunScores:
    r"""$\beta^{\mathrm{px}}$ of a word-translation model, as a run with one checkpoint."""
    beta = word_translation_scores(model.relevance(), pairs).numpy()[None]
    lengths, groups = pairs.row_lengths.numpy(), pairs.sentences.numpy()
    return RunScores(lengths, np.zeros(1, dtype=np.int64), beta=beta, groups=groups)


def with_bleu(run: RunScores, bleu: Sequence[float]) -> RunScores:
    """The same run with BLEU (given in percent) as its accuracy, as a share, in place of token accuracy."""
    parts = {name: getattr(run, name) for name in ("lengths", "steps", "alpha", "beta", "delta", "groups")}
    return RunScores(**parts, accuracy=np.array(bleu) / 100)
