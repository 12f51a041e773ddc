"""The explorer of source by target tokens without a browser: scores of several runs."""

import numpy as np
import pytest
import torch

from attnlib.widgets import AlignmentExplorer
from tests.attnlib.widgets.test_dynamics_explorer import unpacked
from tests.explorers import state_of

STEPS = [0, 10, 40]
SYMBOLS = ["a", "b", "a"]
RUNS = {
    name: torch.softmax(torch.randn(3, 3, 3, generator=torch.Generator().manual_seed(i)), -1)
    for i, name in enumerate(["learns", "does not"])
}
WRITTEN = {"learns": ["a", "a b", "a b a"], "does not": ["c", "", "c"]}


def sequence(**changes):
    parts = {"source": SYMBOLS, "targets": [SYMBOLS] * 3, "scores": RUNS, "written": WRITTEN}
    return parts | {"expected": "a b a"} | changes


def explorer(sequences=None, **settings):
    settings = {"one_scale": True, "nouns": ("sequence", "copy")} | settings
    return AlignmentExplorer(sequences or {"A": sequence()}, STEPS, **settings)


def test_runs_have_their_own_maps_and_texts_and_what_is_shown_its_own_name():
    widget = explorer()
    assert repr(widget) == "AlignmentExplorer: 1 sequence, 3 checkpoints, scores learns, does not"
    for name, values in RUNS.items():
        found = unpacked(widget)[name].reshape(3, 3, 3)
        assert np.abs(found - values.numpy()).max() <= 0.009 * values.max().item()
    state = state_of(widget.to_html())
    (shown,) = state["items"]
    assert shown["written"] == WRITTEN and shown["expected"] == "a b a"
    assert state["one_scale"] and state["nouns"] == ["sequence", "copy"]


@pytest.mark.parametrize(
    "written",
    [["x"] * 3, {}, {"learns": ["x"] * 3}],
)
def test_one_text_may_be_of_all_maps_or_of_some_or_there_is_none(written):
    (shown,) = explorer({"A": sequence(written=written)}).items
    assert shown["written"] == written


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"written": {"other": ["x"] * 3}}, "a name in written"),
        ({"written": WRITTEN | {"learns": ["x"]}}, "written of 'learns'"),
        ({"targets": [SYMBOLS, SYMBOLS, SYMBOLS[:2]]}, "targets"),
        ({"truth": torch.eye(3)}, "truth"),
        ({"source": "das Haus"}, "source"),
        ({"scores": {"learns": RUNS["learns"][:2]}, "written": {}}, "score 'learns'"),
    ],
)
def test_what_cannot_be_shown_is_refused_by_name(changes, name):
    with pytest.raises(ValueError, match=f"sequence 'A': {name} must "):
        explorer({"A": sequence(**changes)})


def test_what_is_read_and_what_is_made_of_it_have_names():
    with pytest.raises(ValueError, match=r"^nouns must"):
        explorer(nouns=("phrase", ""))


def test_one_checkpoint_alone_is_of_the_last():
    last = {name: values[2:] for name, values in RUNS.items()}
    written = {name: texts[2:] for name, texts in WRITTEN.items()}
    (shown,) = explorer({"A": sequence(targets=[SYMBOLS], scores=last, written=written)}).items
    assert shown["checkpoints"] == 1 and shown["written"] == written
