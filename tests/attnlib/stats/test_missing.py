"""What is missing or hidden is counted nowhere."""

import numpy as np
import pandas as pd
import pytest

from attnlib.stats import Estimate, compare, over_seeds, spearman, table_over_seeds, with_interval


def test_what_a_mask_hides_is_no_number():
    hidden = np.ma.masked_array([0.5, 100.0, 0.7], mask=[False, True, False])
    assert compare(hidden, [0.1, 0.2, 0.3]).first == pytest.approx(0.6)
    assert np.isnan(spearman(hidden, [1.0, 2.0, 3.0]))
    assert np.isnan(over_seeds(hidden).value)


def test_a_row_without_a_value_is_counted_nowhere():
    rows = pd.DataFrame({"position": [0, 1], "value": [0.5, np.nan], "seed": 0})
    assert len(table_over_seeds(rows, ["position"])) == 1


@pytest.mark.parametrize("value", [43, -0.2, 1.1])
def test_what_is_no_share_is_shown_as_it_is(value):
    assert with_interval(Estimate(value, value, value, 5)).startswith(f"{value:.2f}")
