"""What is missing, hidden, or no number of the kind that is asked for, is counted nowhere, or refused."""

import numpy as np
import pandas as pd
import pytest

from attnlib.stats import (
    Estimate,
    answer_accuracy,
    compare,
    error_positions,
    over_seeds,
    ratio,
    sample_rows,
    spearman,
    summarise,
    table_over_seeds,
    with_interval,
)


def predicted(correct: list, **columns: list) -> pd.DataFrame:
    """Rows of one sample's places."""
    n = len(correct)
    return pd.DataFrame({"sample": [0] * n, "position": range(n), "correct": correct} | columns)


@pytest.mark.parametrize("bad", ["False", np.nan, None, 2, "", pd.NA])
@pytest.mark.parametrize("count", [answer_accuracy, error_positions])
def test_what_is_no_truth_value_does_not_count_as_right(count, bad):
    with pytest.raises(ValueError, match="correct should be True or False in every row"):
        count(predicted([True, bad]))
    assert count(predicted([1.0, 0.0])).equals(count(predicted([True, False])))


def test_rows_that_do_not_say_what_they_belong_to_are_refused():
    rows = predicted([True, False]).assign(value=[0.5, 1.0], seed=[0, np.nan], n=5)
    lost = {"sample": [0, np.nan], "task": ["a", None]}
    for column, values in lost.items():
        with pytest.raises(ValueError, match=f"which group they are of; {column} is missing in some"):
            summarise(rows.assign(**{column: values}), unit=column)
        with pytest.raises(ValueError, match=f"{column} is missing in some"):
            answer_accuracy(rows.assign(**{column: values}), by=[] if column == "sample" else [column])
    with pytest.raises(ValueError, match="sample is missing in some"):
        sample_rows(rows.assign(sample=lost["sample"]), "value")
    for by in (["position"], ["task"]):
        with pytest.raises(ValueError, match="is missing in some"):
            table_over_seeds(rows.assign(task=lost["task"]), by)
    assert len(table_over_seeds(rows.assign(value=[0.5, np.nan]), ["position"])) == 1, "a row without a value"


def test_what_a_mask_hides_is_no_number():
    hidden = np.ma.masked_array([0.5, 100.0, 0.7], mask=[False, True, False])
    assert compare(hidden, [0.1, 0.2, 0.3]).first == pytest.approx(0.6)
    assert np.isnan(spearman(hidden, [1.0, 2.0, 3.0]))
    assert np.isnan(over_seeds(hidden).value)
    with pytest.raises(ValueError, match="got NaN"):
        ratio(hidden, [1, 1, 1])


@pytest.mark.parametrize("value", [43, -0.2, 1.1])
def test_what_is_no_share_is_not_shown_in_hundredths(value):
    with pytest.raises(ValueError, match=rf"should be a share, from 0 to 1; got {value}"):
        with_interval(Estimate(value, value, value, 5), "%")
    assert with_interval(Estimate(value, value, value, 5)).startswith(f"{value:.2f}")
