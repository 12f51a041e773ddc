"""Rows, vectors and masks in; numbers with intervals out. Imports nothing of the house."""

from attnlib.stats.agreement_results import (
    agreement_over_seeds,
    agreement_over_training,
    agreement_table,
    agreement_tables,
)
from attnlib.stats.agreement_runs import AgreementSettings
from attnlib.stats.agreements import agreement, chance_agreement, xi
from attnlib.stats.alignment import alignment_rows, alignment_table, target_offsets
from attnlib.stats.assignment import best_pairs
from attnlib.stats.comparisons import comparison_table, corrected
from attnlib.stats.error_positions import answer_accuracy, error_positions, error_summary
from attnlib.stats.grades import auc, grade_shares, head_grades, pairs_learned, predictions, run_grades
from attnlib.stats.intervals import Estimate, of_equals, proportion, ratio, with_interval
from attnlib.stats.learning import (
    curves_over_seeds,
    differences_learned,
    learned_at,
    log_rank,
    median_steps,
    not_yet_learned,
    shares_learned,
)
from attnlib.stats.masses import mass_table, sample_rows
from attnlib.stats.method_tables import (
    method_comparisons,
    method_differences,
    method_ranking,
    normalised,
    seed_stability,
)
from attnlib.stats.ragged import Ragged, RunScores, split_rows
from attnlib.stats.rank_correlation import rank_correlation
from attnlib.stats.rank_measures import kendall_tau, spearman, top_match
from attnlib.stats.reference import reference_mass
from attnlib.stats.row_comparison import compare_rows
from attnlib.stats.seeds import (
    layer_claims,
    over_left_out,
    over_seeds,
    paired_over_seeds,
    table_over_seeds,
)
from attnlib.stats.significance import Comparison, compare
from attnlib.stats.stages import attention_spread, chosen_checkpoints, largest_by_kind, two_stages
from attnlib.stats.summaries import summarise

__all__ = [
    "AgreementSettings",
    "Comparison",
    "Estimate",
    "Ragged",
    "RunScores",
    "agreement",
    "agreement_over_seeds",
    "agreement_over_training",
    "agreement_table",
    "agreement_tables",
    "alignment_rows",
    "alignment_table",
    "answer_accuracy",
    "attention_spread",
    "auc",
    "best_pairs",
    "chance_agreement",
    "chosen_checkpoints",
    "compare",
    "compare_rows",
    "comparison_table",
    "corrected",
    "curves_over_seeds",
    "differences_learned",
    "error_positions",
    "error_summary",
    "grade_shares",
    "head_grades",
    "kendall_tau",
    "largest_by_kind",
    "layer_claims",
    "learned_at",
    "log_rank",
    "mass_table",
    "median_steps",
    "method_comparisons",
    "method_differences",
    "method_ranking",
    "normalised",
    "not_yet_learned",
    "of_equals",
    "over_left_out",
    "over_seeds",
    "paired_over_seeds",
    "pairs_learned",
    "predictions",
    "proportion",
    "rank_correlation",
    "ratio",
    "reference_mass",
    "run_grades",
    "sample_rows",
    "seed_stability",
    "shares_learned",
    "spearman",
    "split_rows",
    "summarise",
    "table_over_seeds",
    "target_offsets",
    "top_match",
    "two_stages",
    "with_interval",
    "xi",
]
