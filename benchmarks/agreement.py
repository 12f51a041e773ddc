"""How long the statistics of agreement take, and how long they would take one document at a time.

    python benchmarks/agreement.py [--record]

4,000 documents of 100 to 300 tokens and 1,000 more to choose checkpoints on, 20 checkpoints of five seeds and
of a run with uniform attention, scores of the embedding-only model and of logistic regression: the table, the
curve over training, and the table over seeds (with Kendall's tau without the last).

"Plain" is what one would write first: a loop over documents, numpy or scipy for each, one shuffle. It runs on
the first documents of the same scores, in turn with ours, and both count the documents of which they find the
agreement and its chance (ours exactly). The ratio is what to look at.
"""

from __future__ import annotations

import math
import time

import numpy as np
import torch
from scipy import stats
from timing import PLAIN, Line, Way, common_options, compared, report

from attnlib.stats import Agreements, AgreementSettings, RunScores, split_rows
from attnlib.stats.rank_measures import kendall_rows, match_chance_rows, match_rows

DOCUMENTS, FOR_SELECTION, CHECKPOINTS, PLAIN_DOCUMENTS = 4000, 1000, 20, 100
MEASURES = {"top match": "top match", "kendall": "Kendall's tau"}
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


def documents(runs: dict[str, RunScores], measure: str) -> Line:
    """Documents per second of both, agreement and chance, over all checkpoints of one run."""
    alpha, betas = runs["normal_A"].scores("alpha").at(-1), runs["normal_B"].scores("alpha")
    few = np.arange(PLAIN_DOCUMENTS)
    first = alpha.take(few).rows()
    rows = [betas.take(few).at(t).rows() for t in range(CHECKPOINTS)]

    def ours() -> None:
        if measure == "kendall":
            kendall_rows(alpha, betas)  # its chance is 0
        else:
            match_rows(alpha, betas)
            match_chance_rows(betas)

    plain = Way(CHECKPOINTS * PLAIN_DOCUMENTS, lambda: [plain_agreement(first, row, measure) for row in rows])
    what = f"documents, {MEASURES[measure]}"
    return compared(what, Way(CHECKPOINTS * DOCUMENTS, ours), {PLAIN: plain})


def whole(runs: dict[str, RunScores], selection: dict[str, RunScores]) -> list[Line]:
    """Processor seconds of each table of the study."""
    tables = {"agreement": Agreements.table, "over training": Agreements.over_training}
    lines: list[Line] = []
    for measure, name in MEASURES.items():
        functions = tables | ({"over seeds": Agreements.over_seeds} if measure == "top match" else {})
        for what, function in functions.items():
            start = time.process_time()
            function(Agreements.of(runs, selection, settings=AgreementSettings(measure)))
            lines.append({"what": f"{what}, {name}", "seconds": time.process_time() - start})
    return lines


def main() -> None:
    """Print the seconds of the whole, and the ratios."""
    options = common_options(__doc__).parse_args()
    torch.set_num_threads(1)
    runs = noisy_runs()
    selection, evaluation = split_rows(runs, share=FOR_SELECTION / (DOCUMENTS + FOR_SELECTION))
    report("agreement_tables", whole(evaluation, selection), options.record)
    report("agreement", [documents(evaluation, measure) for measure in MEASURES], options.record)


if __name__ == "__main__":
    main()
