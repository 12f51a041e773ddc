"""What a run leaves behind, the models that came with the book, and the papers' figures to set beside it."""

from attnlib.records.models import StoredModel, store_model, stored_model, stored_models
from attnlib.records.numbers import Words, came_with_the_book, in_words, learned_best, one_number
from attnlib.records.papers import (
    as_printed,
    paper_figures,
    paper_grid,
    paper_marks,
    paper_verdicts,
    paper_vs_here,
)
from attnlib.records.runs import Training, device_name, record, records

__all__ = [
    "StoredModel",
    "Training",
    "Words",
    "as_printed",
    "came_with_the_book",
    "device_name",
    "in_words",
    "learned_best",
    "one_number",
    "paper_figures",
    "paper_grid",
    "paper_marks",
    "paper_verdicts",
    "paper_vs_here",
    "record",
    "records",
    "store_model",
    "stored_model",
    "stored_models",
]
