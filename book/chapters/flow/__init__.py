"""Quantifying Attention Flow: rollout, flow and raw attention beside blank-out."""

from book.chapters.flow.quantifying_flow import QuantifyingFlow

__all__ = ["QuantifyingFlow"]
