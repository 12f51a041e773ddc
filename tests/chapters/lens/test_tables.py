"""What is judged of layers and of a change over seeds, and the original's log beside it."""

import pandas as pd
import pytest

from book.chapters.lens.tables import (
    beside_points,
    claims_at_size,
    layer_claims,
    layer_differences,
    paired_over_seeds,
)


def looks_of(values):
    """A table with one share per (seed, layer, kind)."""
    return pd.DataFrame(values, columns=["seed", "layer", "kind", "value"])


def test_claims_are_judged_over_seeds():
    rows = []
    for seed in range(5):
        noise = 0.01 * seed
        for layer in range(3):
            rows += [(seed, layer, "local", (0.8 if layer == 0 else 0.2) + noise)]
            rows += [(seed, layer, "operator", 0.3 if layer == 1 else 0.6 + noise)]
            rows += [(seed, layer, "either column", 0.5 + 0.2 * (-1) ** seed * (layer == 2))]
    claims = layer_claims(layer_differences(looks_of(rows))).set_index("claim")
    assert claims["verdict"].tolist() == ["reproduced", "not reproduced", "inconclusive"]
    assert claims["value"].iloc[0] == pytest.approx(0.6) and (claims["n"] == 5).all()
    two = looks_of([row for row in rows if row[1] < 2])
    assert layer_claims(layer_differences(two))["claim"].tolist() == [
        "early layers look local",
        "late layers combine the columns",
    ]
    assert layer_claims(layer_differences(looks_of([row for row in rows if row[1] < 1]))).empty
    one = layer_claims(layer_differences(looks_of([row for row in rows if row[0] == 0])))
    assert (one["verdict"] == "inconclusive").all() and one["low"].isna().all()  # one seed has no interval


def test_models_of_several_records_count_alike_if_they_are_of_the_originals_size():
    """Of one record alone the interval holds 0."""
    numbers = {"a": (0.2, -0.1, 0.5), "b": (0.25, 0.15, 0.35), "small": (-0.9, -1.0, -0.8)}
    about = {"metric": "claim: early layers look local", "run": "over seeds", "setting": None, "n": 3}
    rows = [
        about | {"record": name} | dict(zip(("value", "low", "high"), ends, strict=True))
        for name, ends in numbers.items()
    ]
    rows += [about | {"record": name, "run": "addition, seed 0", "value": 0.2, "low": 0.2, "high": 0.2,
                      "n": 1, "setting": f"3 layers, 4 heads, width {width}, 15,650 steps; also []"}
             for name, width in {"a": 128, "b": 128, "small": 64}.items()]  # fmt: skip
    (found,) = claims_at_size(pd.DataFrame(rows)).to_dict("records")
    assert (found["claim"], found["n"], found["verdict"]) == ("early layers look local", 6, "reproduced")
    assert found["value"] == pytest.approx(0.225) and found["low"] > 0


def test_changes_are_judged_seed_by_seed():
    before = pd.DataFrame({"exact match": [0.5, 0.7, 0.9], "accuracy": [0.8, 0.8, 0.8]})
    after = before.add(pd.DataFrame({"exact match": [0.1] * 3, "accuracy": [0.0, 0.1, -0.1]}))
    table = paired_over_seeds(before, after).set_index("metric")
    assert table.loc["exact match", ["value", "low", "high"]].tolist() == pytest.approx([0.1] * 3)
    assert table.loc["exact match", ["before", "after"]].tolist() == pytest.approx([0.7, 0.8])
    assert table.loc["accuracy", "low"] < 0 < table.loc["accuracy", "high"]
    with pytest.raises(ValueError, match="the same seeds and metrics"):
        paired_over_seeds(before, after[:2])
    assert paired_over_seeds(pd.DataFrame(), pd.DataFrame()).empty


INDEX = pd.Index(["token accuracy, operands too", "cross entropy, operands too"], name="metric")
LOG = pd.DataFrame({"the original's log": [0.669, 0.873], "best possible": [0.7, 0.8]}, index=INDEX)


def test_ours_and_what_is_possible_are_on_the_logs_scales():
    ours = {"here": [0.68, 0.88], "low": [0.67, 0.87], "high": [0.69, 0.89], "n": [99, 99]}
    here, possible = beside_points(LOG.assign(**ours))
    assert here["metric"].tolist() == ["token accuracy", "cross entropy"]
    assert here[["value", "low", "high"]].round(9).values.tolist() == [[68, 67, 69], [0.88, 0.87, 0.89]]
    assert possible["value"].round(9).tolist() == [70, 0.8] and set(possible["mark"]) == {"best possible"}


def test_what_was_not_run_has_no_point():
    here, possible = beside_points(LOG.assign(here="not run"))
    assert here.empty and len(possible) == 2
