"""Attend or Perish: algorithmic tasks in and out of distribution, and whether attention decides."""

from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning
from book.chapters.reasoning.looking_decides import LookingDecides

__all__ = ["AlgorithmicReasoning", "LookingDecides"]
