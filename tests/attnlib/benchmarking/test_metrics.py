"""A faithfulness metric of one's own: its agreement with the ground truth beside that of others."""

from __future__ import annotations

import json

import pytest
import torch

from attnlib.benchmarking.metrics import SEEDS, STANDARD, benchmark_metric, published_metrics
from attnlib.commands import main

FEW = range(1000, 1004)


def replaced(model, input_ids, scores, query=-1, target=None, foil=None):
    """What log p of the target loses when the top token gives way to that of the next prompt."""
    rows, top = torch.arange(len(input_ids)), scores.argmax(1)
    without = input_ids.clone()
    without[rows, top] = input_ids.roll(1, 0)[rows, top]
    both = [model(ids).logits[:, query].log_softmax(-1)[rows, target] for ids in (input_ids, without)]
    return both[0] - both[1]


def indifferent(model, input_ids, scores, query=-1, target=None, foil=None):
    """Says the same of all scores."""
    return torch.zeros(len(input_ids))


@pytest.fixture(scope="module")
def result():
    return benchmark_metric(replaced, FEW, progress=False)


def test_a_metric_stands_beside_the_recorded_ones_on_the_same_programs(result) -> None:
    table = result.table
    assert set(table["metric"]) == {"replaced", *published_metrics()["metric"]}
    assert set(table["n"]) == {result.programs} and result.programs >= 3
    own = result.rows[(result.rows["metric"] == "replaced") & (result.rows["truth"] == "causes")]
    row = table[(table["metric"] == "replaced") & (table["truth"] == "causes")].iloc[0]
    assert row["value"] == pytest.approx(own["value"].mean()) and own["value"].ne(0).any()
    assert row["rank"] == 1 + (table.loc[table["truth"] == "causes", "value"] > row["value"]).sum()
    assert STANDARD in set(result.differences["second"])


@pytest.mark.slow
def test_a_metric_that_says_nothing_agrees_with_nothing() -> None:
    table = benchmark_metric(indifferent, FEW, progress=False).table
    assert table.loc[table["metric"] == "indifferent", "value"].eq(0).all()


def test_an_entry_holds_a_number_per_program(result, tmp_path) -> None:
    entry = json.loads(result.entry(tmp_path / "mine.json").read_text())
    assert entry["metric"] == "replaced" and entry["seeds"] == "1000:1004"
    assert {each["seed"] for each in entry["values"]} <= set(FEW)


def changes(model, input_ids, scores, **_):
    next(iter(model.parameters())).data.add_(0).mul_(1)
    model.train()
    return torch.zeros(len(input_ids))


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (lambda model, ids, scores, **_: scores, "numbers of mine must be of the shape"),
        (
            lambda model, ids, scores, **_: torch.full((len(ids),), torch.nan),
            "numbers of mine must be finite",
        ),
        (lambda model, ids, scores, **_: torch.rand(len(ids)), "mine must return the same"),
        (lambda model, ids, scores, **_: 1 / 0, "ends with ZeroDivisionError"),
        (changes, "mine must leave the model's"),
    ],
)
def test_a_metric_that_cannot_count_is_refused(metric, said) -> None:
    with pytest.raises(ValueError, match=said):
        benchmark_metric(metric, range(1000, 1002), name="mine", progress=False)


def test_seeds_and_names_are_those_that_can_be_compared() -> None:
    with pytest.raises(ValueError, match="seeds must be a range"):
        benchmark_metric(indifferent, range(5000, 5010))
    with pytest.raises(ValueError, match="name must differ"):
        benchmark_metric(indifferent, SEEDS, name=STANDARD)


def test_the_command_takes_a_metric_from_a_file(tmp_path, capsys) -> None:
    file = tmp_path / "my_file.py"
    file.write_text("def my_metric(model, input_ids, scores, **_):\n    return scores.clamp(-9).amax(1)\n")
    assert main(["benchmark", "--metric", f"{file}:my_metric", "--seeds", "1000:1004"]) == 0
    assert "my_metric: " in (said := capsys.readouterr().out) and "by causes tau" in said
    page = ["benchmark", "--metric", f"{file}:my_metric", "-o", str(tmp_path / "page.html")]
    assert main(page) != 0
    assert "must end in .json" in capsys.readouterr().err
