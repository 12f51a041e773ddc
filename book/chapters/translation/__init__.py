"""Approximating How Single Head Attention Learns: translation."""

from book.chapters.translation.translation_dynamics import TranslationDynamics

__all__ = ["TranslationDynamics"]
