"""Attribution methods against ground truth: every method, on models whose sources are known."""

from book.chapters.attribution_benchmark.attribution_benchmark import AttributionBenchmark

__all__ = ["AttributionBenchmark"]
