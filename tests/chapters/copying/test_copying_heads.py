"""The part on heads of the chapter on copying: who is trained when, put together of whom, what is said."""

from dataclasses import replace

import myst_nb
import numpy as np
import pandas as pd
import pytest

from book.chapters.copying import SequenceCopying, sentences, tables
from book.chapters.copying.tables import Graded
from book.chapters.refusals import ParameterError
from tests.parameters import defaults_of, profile

QUICK = defaults_of("sequence_copying")
SMALL = QUICK | profile("sequence_copying", "smoke") | {"device": "cpu"}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNLIB_CACHE", str(tmp_path))


@pytest.fixture
def told(monkeypatch):
    names = {}
    monkeypatch.setattr(myst_nb, "glue", lambda name, value, display: names.update({name: value}))
    return names


def invented(given):
    """Graded heads whose runs had these grades."""
    ends = {"good": [0.2, 0.97], "bad": [0.2, 0.3], "neither": [0.2, 0.8]}
    curves = pd.DataFrame(
        [
            {"head": head, "order": order, "step": 10 * step, "n": 8, "accuracy": accuracy}
            for head, runs in given.items()
            for order, grade in enumerate(runs)
            for step, accuracy in enumerate(ends[grade])
        ]
    )
    runs = tables.run_grades(curves)
    return Graded(curves, runs, tables.head_grades(runs))


ALL = dict(enumerate([["bad"] * 3] * 4 + [["good"] * 3] * 3 + [["neither"]]))


def test_heads_go_on_as_long_as_their_runs_agree(monkeypatch):
    """As in the original, a run that settles that a head is neither is its last; three grade it."""
    p = SequenceCopying.checked(SMALL | {"heads_wanted": 2, "heads_drawn": 45})
    fate, asked = {0: "ggg", 1: "bbb", 2: "gb", 3: "n", 20: "bbn", 21: "ggg", 22: "bbb"}, []
    words = {"g": "good", "b": "bad", "n": "neither"}

    def once(heads, order):
        asked.append((order, list(heads)))
        runs = {head: [words[fate.get(head, "n")[order]]] for head in heads}
        return invented(runs).curves.assign(order=order)

    monkeypatch.setattr(SequenceCopying, "_graded_once", lambda self, heads, order: once(heads, order))
    graded = p.grade_heads()
    first, second = list(range(20)), list(range(20, 40))
    assert asked == [
        (0, first), (1, [0, 1, 2]), (2, [0, 1]), (0, second), (1, [20, 21, 22]), (2, [20, 21, 22])
    ]  # fmt: skip
    assert graded.of("good") == [0, 21] and graded.of("bad") == [1, 22]  # enough: the last five are not drawn
    assert str(graded) == "40 heads drawn: 2 good, 2 bad, 36 neither"
    assert p.said_of(graded) == str(graded)


def test_too_few_heads_are_said_and_the_rest_goes_on():
    p = SequenceCopying.checked(SMALL | {"heads_wanted": 5, "heads_together": 2})
    graded = invented({head: runs for head, runs in ALL.items() if runs[0] != "good"})
    said = p.said_of(graded)
    assert "5 heads drawn: 0 good, 4 bad, 1 neither. That is less than the 5 good and 5 bad ones" in said
    assert "heads_drawn = 4" in said and said.endswith("can be made: 2 bad, 2 not graded")


def test_heads_are_put_together_of_the_kinds_they_are_called():
    p = SequenceCopying.checked(SMALL | {"heads_wanted": 3, "heads_together": 3, "heads_models": 9})
    graded = invented(ALL)
    found = p.combinations(graded)
    assert list(found) == ["3 bad", "2 bad, 1 good", "3 not graded"] and set(map(len, found.values())) == {9}
    bad, good = {10_000, 10_001, 10_002}, {10_004, 10_005, 10_006}  # of four bad ones, the first three
    assert all(set(heads) == bad for heads in found["3 bad"])
    for heads in found["2 bad, 1 good"]:
        assert len(set(heads)) == 3 and set(heads[:2]) < bad and heads[2] in good
    for heads in found["3 not graded"]:
        assert len(set(heads)) == 3 and all(20_000 <= head < 20_030 for head in heads)
    assert found == p.combinations(graded)


def test_no_two_runs_are_alike_but_in_what_they_are_to_share(cache, monkeypatch):
    p = SequenceCopying.checked(SMALL | {"heads_stacked": 3, "heads_models": 4, "heads_wanted": 3})
    runs = []
    train = SequenceCopying.train
    monkeypatch.setattr(SequenceCopying, "train", lambda self, run: runs.append(run) or train(self, run))
    p._graded_once([0, 1, 5, 9], 2)
    assert [run.orders for run in runs] == [(2, 2, 2), (2,)]
    assert [run.heads for run in runs] == [((10_000,), (10_001,), (10_005,)), ((10_009,),)]
    assert len({run.name for run in runs}) == 2
    setups = [p.setup(run) for run in runs]
    assert [setup.model.config.seeds for setup in setups] == [(0, 0, 0), (0,)]
    assert (setups[0].batches(5).source == setups[1].batches(5).source).all()  # one order
    assert (setups[0].valid[0].source == setups[1].valid[0].source).all()  # fixed sequences
    assert not (setups[0].batches(0).source[0] == setups[0].valid[0].source[0]).all()
    (looks,) = p.setup(replace(runs[0], steps=25)).hooks  # every 10 steps, as in the original, and at the end
    assert list(looks.steps) == [0, 10, 20, 25]


def test_models_of_several_heads_have_orders_of_their_own(cache, told):
    p = SequenceCopying.checked(SMALL | {"heads_wanted": 3, "heads_stacked": 2, "heads_models": 3})
    graded = invented(ALL)
    together = p.train_together(graded)
    orders = [order for each in p.trained.values() for order in each.run.orders]
    assert orders == list(range(3, 12))
    assert together.groupby("task")["seed"].nunique().tolist() == [3, 3, 3]
    assert sorted(together["step"].unique()) == [0, 10]
    found = p.head_results(graded, together)
    assert found.preferences["head"].tolist() == list(range(8))
    times = found.times.assign(learned=True)  # who leads is asked of models that have learned
    leads = p.found_by_good(times)
    mixed = [each.hooks[0] for name, each in p.trained.items() if name.startswith("1 bad, 1 good")]
    last = np.concatenate([looks.at(10)["on it"] for looks in mixed])
    assert leads.n == 3 and leads.value == (last[:, 1] > last[:, 0]).mean()
    rows = found.rows()
    assert rows["value"].notna().all() and rows[["low", "high"]].notna().all().all()
    metrics = {"good, share of heads", "AUC of on it, good against bad", "learned, several heads"}
    assert metrics <= set(rows["metric"])
    assert not rows.duplicated(["metric", "task", "budget"]).any()
    assert found.graded.counts["good"] == 3
    good = found.shares[found.shares["grade"] == "good"].set_index("metric")
    assert good.loc["second runs after a good first", "count"] == 3
    assert good.loc["second runs after a bad first", "value"] == 0
    sentences.tell_several_heads(p, found)
    assert told["heads, one good: n"] == 3 and told["heads, together"] == 2


def test_without_heads_nothing_is_trained_and_nothing_said(cache, told):
    p = SequenceCopying.checked(SMALL | {"heads_wanted": 0})
    graded = p.grade_heads()
    together = p.train_together(graded)
    found = p.head_results(graded, together)
    assert not p.trained and found.rows().empty and found.predicted.empty and not len(found.times)
    sentences.tell_several_heads(p, found)
    assert told["heads, random: n"] == told["heads, random: count"] == 0
    assert "heads_wanted is 0" in p.said_of(graded)


def test_curves_of_grades_are_over_heads():
    rows = invented(ALL).over_training()
    assert rows["task"].unique().tolist() == ["3 good", "1 neither", "4 bad"]
    good = rows[(rows["task"] == "3 good") & (rows["step"] == 10)]
    assert good["value"].item() == pytest.approx(0.97) and good["n"].item() == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"heads_wanted": 1, "heads_together": 2}, "heads_wanted should be 0, or at least .* = 2"),
        ({"heads_length": 2}, "heads_length: should be greater than or equal to 3; got 2"),
    ],
)
def test_wrong_parameters_are_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        SequenceCopying.checked(SMALL | given)
