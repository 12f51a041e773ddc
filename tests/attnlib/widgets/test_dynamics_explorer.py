"""The explorer of a classifier's training without a browser: what it refuses and stores, its live side."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnlib.widgets import DynamicsExplorer
from tests.explorers import press, raw, scores

STEPS = [0, 10, 40]
TOKENS = ["a", "great", "film", "."]


def document(**changes):
    parts = {"tokens": TOKENS, "scores": scores(), "predicted": ["bad", "good", "good"], "gold": "good"}
    return parts | changes


def explorer(documents=None, **settings):
    return DynamicsExplorer(documents or {"A": document()}, STEPS, {"accuracy": [0.5, 0.7, 0.9]}, **settings)


def unpacked(widget, index=0) -> dict[str, np.ndarray]:
    """What the front end reads, by name: [checkpoint token]."""
    steps, found, at, read = raw(widget, index).astype(float), widget.items[index], 0, {}
    for score in found["scores"]:
        end = at + score["moments"] * found["places"]
        parts = (steps[at:end] - 128) / 127 if score["signed"] else steps[at:end] / 255
        read[score["name"]] = (score["scale"] * parts * abs(parts)).reshape(score["moments"], -1)
        at = end
    assert at == len(steps)
    return read


# ---- storing


@given(arrays(float, (2, 3), elements=st.floats(-1e6, 1e6)), st.booleans())
def test_a_stored_score_is_off_by_no_more_than_promised_and_keeps_its_sign(values, positive):
    values = abs(values) if positive else values
    parts = document(tokens=list("abc"), scores={"x": values}, predicted=["p", "q"], gold=None)
    widget = DynamicsExplorer({"A": parts}, [0, 1])
    read, steps = unpacked(widget)["x"], 127 if values.min() < 0 else 255
    largest = abs(values).max() or 1
    error = np.sqrt(largest) * np.sqrt(abs(values)) / steps + largest / steps**2
    assert (abs(read - values) <= error + 1e-9 * largest).all()
    assert ((read == 0) == (values == 0)).all() or abs(values)[values != 0].min() < 1e-300
    assert (np.sign(read) * np.sign(values) >= 0).all()


def test_documents_lie_one_after_the_other_and_the_truth_with_them():
    truth = torch.tensor([0.0, 2.0, 0.0])
    other = document(tokens=list("xyz"), scores=scores(3, 3), true_relevance=truth)
    widget = explorer({"A": document(), "B": other}, title="T", item=1, token=2)
    assert [score["name"] for score in widget.items[1]["scores"]] == [
        "alpha", "beta", "Delta", "true relevance",
    ]  # fmt: skip
    for index, tokens in enumerate((4, 3)):
        for name, values in scores(3, tokens).items():
            found = unpacked(widget, index)[name]
            assert np.abs(found - values.numpy()).max() <= 0.009 * values.abs().max().item()
    assert unpacked(widget, 1)["true relevance"] == pytest.approx(truth.numpy()[None])
    assert repr(widget) == (
        "DynamicsExplorer 'T': 2 documents, 3 checkpoints, scores alpha, beta, Delta, true relevance"
    )


def test_a_score_that_is_negative_in_one_document_has_its_two_colours_in_all():
    positive = document(scores=scores() | {"beta": scores()["beta"].abs()})
    widget = explorer({"A": positive, "B": document()})
    signed = [{score["name"]: score["signed"] for score in each["scores"]} for each in widget.items]
    assert signed == 2 * [{"alpha": False, "beta": True, "Delta": True}]
    assert (unpacked(widget)["beta"] >= 0).all()


def test_scores_may_be_chosen_and_differ_between_documents():
    few = document(scores={"alpha": scores()["alpha"]})
    widget = explorer({"A": few, "B": document()})
    assert widget.shown == ["alpha", "beta", "Delta"]
    assert explorer(shown=["beta"]).shown == ["beta"]


# ---- refusing


def broken(value):
    values = scores()["alpha"].clone()
    values[1, 2] = value
    return {"alpha": values}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"tokens": "a film"}, "tokens"),
        ({"scores": {}}, "scores"),
        ({"scores": scores(2)}, "score 'alpha'"),
        ({"scores": {**scores(), "beta": torch.ones(1, 4)}}, "score 'beta'"),
        ({"scores": broken(np.nan)}, "score 'alpha' must be finite; got nan"),
        ({"predicted": ["good"]}, "predicted"),
        ({"gold": 1}, "gold"),
        ({"true_relevance": [1, 0]}, "score 'true relevance'"),
        ({"label": "good"}, "document 'mine'"),
    ],
)
def test_a_document_that_cannot_be_shown_is_named(changes, name):
    with pytest.raises(ValueError, match=f"^(document 'mine': )?{name}"):
        explorer({"fine": document(), "mine": document(**changes)})


def test_a_score_that_no_document_has_cannot_be_shown():
    with pytest.raises(ValueError, match=r"^shown must be one of"):
        explorer(shown=["gamma", "beta"])


def test_a_token_that_another_document_lacks_is_let_go():
    short = document(tokens=["x"], scores=scores(3, 1))
    widget = explorer({"A": document(), "B": short}, token=3)
    widget.item = 1
    assert widget.token == -1


# ---- the page


def test_long_documents_at_twenty_checkpoints_stay_under_170_kb(tmp_path):
    values = {name: torch.randn(20, 200) for name in ("alpha", "beta", "Delta")}
    parts = {"tokens": ["words"] * 200, "scores": values, "predicted": ["good"] * 20}
    widget = DynamicsExplorer(dict.fromkeys("abcd", parts), range(20), {"accuracy": [0.5] * 20})
    assert widget.save_html(tmp_path / "page.html").stat().st_size < 170_000


# ---- live


def classify(text):
    """Reads words; attention is even, and the word 'great' is relevant."""
    words = text.split()
    if "good" in words:
        raise ValueError("'good' is not in the vocabulary.")
    great = torch.tensor([[float(word == "great") for word in words]])
    even = torch.full((1, len(words)), 1 / len(words))
    return {"tokens": words, "scores": {"alpha": even, "gamma": great - 0.5}, "predicted": ["good"]}


def test_a_typed_text_is_scored_and_put_behind_the_recorded_documents():
    widget, busy = explorer(classify=classify, token=3, shown=["beta"]), []
    widget.observe(lambda change: busy.append(change["new"]), "busy")
    press(widget, " a great day ")
    assert busy == [True, False] and widget.error == ""
    assert [(each["label"], each["typed"], each["gold"]) for each in widget.items] == [
        ("A", False, "good"), ("a great day", True, None),
    ]  # fmt: skip
    assert widget.item == 1 and widget.token == -1
    assert widget.shown == ["beta", "gamma"]  # a score that was not there before is shown
    assert unpacked(widget, 1)["gamma"] == pytest.approx(np.array([[-0.5, 0.5, -0.5]]))
    press(widget, "word " * 30)
    press(widget, "a great day")
    assert [len(each["label"]) for each in widget.items] == [1, 48, 11]
