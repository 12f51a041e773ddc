"""Arithmetic: sums, differences and products, written out for a model to answer.

The task of Attention Lens (a repository without a paper) with any operators, numbers and ways of writing,
splits that do not overlap, and the attention that doing the sum on paper would need.
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
