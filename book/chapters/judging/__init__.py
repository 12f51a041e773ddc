"""Judging the judges: which test of faithfulness ranks measures as the known answers do?"""

from book.chapters.judging.judging_measures import JudgingMeasures

__all__ = ["JudgingMeasures"]
