"""Records of runs, the records that came with the book, and the papers' figures for comparison."""
# ruff: noqa: F401

from book.chapters.records.numbers import (
    Words,
    came_with_the_book,
    counted,
    in_words,
    learned_best,
    made_alike,
    one_number,
)
from book.chapters.records.papers import (
    as_printed,
    beside_the_paper,
    paper_figures,
    paper_grid,
    paper_verdicts,
    paper_vs_here,
)
from book.chapters.records.runs import device_name, record, records
from book.chapters.records.scale import share_of_scale

__all__ = [name for name, each in vars().copy().items() if callable(each)]
