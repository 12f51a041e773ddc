"""Arithmetic: sums, differences and products, written out for a model to answer.

This is the task of Attention Lens (a repository without a paper), extended by other operators, numbers and
ways of writing, disjoint splits, and the reference attention of column-wise arithmetic on paper.
"""

from attnlib.generators.arithmetic.attention import KINDS
from attnlib.generators.arithmetic.files import read_files, read_or_write, write_files
from attnlib.generators.arithmetic.problems import OPERATORS, Problems
from attnlib.generators.arithmetic.splits import Space, Splits
from attnlib.generators.arithmetic.task import Arithmetic, arithmetic, best_possible

__all__ = [
    "KINDS",
    "OPERATORS",
    "Arithmetic",
    "Problems",
    "Space",
    "Splits",
    "arithmetic",
    "best_possible",
    "read_files",
    "read_or_write",
    "write_files",
]
