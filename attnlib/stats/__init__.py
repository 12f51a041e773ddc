"""Statistics of rows, vectors and masks, with confidence intervals. Imports only `checks` of `attnlib`."""
# ruff: noqa: F401

from attnlib.stats.agreement_runs import AgreementSettings
from attnlib.stats.agreement_tables import Agreements, agreement_tables, attention_spread
from attnlib.stats.agreements import agreement, chance_agreement, xi
from attnlib.stats.comparisons import comparison_table, corrected
from attnlib.stats.correlations import rank_correlation
from attnlib.stats.error_positions import answer_accuracy, error_positions
from attnlib.stats.intervals import Estimate, of_equals, proportion, ratio, with_interval
from attnlib.stats.masses import mass_table, sample_rows
from attnlib.stats.ragged import Ragged, RunScores, split_rows
from attnlib.stats.rank_measures import kendall_tau, spearman, top_match
from attnlib.stats.reference import reference_mass
from attnlib.stats.seeds import over_left_out, over_seeds, p_over_seeds, pooled, table_over_seeds
from attnlib.stats.significance import Comparison, compare
from attnlib.stats.summaries import summarise

__all__ = [name for name, each in vars().copy().items() if callable(each)]
