"""The chapter that asks every measure: its parameters, its tables, and what it says is missing."""

import pandas as pd
import pytest
import torch

from attnlib.attribution import METHODS
from attnlib.chapters import ParameterError, WhereAttentionTells
from attnlib.chapters.tells_predictions import (
    FAITHFULNESS,
    PLAUSIBILITY,
    PREDICTIONS,
    Prediction,
    prediction_table,
)
from attnlib.chapters.tells_tables import (
    decision_table,
    missing_table,
    of_record,
    recorded,
    setting_table,
    widest,
)
from attnlib.chapters.where_attention_tells import NOT_ASKED, explored, first_of_each_split
from attnlib.stats import method_ranking, normalised
from attnlib.widgets import MeasureExplorer
from tests.parameters import profile, quick

NAME = "where_attention_tells"


def chapter(**changes):
    return WhereAttentionTells.checked(quick(NAME) | profile(NAME, "smoke") | {"device": "cpu"} | changes)


@pytest.fixture(scope="module")
def asked():
    return chapter().ask_all(progress=False)


@pytest.fixture(scope="module")
def rows(asked):
    return chapter().rows(asked)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": ["chess"]}, r"settings should be among .*; got \['chess'\]"),
        ({"methods": ["rolout"]}, r"methods should be among .*; got \['rolout'\]"),
        ({"untrained": ["x"]}, r"untrained should be among .*; got \['x'\]"),
        ({"standard": "flow"}, "standard should be among the methods; got 'flow'"),
        ({"fewer": {"chess": 3}}, r"fewer and only should name settings; got \['chess'\]"),
        ({"only": {"hist, compiled": ["x"]}}, r"only should name measures among .*; got \['x'\]"),
        ({"budgets": [0.5, 1.5]}, r"whole numbers of tokens; got \[1.5\]"),
        ({"k": [0]}, r"numbers of at least 1; got \[0\]"),
        ({"seeds": 9}, "seeds: should be less than or equal to 3; got 9"),
    ],
)
def test_wrong_parameters_are_refused_with_what_was_allowed(changes, message):
    with pytest.raises(ParameterError, match=message):
        chapter(**changes)


def test_without_names_every_measure_is_asked_for():
    assert chapter(methods=[]).asked_for == [*METHODS]


def test_every_setting_is_asked_and_what_is_missing_has_a_reason(asked):
    table = setting_table(asked)
    assert table["setting"].tolist() == ["reverse, compiled", "hist, compiled"]
    assert (
        (table["questions"] == 6).all()
        and (table["right"] == 1).all()
        and table["candidates"].between(2, 11).all()
    )
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
    question = explorer.documents[0]
    length = len(question["tokens"])
    assert question["tokens"][0] == "<bos>" and question["truth"] == [length - question["query"]]
    assert question["found"]["rollout"] == [1] and question["found"]["even attention"] == [length - 2]
    assert "rollout over null" in question["missing"] and "rollout over null" in explorer.names


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


def test_predictions_say_what_came_out(rows):
    said = [
        Prediction("the source is found", PLAUSIBILITY, "rollout", "nearest first"),
        Prediction("it is not", PLAUSIBILITY, "nearest first", "rollout"),
        Prediction("equal", PLAUSIBILITY, "rollout", "raw attention, last layer"),
        Prediction("nobody asked", PLAUSIBILITY, "rollout", "no such measure"),
        Prediction("no such number", "no such metric", "rollout", "nearest first"),
    ]
    found = prediction_table(rows, said)
    assert found["came out"].tolist() == ["yes", "no", "not settled", "not asked", "not asked"]
    assert found["value"][0] == pytest.approx(-found["value"][1]) and found["n"].tolist() == [2, 2, 2, 0, 0]


def test_predictions_are_about_two_questions_and_each_is_made_once():
    assert {each.metric for each in PREDICTIONS} == {PLAUSIBILITY, FAITHFULNESS}
    assert len({each.words for each in PREDICTIONS}) == len(PREDICTIONS)
    assert len({each[1:] for each in PREDICTIONS}) == len(PREDICTIONS)


def test_what_is_recorded_is_finite_and_has_a_row_per_number(rows):
    tables = {"plausibility": normalised(rows, PLAUSIBILITY)}
    rankings = {"plausibility": method_ranking(rows, PLAUSIBILITY)}
    found = recorded(tables, rankings)
    assert found["value"].notna().all() and not found.duplicated(["run", "metric"]).any()
    assert set(found["run"]) == {"reverse, compiled", "hist, compiled", "all settings"}
    kept_tables, kept_rankings = of_record(widest(found.assign(record="here")))
    columns = ["setting", "method", "value", "low", "high", "n"]
    back = kept_tables["plausibility"][columns].sort_values(columns, ignore_index=True)
    assert back.equals(tables["plausibility"][columns].sort_values(columns, ignore_index=True))
    best = rankings["plausibility"]["method"].iloc[0]
    assert kept_rankings["plausibility"]["value"].iloc[0] == pytest.approx(
        rankings["plausibility"].set_index("method")["value"][best]
    )
    assert of_record(widest(pd.DataFrame())) == ({}, {})


def test_means_and_ranks_are_over_transformers():
    assert chapter().transformers == ["reverse, compiled", "hist, compiled"]
    assert chapter(settings=["documents", "sort"]).transformers == ["sort"]
    assert chapter(settings=["documents"]).transformers == ["documents"]
