"""Rows, vectors and masks in; numbers with intervals out. Imports nothing of the house."""

from attnlib.stats.agreement_results import (
    agreement_over_seeds,
    agreement_over_training,
    agreement_table,
    agreement_tables,
)
from attnlib.stats.agreement_runs import AgreementSettings
from attnlib.stats.agreements import agreement, chance_agreement, xi
from attnlib.stats.comparisons import comparison_table, corrected
from attnlib.stats.error_positions import answer_accuracy, error_positions, error_summary
from attnlib.stats.intervals import Estimate, of_equals, proportion, ratio, with_interval
from attnlib.stats.masses import mass_table, sample_rows
from attnlib.stats.ragged import Ragged, RunScores, split_rows
from attnlib.stats.rank_measures import kendall_tau, spearman, top_match
from attnlib.stats.reference import reference_mass
from attnlib.stats.seeds import layer_claims, over_left_out, over_seeds, paired_over_seeds, table_over_seeds
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
    "answer_accuracy",
    "attention_spread",
    "chance_agreement",
    "chosen_checkpoints",
    "compare",
    "comparison_table",
    "corrected",
    "error_positions",
    "error_summary",
    "kendall_tau",
    "largest_by_kind",
    "layer_claims",
    "mass_table",
    "of_equals",
    "over_left_out",
    "over_seeds",
    "paired_over_seeds",
    "proportion",
    "ratio",
    "reference_mass",
    "sample_rows",
    "spearman",
    "split_rows",
    "summarise",
    "table_over_seeds",
    "top_match",
    "two_stages",
    "with_interval",
    "xi",
]
