"""Right and wrong rows of the same samples: how sure their difference is, against simulation and by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from attnlib.stats import sample_rows
from book.chapters.reasoning.measures import compare_rows


def predictions(rng: np.random.Generator, wrong: str, samples: int = 30, answer: int = 20) -> pd.DataFrame:
    """Masses that have nothing to do with which rows are wrong, but for `"late"`."""
    sample, position = np.repeat(np.arange(samples), answer), np.tile(np.arange(answer), samples)
    chance = {
        "anywhere": np.full(samples, 0.3),
        "in hard samples": rng.beta(0.3, 0.7, samples),
        "in two samples": np.where(np.arange(samples) < 2, 0.5, 0.0),
        "late": np.zeros(samples),
    }[wrong][sample]
    is_wrong = rng.random(len(sample)) < chance
    spread = rng.normal(size=(samples, 1)) + rng.normal(size=(samples, answer))  # between samples as within
    mass = (0.5 + 0.15 * spread).ravel()
    if wrong == "late":  # answers that go wrong from some token on, and masses that fade
        is_wrong = position >= rng.integers(1, 2 * answer, samples)[sample]
        mass = mass - 0.02 * position
    return pd.DataFrame({"sample": sample, "position": position, "correct": ~is_wrong, "rollout": mass})


@pytest.mark.parametrize(
    ("wrong", "options", "at_least"),
    [
        ("anywhere", {}, 0.02),
        ("in hard samples", {}, 0.02),
        ("in two samples", {}, 0.0),  # too few to tell: it keeps silent
        ("late", {"adjust_for": ["position"]}, 0.02),
    ],
)
def test_equal_rows_are_called_different_as_often_as_promised(wrong, options, at_least):
    rng = np.random.default_rng(0)
    found = [compare_rows(predictions(rng, wrong), **options) for _ in range(150)]
    assert at_least <= np.mean([each.p is not None and each.p < 0.05 for each in found]) <= 0.07


def test_a_real_difference_is_found_and_late_rows_are_not_taken_for_one():
    rng = np.random.default_rng(0)
    rows = predictions(rng, "late", samples=60)
    assert compare_rows(rows).published.p < 1e-3  # only because wrong rows are late
    assert compare_rows(rows, adjust_for=["position"]).p > 0.05
    rows = predictions(rng, "anywhere", samples=60)
    rows["rollout"] += 0.1 * rows["correct"]
    found = compare_rows(rows, adjust_for=["position"])
    assert found.low - 0.02 < 0.1 < found.high + 0.02 and found.p < 1e-3
    assert found.effect == pytest.approx(found.difference / 0.21, rel=0.2)


def test_the_difference_is_that_of_the_means_over_rows():
    rows = predictions(np.random.default_rng(1), "in hard samples")
    found = compare_rows(rows)
    right, wrong = (rows.loc[rows["correct"] == kind, "rollout"] for kind in (True, False))
    assert found.difference == pytest.approx(right.mean() - wrong.mean())
    assert found.difference == pytest.approx(found.published.difference)
    pooled = np.sqrt((right.var() * (len(right) - 1) + wrong.var() * (len(wrong) - 1)) / (len(rows) - 2))
    assert found.effect == pytest.approx(found.difference / pooled)
    assert found.rows == (len(right), len(wrong))
    assert (found.first, found.second) == pytest.approx((right.mean(), wrong.mean()))


def test_the_jackknife_by_leaving_out():
    rows = predictions(np.random.default_rng(2), "anywhere", samples=8)
    found = compare_rows(rows, adjust_for=["position"])

    def coefficient(table: pd.DataFrame) -> float:
        design = pd.get_dummies(table["position"].astype("category")).to_numpy(float)
        columns = np.column_stack([table["correct"], design])
        return float(np.linalg.lstsq(columns, table["rollout"], rcond=None)[0][0])

    parts = np.array([coefficient(rows[rows["sample"] != sample]) for sample in range(8)])
    error = np.sqrt(7 / 8 * ((parts - coefficient(rows)) ** 2).sum())
    assert found.difference == pytest.approx(coefficient(rows))
    assert found.statistic == pytest.approx(found.difference / error)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(found.statistic), 7))


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        ({"correct": True}, {}, "0 of at least 2 samples needed have the rarer kind"),
        ({"rollout": np.nan}, {}, "0 of at least 2"),
        ({"rollout": 0.5}, {}, "equal"),
        ({"correct": [False] * 20 + [True] * 580}, {}, "1 of at least 2 samples"),
        ({"correct": [True, False] * 300}, {"adjust_for": ["position"]}, "position alone says"),
        ({"correct": [True, False] * 300, "rollout": [0.7, 0.2] * 300}, {}, "equal"),
    ],
)
def test_rows_that_tell_nothing_say_so(change, options, says):
    rows = predictions(np.random.default_rng(0), "anywhere").assign(**change)
    found = compare_rows(rows, **options)
    assert found.p is None and says in found.problem
    nothing = compare_rows(rows[:0], **options)
    assert nothing.problem and nothing.published.problem


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        ({"correct": 0.5}, {}, "True or False"),
        ({"rollout": np.inf}, {}, "finite"),
    ],
)
def test_what_are_no_rows_is_refused(change, options, says):
    rows = predictions(np.random.default_rng(0), "anywhere").assign(**change)
    with pytest.raises(ValueError, match=says):
        compare_rows(rows, **options)


def test_published_rows_without_a_reference_count_as_nought():
    rows = predictions(np.random.default_rng(0), "anywhere")
    rows["evaluated"] = rows["position"] > 0
    rows.loc[rows["position"] < 3, "rollout"] = np.nan
    found = compare_rows(rows)
    assert sum(found.rows) == 30 * 17 and sum(found.published.rows) == 30 * 19
    as_runs = [sample_rows(rows, as_published=flag) for flag in (False, True)]
    assert {len(sample) for sample in as_runs[0]} == {17} and {len(sample) for sample in as_runs[1]} == {19}
    assert (as_runs[1][0][:2] == 0).all()
