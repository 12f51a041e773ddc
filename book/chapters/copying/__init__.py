"""Approximating How Single Head Attention Learns: copying sequences, good and bad heads."""

from book.chapters.copying.sequence_copying import SequenceCopying

__all__ = ["SequenceCopying"]
