"""Training a column of queries and keys further: that it is trained, and nothing else."""

import pandas as pd
import pytest
import torch

from attnlib.training import token_loss
from book.chapters.findings.rules import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from book.chapters.reasoning import few_columns
from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning
from book.chapters.reasoning.claims import ENOUGH, enough_clause, steepest_column
from book.chapters.reasoning.recipes import ALL, EVERY, FASTEST, RANDOM, SLOWEST, STEEPEST, WAYS, WHOLE
from tests.chapters.findings.made_up import CASES
from tests.parameters import defaults_of

torch.set_num_threads(1)
HEADS, CHANNELS, WIDTH = 2, 4, 8


@pytest.fixture(scope="module")
def p():
    sizes = {"n_layers": 2, "n_heads": HEADS, "width": WIDTH, "ff_width": 8, "steps": 20, "test_samples": 8}
    asked = {
        "tasks": ["string_reversal"],
        "supervised": [],
        "positions": ["rotary"],
        "further": [STEEPEST, RANDOM],
    }
    own = {"model": "transformer", "strengths": [], "longest": 0.0}
    return AlgorithmicReasoning.checked(defaults_of("algorithmic_reasoning") | asked | own | sizes)


@pytest.fixture
def model(p):
    return p.setup(p.runs()[0]).model


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(few_columns, "STEPS", 20)


def queries_and_keys(weight):
    """By queries or keys, head and column."""
    return weight.view(3, HEADS, CHANNELS, -1)[:2]


@pytest.mark.parametrize(
    ("way", "columns"), [(WHOLE, [0, 1, 2, 3]), (STEEPEST, [2]), (FASTEST, [0, 2]), (SLOWEST, [1, 3])]
)
def test_only_these_columns_of_queries_and_keys_change(p, model, short, way, columns):
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    steep = few_columns.column_gradients(
        model, p.generator("string_reversal", "ood", split="train").batches(32)(0)
    )
    columns = [int(steep.argmax())] if way == STEEPEST else columns
    after = few_columns.trained_further(p, model, "string_reversal", way, 0).state_dict()
    assert after.keys() == before.keys()
    for name, weight in before.items():
        if "qkv" not in name:
            assert torch.equal(after[name], weight), name
            continue
        moved = (after[name] != weight).view(3, HEADS, CHANNELS, -1).any(-1)
        assert moved[:2].nonzero()[:, 2].unique().tolist() == columns, name
        assert moved[:2, :, columns].all() and not moved[2].any(), name
    assert all(torch.equal(weight, model.state_dict()[name]) for name, weight in before.items()), (
        "the model itself"
    )


def test_all_weights_are_trained_in_the_other_way(p, model, short):
    after = few_columns.trained_further(p, model, "string_reversal", ALL, 0).state_dict()
    assert not any(
        torch.equal(after[name], weight) for name, weight in model.state_dict().items() if "weight" in name
    )


def test_a_map_of_which_a_part_learns_is_one_map_again():
    torch.manual_seed(0)
    linear, x = torch.nn.Linear(5, 6), torch.randn(3, 5)
    further = few_columns.Further(linear, torch.tensor([1, 4]))
    assert torch.equal(further(x), linear(x))
    torch.nn.init.normal_(further.change.weight)
    torch.nn.init.normal_(further.change.bias)
    expected = further(x)
    torch.testing.assert_close(further.merged()(x), expected)
    assert not torch.equal(expected[:, 1], linear(x)[:, 0])


def test_the_steepest_column_is_the_one_along_which_the_loss_falls_most(p, model):
    batch = p.generator("string_reversal", "ood", split="train").batches(16)(0)
    steep = few_columns.column_gradients(model, batch)
    by_hand = torch.zeros(CHANNELS)
    weights = [layer.attention.qkv.weight for layer in model.layers]
    for gradient in torch.autograd.grad(token_loss()(model, batch)["loss"], weights):
        for which in range(2):
            for head in range(HEADS):
                for column in range(CHANNELS):
                    row = which * WIDTH + head * CHANNELS + column
                    by_hand[column] += gradient[row].square().sum()
    torch.testing.assert_close(steep, by_hand.sqrt())
    drawn = {few_columns.columns_of(RANDOM, steep, seed)[0] for seed in range(40)}
    assert drawn == set(range(CHANNELS)) - {int(steep.argmax())}


def test_rows_say_what_became_of_each_way(p, model, short):
    rows = few_columns.further_rows(p, {p.runs()[0].name: model})
    assert len(rows) == 3 * 2 * 3 and set(rows["run"]) == {p.runs()[0].name}
    for way in (few_columns.NOTHING, STEEPEST, RANDOM):
        for metric in ("accuracy", "exact match", "mean attention"):
            for split in ("ID", "OOD"):
                assert (rows["metric"] == f"further, {way}: {metric} {split}").sum() == 1


def test_frequencies_are_of_rotary_positions_only(p, model, short):
    plain = p.model_copy(update={"positions": ["learned"], "further": [FASTEST, SLOWEST]})
    rows = few_columns.further_rows(plain, {run.name: plain.setup(run).model for run in plain.runs()})
    assert rows["metric"].str.contains(few_columns.NOTHING).all()


def test_another_model_than_our_own_is_refused(p):
    with pytest.raises(ValueError, match="further is of our own transformer only"):
        AlgorithmicReasoning.checked(p.model_dump() | {"model": "llama", "positions": []})
    assert set(WAYS) == {ALL, WHOLE, STEEPEST, RANDOM, FASTEST, SLOWEST, EVERY}


def test_every_column_is_trained_by_itself(p, model, short):
    """And named so that a table knows whether all are there."""
    each = p.model_copy(update={"further": [EVERY]})
    rows = few_columns.further_rows(each, {each.runs()[0].name: model})
    ways = rows["metric"].str.extract(r"^further, (.+): accuracy OOD$")[0].dropna().tolist()
    assert ways == [
        few_columns.NOTHING,
        *(f"column {place} of {CHANNELS}" for place in range(1, CHANNELS + 1)),
    ]
    steep = few_columns.column_gradients(model, p.batches("string_reversal", "ood")[0])
    assert few_columns.columns_of(f"column 2 of {CHANNELS}", steep, 0) == [1]


def test_what_came_back_is_a_share_of_what_was_lost():
    """By hand, of two seeds; of another kind of positions, apart."""
    numbers = {"nothing": [(0.9, 0.5), (1.0, 0.2)], STEEPEST: [(0.8, 0.7), (1.0, 0.6)]}
    rows = pd.DataFrame(
        {"kind": positions, "task": "t", "positions": positions, "seed": seed, "value": value + other,
         "metric": f"further, {way}: {metric} {split}"}
        for other, positions in ((0.0, "rotary"), (-0.1, "none"))
        for way, seeds in numbers.items()
        for seed, pair in enumerate(seeds)
        for value, split in zip(pair, ("ID", "OOD"), strict=True)
        for metric in ("accuracy", "mean attention")
    )  # fmt: skip
    other = pd.DataFrame({"metric": ["accuracy OOD"], "value": [0.0], "kind": ["rotary"]})
    found = few_columns.came_back(pd.concat([rows, other]))
    found = found.set_index(["metric", "kind", "trained"]).sort_index()
    assert found.loc[("came back", "rotary", STEEPEST), "value"] == pytest.approx((0.2 / 0.4 + 0.4 / 0.8) / 2)
    assert found.loc[("came back", "none", "nothing"), "value"] == 0
    assert found.loc[("accuracy OOD", "none", STEEPEST), "value"] == pytest.approx(0.55)
    assert (found["n"] == 2).all()
    assert found.loc["accuracy ID", "high"].max() == 1


@pytest.mark.parametrize(
    ("column", "verdict"), [(0.4, "not reproduced"), (0.7, "reproduced"), (0.5, "inconclusive")]
)
def test_the_claim_asks_for_half_of_the_loss(column, verdict):
    """Of three models that lose .8, with accuracies of a column, around so much of it."""
    accuracy = {"nothing": 0.2, STEEPEST: 0.2 + 0.8 * column, RANDOM: 0.3, WHOLE: 0.9, ALL: 0.98}
    about = {"kind": "string reversal, rotary positions", "task": "string_reversal", "positions": "rotary"}
    rows = pd.DataFrame(
        {**about, "seed": seed,
         "value": value + 0.01 * (seed - 1) * (split == "OOD"), "metric": f"further, {way}: {metric} {split}"}
        for way, outside in accuracy.items()
        for seed in range(3)
        for split, value in (("ID", 1.0), ("OOD", outside))
        for metric in ("accuracy", "mean attention")
    )  # fmt: skip
    assert steepest_column(rows).verdict == verdict


def test_the_text_says_of_one_column_what_the_claim_does() -> None:
    case = CASES["one column, any"]
    said = [enough_clause(rows) for rows in (case.support, case.refute, case.open)]
    assert said == [ENOUGH[verdict] for verdict in (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE)]
    nothing = pd.DataFrame(case.support)[:0]
    assert enough_clause(nothing) == "Whether one column is enough was not run."
