"""Judging the judges: which test of faithfulness ranks measures as the known answers do?"""

from book.chapters.faithfulness_metrics.faithfulness_metrics import FaithfulnessMetrics

__all__ = ["FaithfulnessMetrics"]
