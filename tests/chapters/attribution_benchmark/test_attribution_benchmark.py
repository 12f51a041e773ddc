"""The chapter that asks every measure: its parameters, its tables, and what it says is missing."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

from attnlib.widgets import MeasureExplorer
from book.chapters.attribution_benchmark.attribution_benchmark import (
    NOT_ASKED,
    example,
    explored,
    first_of_each_split,
)
from book.chapters.attribution_benchmark.claims import (
    PREDICTIONS,
    Prediction,
    prediction_table,
    recorded_outcomes,
)
from book.chapters.attribution_benchmark.measures import ASKED
from book.chapters.attribution_benchmark.tables import (
    ALL,
    FAITHFULNESS,
    PLAUSIBILITY,
    THESE,
    ahead_of,
    ahead_table,
    answers,
    decision_table,
    first_elsewhere,
    method_comparisons,
    missing_table,
    of_record,
    recorded,
    recorded_apart,
    right_answers,
    setting_table,
    told_or_not,
    widest,
)
from book.chapters.refusals import ParameterError
from tests.parameters import smallest

chapter = partial(smallest, "attribution_benchmark")


@pytest.fixture(scope="module")
def asked():
    return chapter().ask_all(progress=False)


@pytest.fixture(scope="module")
def rows(asked):
    return chapter().rows(asked)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": ["chess"]}, r"settings.0: should be one of .*; got 'chess'"),
        ({"standard": "flow"}, "standard should be among the methods; got 'flow'"),
        ({"fewer": {"chess": 3}}, r"fewer.chess.\[key\]: should be one of .*; got 'chess'"),
        ({"settings": ["hist, compiled"] * 2}, "settings: should be different ones"),
        ({"only": {"hist, compiled": ["flow"]}}, "at least one of the methods; got none"),
        ({"budgets": [0.5, 1.5]}, r"whole numbers of tokens; got \[1.5\]"),
        ({"models": "large"}, "models should be a profile"),
    ],
)
def test_wrong_parameters_are_refused_with_what_was_allowed(changes, message):
    with pytest.raises(ParameterError, match=message):
        chapter(**changes)


def test_without_names_every_measure_is_asked_for():
    assert chapter(methods=[]).asked_for == [*ASKED]


def test_every_setting_is_asked_and_what_is_missing_has_a_reason(asked):
    table = setting_table(asked)
    assert table["setting"].tolist() == ["reverse, compiled", "hist, compiled"]
    assert (table["questions"] == 6).all() and (table["right"] == 1).all()
    assert table["candidates"].between(2, 11).all()
    missing = missing_table(asked)
    assert missing["methods"].tolist() == ["rollout over null"]
    assert missing["settings"].item() == "reverse, compiled; hist, compiled"
    assert "earlier tokens only" in missing["reason"].item()
    names = set(asked[0].scores)
    assert {"rollout", "rollout, untrained", "even attention", "nearest first", "blank-out"} <= names
    assert not torch.equal(asked[0].scores["rollout"], asked[0].scores["rollout, untrained"])


def test_faithfulness_is_of_fewer_questions_and_can_be_left_out(asked, rows):
    counts = rows.groupby("metric")["item"].nunique()
    assert counts[PLAUSIBILITY] == 6 and counts[FAITHFULNESS] == 4
    without = chapter(faithful=0).rows(asked)
    assert FAITHFULNESS not in set(without["metric"]) and PLAUSIBILITY in set(without["metric"])


def test_the_first_of_each_split_are_taken(asked):
    questions = asked[0].questions
    known = torch.tensor([True, True, False, True, False, False])
    changed = type(questions)(**vars(questions) | {"in_distribution": known})
    assert first_of_each_split(changed, 2).tolist() == [True, True, True, False, True, False]


def test_fewer_questions_and_measures_of_a_setting():
    less = {"fewer": {"hist, compiled": 2}, "only": {"hist, compiled": ["rollout"]}}
    found = chapter(**less, methods=["rollout", "blank-out"], untrained=[]).ask_all(progress=False)
    assert [len(each.questions) for each in found] == [6, 2]
    assert "blank-out" in found[0].scores and "blank-out" not in found[1].scores
    assert found[1].missing == {"blank-out": NOT_ASKED} and not found[0].missing


def test_the_explorer_gets_the_first_questions_of_every_setting(asked):
    found = explored(chapter(), asked)
    assert [*found] == [
        f"{name}, question 1 (ID, answered right)" for name in ("reverse, compiled", "hist, compiled")
    ]
    explorer = MeasureExplorer(found)
    question = explorer.items[0]
    length = len(question["tokens"])
    assert question["tokens"][0] == "<bos>" and question["truth"] == [length - question["query"]]
    assert question["found"]["rollout"] == [1] and question["found"]["uniform attention"] == [length - 2]
    assert "normalized rollout" in question["missing"] and "normalized rollout" in explorer.names


def test_one_question_is_drawn_with_its_sources_marked(asked):
    name, sizes, methods, words = example(chapter(), asked)
    assert name == "reverse, compiled, question 1 (ID, answered right)"
    assert "rollout" in methods and sizes.shape == (len(methods), len(words))
    assert [word.endswith("(source)") for word in words].count(True) == 1
    place = [word.endswith("(source)") for word in words].index(True)
    assert (sizes.amax(1) == 1).all() and sizes[methods.index("rollout"), place] == 1


def test_costs_are_of_a_prompt_that_the_model_takes(asked):
    prompt, table = chapter(cost_tokens=500, methods=["rollout", "blank-out"]).costs(asked)
    assert prompt == "reverse, compiled, 13 tokens"
    assert table["method"].tolist() == ["one forward pass", "rollout", "blank-out"]
    assert table["passes"].iloc[2] > table["passes"].iloc[1] >= 1


def test_what_is_to_be_used_within_a_cost_is_the_first_of_the_ranking_there():
    ranking = pd.DataFrame(
        {
            "method": ["activation patching", "dear", "cheap", "nearest first", "elsewhere"],
            "value": [0.95, 0.9, 0.5, 0.7, 1.0],
            "low": 0.0,
            "high": 1.0,
            "rank": [1, 2, 4, 3, None],
        }
    )
    costs = pd.DataFrame(
        {
            "method": ["one forward pass", "dear", "cheap", "elsewhere", "activation patching"],
            "passes": [1.0, 50.0, 1.1, 1.0, 20.0],
        }
    )
    found = decision_table({"plausibility": ranking}, costs)
    assert found["method"].tolist() == ["cheap", "cheap", "dear"]
    fair = decision_table({"plausibility": ranking}, costs, others=True)
    assert fair["method"].tolist() == ["cheap", "cheap", "activation patching"]
    assert found["passes"].tolist() == [1.1, 1.1, 50.0]


def invented(rng, values, settings=8, models=3, questions=4):
    """Rows of measures whose true numbers are given, of settings whose models differ by .05."""
    shape = settings, models, questions
    setting, seed, item = (each.ravel() for each in np.indices(shape))
    about = {"setting": setting, "seed": seed, "item": item, "metric": PLAUSIBILITY}
    about |= {"chance": 0.0, "perfect": 1.0}
    noise = [0.05 * rng.normal(size=(*shape[:2], 1)) + 0.05 * rng.normal(size=shape) for _ in values]
    tables = [
        pd.DataFrame({**about, "method": method, "value": (value + each).ravel()})
        for (method, value), each in zip(values.items(), noise, strict=True)
    ]
    return pd.concat(tables, ignore_index=True)


def test_predictions_say_what_came_out():
    said = [
        Prediction("the source is found", PLAUSIBILITY, "rollout", "nearest first"),
        Prediction("it is not", PLAUSIBILITY, "nearest first", "rollout"),
        Prediction("equal", PLAUSIBILITY, "rollout", "also"),
        Prediction("nobody asked", PLAUSIBILITY, "rollout", "no such measure"),
        Prediction("no such number", "no such metric", "rollout", "nearest first"),
    ]
    table = invented(np.random.default_rng(0), {"rollout": 0.6, "also": 0.6, "nearest first": 0.2})
    found = prediction_table(table, said)
    assert found["came out"].tolist() == ["yes", "no", "not settled", "not asked", "not asked"]
    assert found["value"][0] == pytest.approx(-found["value"][1]) and found["n"].tolist() == [8, 8, 8, 0, 0]


def test_what_is_recorded_is_finite_and_has_a_row_per_number(rows):
    given = answers(rows, ["reverse, compiled", "hist, compiled"])
    found = recorded(given)
    assert found["value"].notna().all() and not found.duplicated(["run", "metric"]).any()
    assert set(found["run"]) == {"reverse, compiled", "hist, compiled", ALL, THESE}
    kept_tables, kept_rankings = of_record(widest(found.assign(record="here")))
    columns = ["setting", "method", "value", "low", "high", "n", "over"]
    for name in ("plausibility", "faithfulness"):
        back = kept_tables[name][columns].sort_values(columns, ignore_index=True)
        numbers = given.tables[name][columns].dropna(subset="value")
        pd.testing.assert_frame_equal(
            back, numbers.sort_values(columns, ignore_index=True), check_dtype=False
        )
        assert kept_rankings[name]["method"].iloc[0] == given.rankings[name]["method"].iloc[0]
        assert kept_rankings[name]["these_n"].notna().all()
    assert of_record(widest(pd.DataFrame())) == ({}, {})


def test_right_answers_in_distribution_are_kept_apart():
    """By hand: of one model .5, .7 and .9 are (.3 + .5 + .7) / 3 / .8 of the way from .2 to 1."""
    given = {"ID": [0.5, 0.7, 0.9], "OOD": [0.2, 0.2, 0.6]}
    table = pd.concat(
        pd.DataFrame({"split": split, "value": values, "item": range(3), "right": [split == "ID"] * 3})
        for split, values in given.items()
    ).assign(setting="sort", seed=0, method="rollout", metric=PLAUSIBILITY, chance=0.2, perfect=1.0)
    found = recorded_apart(table).set_index("metric")
    assert found["value"].to_dict() == {
        "plausibility, ID, right: rollout": pytest.approx(0.5 / 0.8),
        "plausibility, OOD, wrong: rollout": pytest.approx(0.4 / 3 / 0.8),
    }
    assert (found["run"] == "sort").all() and (found["n"] == 3).all()
    (right,) = right_answers(found.reset_index()).to_dict("records")
    assert right == {"setting": "sort", "method": "rollout", "value": pytest.approx(0.5 / 0.8)}


def test_a_record_has_both_intervals_and_says_over_what():
    table = invented(np.random.default_rng(0), {"rollout": 0.6, "also": 0.5})
    table = table.assign(value=table["value"] + 0.2 * table["setting"], setting=table["setting"].map(str))
    found = recorded(answers(table, ["0", "1", "2"])).set_index(["run", "metric"])
    over, of_these = (found.loc[(run, "plausibility: rollout")] for run in (ALL, THESE))
    assert (over["over"], over["n"]) == ("settings", 3)
    assert (of_these["over"], of_these["n"]) == ("models and questions", 9)
    assert over["value"] == of_these["value"] and over["high"] > of_these["high"]
    one, model = (found.loc[(run, "plausibility: rollout")] for run in ("7", "7, seed 2"))
    assert (one["over"], one["n"], model["over"], model["n"]) == ("models and questions", 3, "questions", 4)


def test_the_first_is_ahead_where_it_is_so_by_more_than_chance():
    table = invented(
        np.random.default_rng(0), {"other": 0.2, "first": 0.6, "same": 0.6}, settings=2, questions=12
    )
    found = ahead_table(method_comparisons(table, PLAUSIBILITY), "first")
    assert found.loc["other"].tolist() == [2, 0, 2] and found.loc["same", "settings"] == 2
    assert found.index.name == "first against"


def test_means_and_ranks_are_over_transformers():
    assert chapter().transformers == ["reverse, compiled", "hist, compiled"]
    assert chapter(settings=["documents", "sort"]).transformers == ["sort"]
    assert chapter(settings=["documents"]).transformers == ["documents"]


def test_settings_whose_heads_were_told_stand_apart_and_measures_are_compared_setting_by_setting():
    names = ["sort", "sort, compiled", "sort, supervised", "needle", "documents"]
    gains = {"rollout": 0.5, "blank-out": 0.0}
    numbers = pd.DataFrame(
        [(name, method, place + gain) for place, name in enumerate(names) for method, gain in gains.items()],
        columns=["setting", "method", "value"],
    )
    told, free = told_or_not(numbers)
    assert sorted(set(told["setting"])) == ["sort, compiled", "sort, supervised"]
    assert sorted(set(free["setting"])) == ["needle", "sort"], "documents are of no transformer"
    value, low, high, n = ahead_of(free, "rollout", "blank-out")
    assert (value, n) == (pytest.approx(0.5), 2) and low == pytest.approx(high), "whatever a setting's level"


def test_the_lead_of_a_measure_that_other_settings_chose_owes_nothing_to_luck():
    lucky, steady = [3.0, 0.0, 0.0], [0.9, 0.9, 0.9]
    given = {"lucky": lucky, "steady": steady, "rollout": [0.5, 0.5, 0.5], "not in all": [9.0, 9.0, None]}
    rows = [
        (f"setting {place}", method, value)
        for method, values in given.items()
        for place, value in enumerate(values)
    ]
    numbers = pd.DataFrame(rows, columns=["setting", "method", "value"])
    assert ahead_of(numbers, "lucky", "rollout").value == pytest.approx(0.5)
    found = first_elsewhere(numbers, "rollout")
    assert found.value == pytest.approx((0.4 - 0.5 - 0.5) / 3) and found.n == 3
    assert np.isnan(first_elsewhere(numbers[numbers["setting"] == "setting 0"], "rollout").value)


def test_recorded_outcomes_are_those_of_differences_between_settings():
    first, second = PREDICTIONS[0].first, PREDICTIONS[0].second
    for ahead, said in ((0.1, "yes"), (-0.1, "no")):
        rows = [
            {"setting": str(setting), "method": method, "value": value + 0.01 * setting * (method == first)}
            for setting in range(3)
            for method, value in {first: 0.5 + ahead, second: 0.5}.items()
        ]
        found = recorded_outcomes({"plausibility": pd.DataFrame(rows)})
        assert found[PREDICTIONS[0].words] == said
        assert set(found.drop(PREDICTIONS[0].words)) == {"not asked"}
