"""What models do on batches of samples: model and batches in, rows out."""

from attnlib.measures.accuracy import sample_scores
from attnlib.measures.evaluation import evaluate_rows
from attnlib.measures.generation import answer_texts, generate_answers
from attnlib.measures.intervention import head_masses, reinforcement_rows
from attnlib.measures.key_kinds import kind_shares, shared_rows
from attnlib.measures.scores_over_training import (
    documents_over_training,
    lexical_scores,
    scores_at_checkpoints,
    text_scores,
)
from attnlib.measures.target_mass import target_masses
from attnlib.measures.token_kinds import TOKEN_KINDS, token_kinds
from attnlib.measures.translated import translation_quality, translations
from attnlib.measures.translation_runs import with_bleu

__all__ = [
    "TOKEN_KINDS",
    "answer_texts",
    "documents_over_training",
    "evaluate_rows",
    "generate_answers",
    "head_masses",
    "kind_shares",
    "lexical_scores",
    "reinforcement_rows",
    "sample_scores",
    "scores_at_checkpoints",
    "shared_rows",
    "target_masses",
    "text_scores",
    "token_kinds",
    "translation_quality",
    "translations",
    "with_bleu",
]
