"""Attention Lens: transformers trained on arithmetic, and where their heads look."""

from book.chapters.lens.arithmetic_lens import ArithmeticLens

__all__ = ["ArithmeticLens"]
