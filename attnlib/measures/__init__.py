"""Predictions, attention and answers of a model on batches of samples, as tables of rows."""

from attnlib.measures.accuracy import sample_scores
from attnlib.measures.evaluation import evaluate_rows
from attnlib.measures.generation import answer_texts, generate_answers

__all__ = [
    "answer_texts",
    "evaluate_rows",
    "generate_answers",
    "sample_scores",
]
