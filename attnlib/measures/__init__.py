"""What models do on batches of samples: model and batches in, rows out."""

from attnlib.measures.accuracy import sample_scores
from attnlib.measures.evaluation import evaluate_rows
from attnlib.measures.generation import answer_texts, generate_answers

__all__ = [
    "answer_texts",
    "evaluate_rows",
    "generate_answers",
    "sample_scores",
]
