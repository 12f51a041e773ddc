"""Quantifying Attention Flow: rollout, flow and raw attention compared with occlusion and gradients."""

from book.chapters.flow.quantifying_flow import QuantifyingFlow

__all__ = ["QuantifyingFlow"]
