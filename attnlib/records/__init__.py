"""What a run leaves behind, and the papers' figures to set beside it."""

from attnlib.records.papers import paper_figures, paper_grid, paper_verdicts, paper_vs_here
from attnlib.records.runs import Training, device_name, record, records

__all__ = [
    "Training",
    "device_name",
    "paper_figures",
    "paper_grid",
    "paper_verdicts",
    "paper_vs_here",
    "record",
    "records",
]
