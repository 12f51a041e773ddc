"""Approximating How Single Head Attention Learns: text classification."""

from book.chapters.classification.classification_dynamics import ClassificationDynamics

__all__ = ["ClassificationDynamics"]
