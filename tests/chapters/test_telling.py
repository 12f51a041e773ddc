"""Numbers for the text of a page: under their names, in their units."""

from typing import Any

import myst_nb
import numpy as np
import pandas as pd
import pytest

from book.chapters.telling import side_clause, tell, tell_in_words

ROWS = pd.DataFrame(
    {"run": ["a", "b"], "value": [0.25, 0.5], "low": [0.2, 0.4], "high": [0.3, 0.6], "n": [40, 50]}
)


@pytest.fixture
def told(monkeypatch):
    names: dict[str, Any] = {}
    monkeypatch.setattr(myst_nb, "glue", lambda name, value, display: names.update({name: value}))
    return names


def test_a_table_tells_a_number_a_row(told):
    tell(ROWS, "share of {run}", "%")
    tell(ROWS, "{run}: {of}", of=["low", "n"])
    assert told == {
        **{"share of a": 25.0, "share of b": 50.0},
        **{"a: low": 0.2, "a: n": 40, "b: low": 0.4, "b: n": 50},
    }
    assert isinstance(told["a: n"], int)  # a count is written without decimals


def test_names_of_an_index_are_columns(told):
    tell(ROWS.set_index("run"), "{run}")
    tell(ROWS.set_index(["run", "n"])["value"], "{0} of {1}", "%")
    assert told == {"a": 0.25, "b": 0.5, "a of 40": 25.0, "b of 50": 50.0}


def test_single_numbers_and_words_are_told_by_their_names(told):
    tell({"count": np.int64(3), "leader": "rollout", "none": "not enough data"}, "minute {}")
    assert told["minute count"] == 3 and told["minute leader"] == "rollout" and np.isnan(told["minute none"])


def test_in_words_a_number_is_told_in_brief_and_in_full(told):
    tell_in_words(ROWS, "minute {run}", "%")
    tell_in_words({"c": ROWS.iloc[0], "d": None}, "exercise {}", "%", 1)
    assert told["minute a"] == "25 %" and told["exercise d"] == told["exercise d, in full"] == "not run"
    assert told["exercise c, in full"] == "25.0 % [20.0, 30.0; n = 40]"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.5, 0.6, "above"), (0.1, 0.2, "below"), (0.3, 0.5, "neither"), (np.nan, np.nan, "not run")],
)
def test_a_clause_says_on_which_side_of_a_bound_an_interval_lies(low, high, said):
    words = ("below", "neither", "above")
    for bound in (0.4, {"low": 0.3, "high": 0.45}):
        assert side_clause({"low": low, "high": high}, *words, bound=bound) == said
    assert side_clause(pd.Series({"low": -1, "high": -0.5}), *words) == "below"
    assert side_clause(None, *words) == side_clause(ROWS.iloc[0], *words, bound=None) == "not run"
    assert side_clause({"low": 1, "high": 2}, *words, bound=np.nan) == "not run"


def test_a_number_without_enough_data_says_so(told):
    tell_in_words(ROWS.astype({"value": object}).assign(value="not enough data"), "{run}", "%")
    assert told["a"] == told["a, in full"] == "not enough data"


def test_a_brief_number_keeps_its_interval_and_its_record_beside_it(told):
    tell_in_words({"a": ROWS.assign(record="sort-1", metric="accuracy").iloc[0]}, unit="%")
    bundle, metadata = told["a"]._repr_mimebundle_()
    assert bundle == {"text/plain": "'25 %'"}
    assert metadata["source"]["in full"] == "25 % [20, 30; n = 40]: 95 % confidence interval; run sort-1"
    assert metadata["source"]["record"] == "sort-1" and metadata["source"]["value"] == 0.25
