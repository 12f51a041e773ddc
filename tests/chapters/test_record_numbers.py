"""Recorded numbers in words."""

import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter

from attnlib.stats import Estimate, with_interval
from book.chapters.records import in_words, learned_best, one_number

ROWS = pd.DataFrame(
    {
        "task": ["IMDB", "IMDB", "IMDB", "SST"],
        "metric": "A",
        "value": [0.1, 0.434, 0.433, 0.24],
        "low": [0.0, 0.403, 0.402, float("nan")],
        "high": [0.5, 0.4651, 0.464, float("nan")],
        "n": [20, 1000, 1000, 3],
        "recorded": ["2026-03", "2026-02", "2026-01", "2026-01"],
        "record": ["a", "b", "c", "d [uncommitted changes]"],
    }
)


def test_of_several_runs_the_one_with_most_units_is_told_then_the_latest():
    assert one_number(ROWS, task="IMDB", metric="A")["record"] == "b"


@pytest.mark.parametrize("where", [{"task": "Yelp"}, {"never recorded": 1}])
def test_what_was_not_run_is_said_so(where):
    assert one_number(ROWS, **where) is None
    assert in_words(one_number(ROWS, **where), "%") == "not run"
    assert in_words(one_number(pd.DataFrame(), **where)) == "not run"


FEW = {"value": 0.85, "low": -0.1, "high": 1.02, "n": 3}
ALONE = {"value": 0.5, "low": 0.5, "high": 0.5, "n": 1}


@pytest.mark.parametrize(
    ("number", "how", "words"),
    [
        (one_number(ROWS, task="IMDB"), ["%"], "43 % [40, 47; n = 1,000]"),
        (one_number(ROWS, task="IMDB"), ["points", 1], "43.4 points [40.3, 46.5; n = 1,000]"),
        (one_number(ROWS, task="IMDB"), [], "0.43 [0.40, 0.47; n = 1,000]"),
        (one_number(ROWS, task="SST"), ["%"], "24 % [no interval; n = 3; uncommitted changes]"),
        (ALONE, [], "0.50 [no interval; n = 1]"),
        (ALONE | {"low": 0.2, "high": 1.0}, [], "0.50 [0.20, 1.00; n = 1]"),
        (ALONE | {"n": 4}, [], "0.50 [0.50, 0.50; n = 4]"),
        (FEW, ["%"], "85 % [0, 100; n = 3]"),  # the interval of a share ends where shares do
        (FEW, ["points"], "85 points [-10, 102; n = 3]"),
        (
            {"value": 80, "low": 70, "high": float("inf"), "n": 20},
            ["steps", 0],
            "80 steps [70, never; n = 20]",
        ),
    ],
)
def test_a_number_has_its_interval_and_its_units(number, how, words):
    assert in_words(number, *how) == words


def test_every_text_spells_a_number_and_its_interval_alike():
    row = pd.Series({"value": 0.434, "low": 0.403, "high": 0.4651, "n": 1000})
    (named,) = row.to_frame().T.itertuples()
    for each in (row, named, row.to_dict(), Estimate(*row)):
        assert with_interval(each, "%") == "43 % [40, 47]"
    assert with_interval(row, "%", 1, named=False) == "43.4 [40.3, 46.5]"
    assert with_interval(row, "points", signed=True) == "+43 points [+40, +47]"
    assert with_interval(row, digits=3, beside=["seeds", ""]) == "0.434 [0.403, 0.465; seeds]"


def test_an_interval_shows_on_which_side_of_0_it_ends() -> None:
    def said(low: float, high: float, unit: str = "") -> str:
        return with_interval({"value": (low + high) / 2, "low": low, "high": high}, unit)

    assert said(-0.2, -0.0042) == "-0.10 [-0.20, -0.004]" and said(-0.2, 0.0042) == "-0.10 [-0.20, 0.004]"
    assert said(-0.2, 0.00042) == "-0.10 [-0.20, 0.0004]" and said(-0.2, -1e-9) == "-0.10 [-0.20, 0.00]"
    assert said(0.00042, 0.4, "%") == "20 % [0, 40]" and said(0.0, 0.4, "points") == "20 points [0, 40]"
    assert said(0.0042, 0.4, "points") == "20 points [0.4, 40]"


def test_of_several_ways_to_train_a_kind_of_model_the_one_that_learned_best_counts():
    ways = {"short": (0.9, 0.7), "long": (0.8, 0.9), "other": (0.1, 0.2)}
    rows = pd.DataFrame(
        [
            {
                "record": record,
                "kind": "sums" if record == "other" else "products",
                "metric": metric,
                "value": value,
            }
            for record, values in ways.items()
            for value in values
            for metric in ("right", "verdict")
        ]
    )
    rows.loc[len(rows)] = {"record": "unscored", "kind": "products", "metric": "verdict", "value": 1.0}
    kept = learned_best(rows, ["kind"], "right")
    assert set(kept["record"]) == {"long", "other", "unscored"}
    assert len(kept) == 9, "all rows of what is kept"
    assert learned_best(pd.DataFrame(), ["kind"], "right").empty


def test_a_number_is_of_one_way_to_make_a_model():
    """Once the one with more texts was taken: a fine-tuned model's, for the model as it is."""
    ways = ["a model, as it is, chat", "a model, fine-tuned; seeds [0]"]
    rows = ROWS[:2].assign(setting=ways, n=[23, 48])
    with pytest.raises(ValueError, match=r"models as it is and fine-tuned have .*'IMDB'"):
        one_number(rows, task="IMDB")
    assert one_number(rows.assign(setting=ways[0]), task="IMDB")["n"] == 48


def test_a_number_that_is_glued_names_its_record():
    found = in_words(one_number(ROWS, task="SST"), "%")
    assert found.source == {"record": "d", "metric": "A", "value": 0.24}
    shown, beside = DisplayFormatter().format(found)
    assert shown["text/plain"] == repr(str(found)) and beside == {"source": found.source}
    assert in_words({"value": 0.5, "low": 0.4, "high": 0.6, "n": 3}).source == {}
