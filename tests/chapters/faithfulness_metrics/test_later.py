"""What was asked after the recorded run: a learned measure, questions apart; records keep their names."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

from attnlib.attribution import learned_heads
from book.chapters.attribution_benchmark.measures import ASKED
from book.chapters.faithfulness_metrics import FaithfulnessMetrics, faithfulness_metrics, tables
from book.chapters.faithfulness_metrics.further.tables import part_table
from book.chapters.faithfulness_metrics.measures import LEARNED, agreement, cross_fitted, prompts_of
from book.chapters.faithfulness_metrics.predictions import EXPECTED, TODAY
from book.chapters.faithfulness_metrics.tables import ALL, against, apart_table, later_against, part_rows
from book.chapters.later import MEASURES as LATER
from book.chapters.records.runs import RECORDED, _file_name
from tests.parameters import defaults_of, profile, smallest

NAME = "faithfulness_metrics"


chapter = partial(smallest, NAME, settings=["hist, compiled"])


@pytest.mark.parametrize("which", ["itself", "paper", "more"])
def test_every_run_has_its_record_and_those_of_before_ask_what_they_did(which):
    changes = {} if which == "itself" else profile(NAME, which)
    p = FaithfulnessMetrics.checked(defaults_of(NAME) | changes | {"device": "auto"})
    name = _file_name(p.label, p.recorded_parameters)
    assert (RECORDED / NAME / f"{name}.parquet").is_file()
    later = {*LATER, LEARNED}
    assert later <= {*p.measures} if which == "more" else p.measures == [*ASKED] and not later & {*ASKED}
    assert "parts" in chapter(parts=["apart"]).recorded_parameters


def test_weights_are_learned_from_the_other_half():
    p = chapter(questions=10)
    (case,) = p.cases(progress=False).values()
    found, q = cross_fitted(case.model, case.questions), case.questions
    even = torch.arange(len(q)) % 2 == 0
    method = learned_heads(case.model, prompts_of(q.where(~even)))
    for item in range(0, len(q), 2):
        n = int(q.attention_mask[item].sum())
        expected = method(case.model, q.input_ids[item, None, :n], query=int(q.query[item]))
        torch.testing.assert_close(found[item, :n], expected[0], atol=1e-5, rtol=1e-4)
        assert not found[item, n:].any()


def test_questions_apart_are_held_against_the_usual_ones_of_the_same_settings(monkeypatch):
    monkeypatch.setattr(
        faithfulness_metrics, "APART", {"the same": lambda q: q.right, "none": lambda q: ~q.right}
    )
    p = chapter(questions=10, methods=["rollout", "blank-out", "gradient x embedding", LEARNED])
    cases = p.cases(progress=False)
    table = agreement(p.rate_all(cases, p.scores(cases, False), [TODAY, "MAS, mask, p", "Soft-NC"], False))
    assert p.apart(cases, [TODAY], False) == {}
    apart = p.model_copy(update={"parts": ["apart"]}).apart(cases, [TODAY], False)
    found = apart_table(table, apart)  # a compiled program answers nothing wrongly
    assert found[["kind", "protocol", "value", "n"]].values.tolist() == [["the same", TODAY, 0.0, 1]]
    assert found["usual"].item() == table.set_index("protocol").loc[TODAY, "tau"]


def test_judges_and_measures_of_later_are_held_against_the_leaders_setting_by_setting():
    p = chapter(questions=10, methods=["rollout", "AttnLRP", "ReAGent", LEARNED])
    cases = p.cases(progress=False)
    rated = p.rate_all(cases, p.scores(cases, False), [EXPECTED, "MAS, mask, p", "Soft-NC"], False)
    table = agreement(rated)
    found = later_against(rated, table)
    taus = table.set_index("protocol")["tau"]
    assert {*found["judges"]["protocol"]} == {"MAS, mask, p", "Soft-NC"}
    for row in found["judges"].itertuples():
        assert row.value == pytest.approx(taus[row.protocol] - taus[EXPECTED]) and row.usual == taus[EXPECTED]
    for by in ("the known answers", "the judge"):
        assert {*found[f"measures by {by}"]["method"]} == {"ReAGent", LEARNED}
    assert "ReAGent" in tables.same_as_a_metric({"expected": EXPECTED})
    before = chapter(questions=10, methods=["rollout", "blank-out"])
    before = before.rate_all(cases, before.scores(cases, False), [TODAY], False)
    assert later_against(before, agreement(before)) == {}


def test_a_difference_is_over_the_settings_that_both_have():
    values = {"first": [1.0, 2.0, 3.0], "other": [2.0, 4.0, np.nan]}
    wide = pd.DataFrame(values, index=pd.Index(["a", "b", "c"], name="setting"))
    numbers = wide.reset_index().melt("setting", var_name="method")
    (found,) = against(numbers, "first", ["other", "none"]).to_dict("records")
    assert found["method"] == "other" and (found["usual"], found["value"], found["n"]) == (1.5, 1.5, 2)
    assert found["low"] == pytest.approx(1.5 - 12.7062 * 0.5, abs=1e-3)  # Student's t of one degree
    assert against(numbers[numbers["method"] == "other"], "first", ["other"]).empty


def test_the_recorded_run_is_the_one_with_the_most_settings_and_then_judges():
    parts = [("few", 2, 9), ("later", 3, 1), ("recorded", 3, 2)]
    rows = pd.DataFrame(
        [
            (name, str(run), metric)
            for name, runs, metrics in parts
            for run in range(runs)
            for metric in range(metrics)
        ],
        columns=["record", "run", "metric"],
    )
    for order in (rows, rows[::-1]):
        assert set(tables.widest(order)["record"]) == {"recorded"}
    assert tables.widest(rows[:0]).empty


def test_what_was_asked_later_is_recorded_and_read_again():
    columns = ["kind", "protocol", "usual", "value", "low", "high", "n"]
    table = pd.DataFrame(
        [("wrong", TODAY, 0.5, -0.1, -0.3, 0.1, 7), ("far", "x, y, z", 0.4, 0.0, -1.0, 1.0, 3)],
        columns=columns,
    )
    rows = part_rows({"apart": table})
    assert set(rows["run"]) == {ALL}
    rows = rows.assign(metric=rows["what"] + ": " + rows["protocol"], record="r")
    pd.testing.assert_frame_equal(part_table(rows, "apart", ["kind", "protocol"]), table, check_dtype=False)
    assert part_table(pd.DataFrame(), "apart", ["kind", "protocol"]).empty and part_rows({}).empty
    assert part_table(rows.assign(metric="tau"), "apart", ["kind", "protocol"]).empty
    assert tables.PART == "part"
