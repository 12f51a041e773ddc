"""What the page says of its own run: of models that have learned, and of those that have not."""

from typing import Any

import pandas as pd
import pytest

from book.chapters.rasp import sentences

HEADS = ("mass L0H0", "mass L1H0")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What has been told, by name."""
    found: dict[str, Any] = {}
    monkeypatch.setattr(sentences, "tell", found.update)
    return found


def accuracy(**right: float) -> pd.DataFrame:
    return pd.DataFrame([{"run": run, "metric": "accuracy", "value": value} for run, value in right.items()])


def mass(*runs: str) -> pd.DataFrame:
    cells = [(run, metric) for run in runs for metric in HEADS]
    return pd.DataFrame(cells, columns=["run", "metric"]).assign(value=[0.1, 0.2, 0.8, 0.9], uniform=0.4)


def matches(right: float) -> pd.DataFrame:
    pairs = [("sort", "sort", 0.3), ("sort", "reverse", 0.2), ("hist, supervised", "hist", 0.6)]
    rows = pd.DataFrame(pairs, columns=["run", "program of", "accuracy, the program's"])
    return rows.assign(agreement=0.5, uniform=0.4, **{"accuracy, their own": right})


def test_a_model_of_sort_that_has_learned_is_spoken_of(told: dict[str, Any]) -> None:
    sentences.tell_memorized(accuracy(sort=0.99), accuracy(sort=0.6))
    sentences.tell_shares(mass("sort", "sort, supervised"), accuracy(sort=0.6))
    assert told["memorized"].startswith("it gets 99.00 % of their tokens right and 60.00 %")
    assert "uniform attention, 0.10 unsupervised and 0.80 supervised" in told["shares"]
    assert told["shares"].endswith("The second has 0.40, 0.20 and 0.90")


@pytest.mark.parametrize(("right", "said"), [(0.9, "agree"), (0.15, "hardly learned anything")])
def test_use_is_said_of_models_that_have_learned(told: dict[str, Any], right: float, said: str) -> None:
    sentences.tell_use(matches(right))
    assert list(told) == ["use, sort", "use, hist"] and all(said in each for each in told.values())


def test_what_a_run_lacks_is_not_told(told: dict[str, Any]) -> None:
    sentences.tell_memorized(accuracy(hist=0.9), accuracy(hist=0.9))
    sentences.tell_shares(mass("hist", "hist, supervised"), accuracy(hist=0.9))
    sentences.tell_use(matches(0.9).iloc[1:2])
    assert not told
