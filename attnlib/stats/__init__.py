"""What attention and accuracy say, with intervals."""

from attnlib.stats.accuracy import accuracy_table
from attnlib.stats.intervals import Estimate, proportion, ratio
from attnlib.stats.reference import reference_mass, target_mass_table

__all__ = [
    "Estimate",
    "accuracy_table",
    "proportion",
    "ratio",
    "reference_mass",
    "target_mass_table",
]
