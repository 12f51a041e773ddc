"""How sentences on the arithmetic lens say what was measured."""

import myst_nb
import pandas as pd
import pytest

from book.chapters.lens import sentences
from book.chapters.lens.measures import REFERENCE
from book.chapters.lens.sentences import sampling_clause, uniform_clause


@pytest.mark.parametrize(("share", "said"), [(0.7, "more"), (0.5, "no more")])
def test_a_share_is_said_against_uniform_attention(share, said):
    assert uniform_clause(pd.Series({"value": share, "uniform": 0.6})) == (
        f"{said} than the 60 % of uniform attention"
    )


@pytest.mark.parametrize(
    ("low", "high", "n", "said"),
    [
        (0.1, 0.3, 3, "scheduled sampling helps: it changes exact match by +20.0 points, with an interval "
         "from +10.0 to +30.0"),
        (-0.3, -0.1, 3, "scheduled sampling hurts: it changes exact match by -20.0 points, with an interval "
         "from -30.0 to -10.0"),
        (-0.1, 0.1, 3, "scheduled sampling makes no significant difference: it changes exact match by +0.0 "
         "points, with an interval from -10.0 to +10.0"),
        (float("nan"), float("nan"), 1, "scheduled sampling changes exact match by +5.0 points in one "
         "model, which gives no interval"),
    ],
)  # fmt: skip
def test_a_change_by_scheduled_sampling_is_said_by_its_interval(low, high, n, said):
    value = 0.05 if n == 1 else (low + high) / 2
    row = {"metric": "exact match", "value": value, "low": low, "high": high, "n": n}
    assert sampling_clause(pd.DataFrame([row | {"metric": "accuracy"}, row])) == said
    assert sampling_clause(pd.DataFrame([row])[:0]) == "scheduled sampling is not run"


@pytest.mark.parametrize(
    ("looker", "clause"), [("L0H0", ". Head"), ("L0H1", ", but only 10 points are lost")]
)
def test_a_head_that_looks_most_may_not_be_needed(monkeypatch, looker, clause):
    told = {}
    monkeypatch.setattr(myst_nb, "glue", lambda name, value, display: told.update({name: value}))
    heads = ["L0H0", "L0H1"]
    looks = pd.DataFrame(
        {"head": heads, "kind": REFERENCE, "value": [0.9 * (head == looker) for head in heads]}
    )
    costs = pd.DataFrame({"head": heads, "column": "answer", "value": [0.8, 0.1]})
    sentences.tell_ablation(looks, costs, costs, 0.9)
    assert f"head {looker} looks most at the reference, with 90 % of its attention{clause}" in told["ablated"]
    assert "Head L0H0 is the most needed: 80 points" in told["ablated"]
    sentences.tell_ablation(looks, costs, costs, 0.0)
    assert "hardly learned" in told["ablated"]
