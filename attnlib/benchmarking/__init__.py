"""A benchmark of attribution methods against ground truth: random programs, compiled to transformers.

To evaluate a method, call `benchmark`; to evaluate a faithfulness metric, `benchmark_metric`. The modules
behind them, from the bottom up:

    programs       what a program computes, reads, and which tokens cause its output
    population     the distribution that programs are drawn from: `draw(seed)`
    compiling      a program as an exact transformer, whose weights may be disguised
    questions      predictions with known sources, and how well scores find them
    scoring        a number per program and method; statistics over programs
    exporting      a causal program as a GPT-2 of transformers
    learned        transformers that are trained on programs
    recording      the recorded scores of all methods
    entering       a method of your own beside them
    metrics        a faithfulness metric of your own beside 24 others
    costs          what a measure costs, in forward passes
"""

from typing import TYPE_CHECKING

from attnlib.lazily import lazily

if TYPE_CHECKING:
    from attnlib.benchmarking.entering import Result, benchmark
    from attnlib.benchmarking.metrics import MetricResult, benchmark_metric
    from attnlib.benchmarking.population import POPULATION, draw

__all__ = ["POPULATION", "MetricResult", "Result", "benchmark", "benchmark_metric", "draw"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, __file__)
