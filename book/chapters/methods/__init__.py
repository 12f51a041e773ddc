"""Rollout and flow, explained on one example."""

from book.chapters.methods.methods import Methods

__all__ = ["Methods"]
