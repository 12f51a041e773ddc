"""Do faithfulness metrics rank attribution methods as the ground truth of a program does?

A metric removes tokens and reads the answer (`book.chapters.faithfulness_metrics.measures`). On every program
it ranks the methods of the benchmark, and so does the ground truth, by *reads* and by *causes*. Kendall's
rank correlation of the two orders is the metric's agreement on that program.

    python -m book.chapters.programs.measures --seeds 1000:1200 build/metrics

records the agreement in a file for each hundred seeds; after an interruption, complete files are not computed
again. With `--keep`, the files become the recorded rows of the package.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path

import torch

from attnlib.benchmarking.metrics import PUBLISHED, agreement_rows
from attnlib.benchmarking.questions import Questions as Asked
from attnlib.benchmarking.recording import gathered, in_chunks, seeds_of
from attnlib.files import write_atomically
from attnlib.models.transformer import Transformer
from book.chapters.attribution_benchmark.questions import Questions
from book.chapters.faithfulness_metrics.measures import PROTOCOLS, Numbers, Protocol, Scores, called
from book.chapters.faithfulness_metrics.perturbation import Case

FORMS = ("without the first", "comprehensiveness", "sufficiency", "deletion", "insertion", "LDS")
OPERATORS = ("mask", "replace")
READINGS = ("p", "log p")

METRICS = {name: PROTOCOLS[name] for name in (called(*each) for each in product(FORMS, OPERATORS, READINGS))}
"""The metrics that are compared: each form, with tokens masked or replaced, of p or of log p."""


def judge(
    seed: int, model: Transformer, questions: Asked, scores: Scores, metrics: Mapping[str, Protocol] = METRICS
) -> dict[str, Numbers]:
    """The faithfulness of each method's scores by each metric; see `agreement_rows`."""
    case = Case(model, as_case(seed, questions))
    return {name: metric(case, scores) for name, metric in metrics.items()}


def as_case(seed: int, questions: Asked) -> Questions:
    """The questions of a program in the format of the chapters on trained models."""
    right = torch.ones(len(questions), dtype=torch.bool)
    either = questions.reads | questions.causes
    return Questions(
        f"program {seed}",
        questions.ids,
        torch.ones_like(questions.ids, dtype=torch.bool),
        questions.query,
        questions.target,
        torch.from_numpy(either),
        torch.from_numpy(questions.candidates),
        right,
        right,
        questions.foil,
        questions.counterfactual,
    )


def main() -> int:
    """Record the agreement of metrics; returns the exit status."""
    parser = argparse.ArgumentParser(description="Record how metrics rank methods on programs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=seeds_of, default=range(1000, 1200), help="FIRST:LAST")
    parser.add_argument("--keep", action="store_true", help="make them the recorded rows of the package")
    args = parser.parse_args()
    torch.set_num_threads(1)
    in_chunks(args.seeds, args.folder, partial(agreement_rows, judge=judge))
    if args.keep:
        write_atomically(PUBLISHED, gathered(args.folder).to_parquet(index=False, compression="zstd"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
