"""How long the statistics of agreement take, and how long they would take one document at a time.

    python benchmarks/agreement.py

4,000 documents of 100 to 300 tokens and 1,000 more to choose checkpoints on, 20 checkpoints of five seeds and
of a run with uniform attention, scores of the embedding-only model and of logistic regression: the table, the
curve over training, and the table over seeds (with Kendall's tau without the last).

"Plain" is what one would write first: a loop over documents, numpy or scipy for each, one shuffle. It runs on
the first documents of the same scores, in turn with ours, and both count the documents of which they find the
agreement and its chance (ours exactly). The ratio is what to look at. Times are the processor's, on one core.
"""

from __future__ import annotations

import math
import time

import numpy as np
import pandas as pd
from scipy import stats

from attnlib.stats import (
    AgreementSettings,
    RunScores,
    agreement_over_seeds,
    agreement_over_training,
    agreement_table,
    split_rows,
)
from attnlib.stats.rank_measures import kendall_rows, match_chance_rows, match_rows

DOCUMENTS, FOR_SELECTION, CHECKPOINTS, PLAIN_DOCUMENTS = 4000, 1000, 20, 100
SEEDS = ("normal_A", "normal_B", "normal_C", "normal_D", "normal_E")


def noisy_runs() -> dict[str, RunScores]:
    """Scores that find the same relevance ever better, as float32."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(100, 301, DOCUMENTS + FOR_SELECTION)
    tokens, steps = int(lengths.sum()), 200 * np.arange(CHECKPOINTS)
    truth = rng.standard_normal(tokens, dtype=np.float32)
    signal = np.linspace(0, 2, CHECKPOINTS, dtype=np.float32)[:, None]

    def scores() -> np.ndarray:
        return signal * truth + rng.standard_normal((CHECKPOINTS, tokens), dtype=np.float32)

    right = rng.random((CHECKPOINTS, len(lengths))) < 0.5 + 0.2 * signal
    runs = {
        name: RunScores(
            lengths,
            steps,
            alpha=scores(),
            beta=scores() if name in SEEDS[:2] else None,
            delta=scores() if name == SEEDS[0] else None,
            right=right,
        )
        for name in SEEDS
    }
    runs["uniform"] = RunScores(lengths, steps, beta=scores(), right=right)
    for name in ("embedding", "logistic"):
        runs[name] = RunScores(lengths, np.zeros(1, dtype=int), beta=scores()[-1:])
    return runs


def plain_match(alpha: np.ndarray, beta: np.ndarray) -> int:
    """One document, by the definition."""
    return int(np.sum(beta > beta[np.argmax(alpha)]) < math.ceil(0.05 * len(beta)))


def plain_agreement(alphas: list, betas: list, measure: str) -> tuple[float, float]:
    """Mean over documents, and with each beta shuffled once."""
    rng, total, shuffled = np.random.default_rng(0), 0.0, 0.0
    for alpha, beta in zip(alphas, betas, strict=True):
        mixed = rng.permutation(beta)
        if measure == "kendall":
            total += stats.kendalltau(alpha, beta).statistic
            shuffled += stats.kendalltau(alpha, mixed).statistic
        else:
            total += plain_match(alpha, beta)
            shuffled += plain_match(alpha, mixed)
    return total / len(alphas), shuffled / len(alphas)


def ratio(runs: dict[str, RunScores], measure: str) -> dict[str, float | str]:
    """Documents per second of both, agreement and chance, over all checkpoints of one run."""
    alpha, betas = runs["normal_A"].scores("alpha").at(-1), runs["normal_B"].scores("alpha")
    few = np.arange(PLAIN_DOCUMENTS)
    rows = [alpha.take(few).rows(), *(betas.take(few).at(t).rows() for t in range(CHECKPOINTS))]
    ratios = []
    for _ in range(3):  # in turn, so that a machine that slows down slows both
        start = time.process_time()
        for beta in rows[1:]:
            plain_agreement(rows[0], beta, measure)
        plain = CHECKPOINTS * PLAIN_DOCUMENTS / (time.process_time() - start)
        start = time.process_time()
        kendall_rows(alpha, betas) if measure == "kendall" else match_rows(alpha, betas)
        if measure == "top match":
            match_chance_rows(betas)  # of rank correlations it is 0
        ours = CHECKPOINTS * DOCUMENTS / (time.process_time() - start)
        ratios.append((ours / plain, ours, plain))
    middle, ours, plain = sorted(ratios)[1]
    return {"measure": measure, "documents/s": ours, "plain, documents/s": plain, "ratio": middle}


def main() -> None:
    """Print the seconds of the whole, and the ratios."""
    runs = noisy_runs()
    selection, evaluation = split_rows(runs, share=FOR_SELECTION / (DOCUMENTS + FOR_SELECTION))
    rows = []
    tables = (agreement_table, agreement_over_training, agreement_over_seeds)
    for measure, functions in {"top match": tables, "kendall": tables[:2]}.items():
        for function in functions:
            start = time.process_time()
            function(evaluation, selection, settings=AgreementSettings(measure))
            seconds = time.process_time() - start
            rows.append({"measure": measure, "what": function.__name__, "seconds": seconds})
    print(pd.DataFrame(rows).to_string(index=False, float_format="{:.1f}".format))
    print(pd.DataFrame([ratio(evaluation, name) for name in ("top match", "kendall")]).to_string(
        index=False, float_format="{:,.0f}".format
    ))  # fmt: skip


if __name__ == "__main__":
    main()
