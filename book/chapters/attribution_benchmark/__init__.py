"""Where attention tells: every measure asked about models whose sources are known."""

from book.chapters.attribution_benchmark.attribution_benchmark import AttributionBenchmark

__all__ = ["AttributionBenchmark"]
