"""What the public functions of `stats` refuse, by the argument that the message begins with."""

import numpy as np
import pandas as pd
import pytest

from attnlib.stats import (
    Estimate,
    Ragged,
    agreement,
    answer_accuracy,
    chance_agreement,
    compare,
    comparison_table,
    error_positions,
    kendall_tau,
    over_left_out,
    over_seeds,
    proportion,
    ratio,
    sample_rows,
    summarise,
    table_over_seeds,
    top_match,
    with_interval,
    xi,
)
from attnlib.stats.agreement_tables import attention_spread
from attnlib.stats.plausibility import average_precision, hit_at_k
from attnlib.stats.seeds import pooled

ROWS = pd.DataFrame({"task": ["a", "b"], "seed": 0, "value": [0.5, 0.7]})
LOTS = ROWS.assign(low=0.4, high=0.8, n=9)
TRUTH = np.array([[True, False]])


def several(checkpoints: int) -> Ragged:
    return Ragged(np.zeros((checkpoints, 2)), np.array([2]))


def predicted(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"sample": 0, "position": [0, 1], "correct": True}).assign(**columns)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: top_match([0.5, 0.5], [1.0]), "scores"),
        (lambda: top_match([0.5, np.nan], [1.0, 2.0]), "a pair"),
        (lambda: top_match([0.5], [0.5], fraction=5), "fraction"),
        (lambda: kendall_tau([[0.5], [0.5]], [[1.0]]), "scores"),
        (lambda: kendall_tau(several(2), several(3)), "one of two scores"),
        (lambda: kendall_tau(*np.zeros((2, 2, 3, 5))), "a row"),
        (lambda: agreement([[0.5]], [[0.5]], "pearson"), "measure"),
        (lambda: agreement([[0.5]], [[0.5]], "kendall"), "every mean"),
        (lambda: agreement([[0.5]] * 2, [[0.5]] * 2, groups=np.array([0])), "groups"),
        (lambda: agreement(several(1), several(3)), "scores"),
        (lambda: chance_agreement([[np.nan]], [[0.5]]), "a row"),
        (lambda: chance_agreement([[0.2]], [[0.5]], shuffles=1), "shuffles"),
        (lambda: Ragged(np.zeros(3), np.array([1, 1])), "lengths"),
        (lambda: Ragged.from_padded([[0.1, 0.2]], [[True]]), "mask"),
        (lambda: xi([0.1, 0.2], [0.5], 0.1), "agreements"),
        (lambda: xi([0.1, np.nan], [0.5, 0.6], 0.1), "agreements"),
        (lambda: attention_spread(Ragged(np.ones(3), np.array([1, 2]))), "rows"),
        (lambda: proportion(11, 10), "successes"),
        (lambda: proportion(0, 0), "successes"),
        (lambda: ratio([1.0], [1.0, 2.0]), "parts and wholes"),
        (lambda: ratio([1.0, np.nan], [2, 3]), "parts and wholes"),
        (lambda: ratio(np.ma.masked_array([0.5, 9.0], mask=[False, True]), [1, 1]), "parts and wholes"),
        (lambda: ratio([1, 2], [1, -1]), "wholes"),
        (lambda: with_interval(Estimate(43, 43, 43, 5), "%"), "what is shown in %"),
        (lambda: hit_at_k(np.ones((1, 2)), TRUTH, TRUTH, 0), "k"),
        (lambda: average_precision(np.ones((1, 2)), TRUTH, ~TRUTH), "truth"),
        (lambda: over_seeds([]), "values"),
        (lambda: over_seeds([90.0, 95.0], share=True), "shares"),
        (lambda: summarise(ROWS, "task"), "by"),
        (lambda: summarise(ROWS.assign(task=["a", None]), ["task"]), "task"),
        (lambda: summarise(ROWS.assign(sample=[0, np.nan]), unit="sample"), "sample"),
        (lambda: table_over_seeds(ROWS, []), "by"),
        (lambda: table_over_seeds(ROWS, ["task"], of_one=True), "rows"),
        (lambda: table_over_seeds(ROWS.assign(seed=[0, np.nan]), ["value"]), "seed"),
        (lambda: pooled(LOTS, []), "by"),
        (lambda: pooled(LOTS.drop(columns="high"), ["task"]), "rows"),
        (lambda: answer_accuracy(predicted(sample=[0, np.nan])), "sample"),
        (lambda: answer_accuracy(predicted(task=["a", None]), by=["task"]), "task"),
        (lambda: error_positions(predicted(position=0)), r"each \(sample, position\)"),
        (lambda: sample_rows(predicted(sample=[0, np.nan], value=0.5), "value"), "sample"),
        (lambda: comparison_table({("a", "b"): compare([0.1], [0.2])}), "comparisons"),
        (lambda: compare([0.1], [0.2, 0.3], paired=True), "paired"),
        (lambda: compare([0.1], [0.2], paired=True, as_published=True), "paired"),
        (lambda: compare([0.1], 1e200 * np.ones(3)), "second"),
        (lambda: compare(1e-200 * np.ones(3), [0.1]), "first"),
    ],
)
def test_what_cannot_be_counted_is_refused(call, name):
    with pytest.raises(ValueError, match=rf"^{name}.* must "):
        call()


@pytest.mark.parametrize(
    "run",
    ["0.5", {"a": [0.5]}, [[0.5], 0.5], [[[0.5]]], [0.5, np.inf], [0.5, None]],
)
def test_what_is_no_run_is_refused(run):
    with pytest.raises(ValueError, match=r"^first must "):
        compare(run, [0.5, 0.6])


@pytest.mark.parametrize("bad", ["False", np.nan, 2, pd.NA])
@pytest.mark.parametrize("count", [answer_accuracy, error_positions])
def test_what_is_no_truth_value_does_not_count_as_right(count, bad):
    with pytest.raises(ValueError, match=r"^correct must "):
        count(predicted(correct=[True, bad]))
    assert count(predicted(correct=[1.0, 0.0])).equals(count(predicted(correct=[True, False])))


@pytest.mark.parametrize(
    "call",
    [
        lambda **given: proportion(1, 2, **given),
        lambda **given: ratio([1, 2], [2, 3], **given),
        lambda **given: compare([0.1, 0.2], [0.3, 0.5], **given),
        lambda **given: over_seeds([0.1, 0.2], **given),
        lambda **given: over_left_out([0.1, 0.2, 0.4], **given),
        lambda **given: summarise(ROWS, **given),
        lambda **given: agreement([[0.1, 0.2]] * 2, [[0.1, 0.2], [0.2, 0.1]], **given),
        lambda **given: chance_agreement([[0.1, 0.2]] * 2, [[0.1, 0.2]] * 2, shuffles=9, **given),
    ],
)
def test_a_confidence_is_between_0_and_1(call):
    for confidence in (95.0, 1.0):
        with pytest.raises(ValueError, match=r"^confidence must "):
            call(confidence=confidence)
