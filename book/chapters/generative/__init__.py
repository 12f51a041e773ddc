"""Rollout of language models that write: generated x prompt x layer."""

from book.chapters.generative.generative_rollout import GenerativeRollout

__all__ = ["GenerativeRollout"]
