"""Which faithfulness metric ranks attribution methods as the ground truth does?"""

from book.chapters.faithfulness_metrics.faithfulness_metrics import FaithfulnessMetrics

__all__ = ["FaithfulnessMetrics"]
