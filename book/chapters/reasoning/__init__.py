"""Attend or Perish: algorithmic tasks in and out of distribution, and whether attention decides."""

from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning
from book.chapters.reasoning.attention_intervention import AttentionIntervention

__all__ = ["AlgorithmicReasoning", "AttentionIntervention"]
