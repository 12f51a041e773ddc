"""What attention and accuracy say, with intervals."""

from attnlib.stats.accuracy import accuracy_table
from attnlib.stats.agreement_runs import AgreementSettings
from attnlib.stats.agreement_tables import agreement_over_seeds, agreement_over_training, agreement_table
from attnlib.stats.agreements import agreement, chance_agreement, xi
from attnlib.stats.comparisons import comparison_table, corrected
from attnlib.stats.evaluation import evaluate_rows
from attnlib.stats.generation import answer_texts, generate_answers
from attnlib.stats.intervals import Estimate, proportion, ratio
from attnlib.stats.intervention import head_masses, reinforcement_rows
from attnlib.stats.masses import mass_table, sample_rows
from attnlib.stats.positions import answer_accuracy, error_positions, error_summary
from attnlib.stats.ragged import Ragged, RunScores, split_rows
from attnlib.stats.rank_measures import kendall_tau, spearman, top_match
from attnlib.stats.recorded import (
    documents_over_training,
    lexical_scores,
    recorded_scores,
    text_scores,
)
from attnlib.stats.reference import reference_mass, target_mass_table
from attnlib.stats.significance import Comparison, compare
from attnlib.stats.stages import (
    TOKEN_KINDS,
    attention_spread,
    chosen_checkpoints,
    largest_by_kind,
    token_kinds,
    two_stages,
)
from attnlib.stats.within import compare_rows

__all__ = [
    "TOKEN_KINDS",
    "AgreementSettings",
    "Comparison",
    "Estimate",
    "Ragged",
    "RunScores",
    "accuracy_table",
    "agreement",
    "agreement_over_seeds",
    "agreement_over_training",
    "agreement_table",
    "answer_accuracy",
    "answer_texts",
    "attention_spread",
    "chance_agreement",
    "chosen_checkpoints",
    "compare",
    "compare_rows",
    "comparison_table",
    "corrected",
    "documents_over_training",
    "error_positions",
    "error_summary",
    "evaluate_rows",
    "generate_answers",
    "head_masses",
    "kendall_tau",
    "largest_by_kind",
    "lexical_scores",
    "mass_table",
    "proportion",
    "ratio",
    "recorded_scores",
    "reference_mass",
    "reinforcement_rows",
    "sample_rows",
    "spearman",
    "split_rows",
    "target_mass_table",
    "text_scores",
    "token_kinds",
    "top_match",
    "two_stages",
    "xi",
]
