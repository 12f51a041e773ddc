"""The arithmetic lens: heads taken out, what answers look at, digits by column, and what a model answers."""

import dataclasses
import re

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from attnlib.generators.arithmetic import KINDS, Splits, arithmetic
from attnlib.measures import sample_scores
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import heads_ablated
from attnlib.models.stored import stored_model
from attnlib.models.transformer import TransformerOutput
from attnlib.stats import summarise
from attnlib.training import Plan, fit, token_loss
from attnlib.training.keeping import denser_early
from book.chapters.lens import figures, measures
from book.chapters.lens.measures import (
    PATTERNS,
    REFERENCE,
    ablation_rows,
    digit_rows,
    equals_rows,
    forming,
    kinds_of_keys,
    lines_on_heads,
    look_rows,
    pattern_rows,
    seen_rows,
    solve,
    whole_answers,
)

TASK = arithmetic("+-", (0, 60))
PROBLEMS = TASK.splits(60, 20, 40).test


def small(task=TASK, **sizes):
    torch.manual_seed(0)
    sizes = {"width": 16, "ff_width": 16, "n_layers": 3, "n_heads": 2} | sizes
    return Transformer(
        TransformerConfig(len(task.tokenizer), causal=True, **{"max_length": task.max_length} | sizes)
    ).eval()


class Oracle(torch.nn.Module):
    """Answers right, but for the units of problems that carry; looks at the reference alone."""

    def __init__(self, task, problems, wrong=()):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.task, self.problems, self.wrong, self.at = task, problems, set(wrong), 0
        self.config = TransformerConfig(len(task.tokenizer), n_layers=2, n_heads=2, width=16, causal=True)

    def forward(self, input_ids, attention_mask=None, *, output_attentions=False):
        part = self.problems[self.at : self.at + len(input_ids)]
        batch = self.task.batch(part)
        right = batch.target_ids.clamp(min=0)
        units = self.task.columns(part) == 0
        rows = torch.tensor([self.at + i in self.wrong for i in range(len(input_ids))])
        right = torch.where(units & rows[:, None], (right + 1) % len(self.task.tokenizer), right)
        self.at = (self.at + len(input_ids)) % len(self.problems)
        logits = 100.0 * torch.nn.functional.one_hot(right, len(self.task.tokenizer)).float()
        look = batch.reference.float() + 1e-9
        attentions = (look / look.sum(-1, keepdim=True))[:, None, None].expand(-1, 2, 2, -1, -1)
        return TransformerOutput(logits, attentions if output_attentions else None)


@pytest.mark.parametrize("instead", ["zero", "uniform"])
def test_a_head_taken_out_brings_nothing_or_the_mean(instead):
    model = small(n_layers=1)
    ids = TASK.batch(PROBLEMS[:3]).input_ids
    attention = model.layers[0].attention
    x = model.embedding(ids) + model.positions[: ids.shape[1]]
    q, k, v = attention.qkv(x).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
    mixed, weights = attention.attend(q, k, v, causal=True, need_weights=True)
    n = ids.shape[1]
    even = torch.ones(n, n).tril() / torch.arange(1, n + 1)[:, None]
    mixed[:, 1] = 0.0 if instead == "zero" else (even @ v)[:, 1]
    expected = attention.out(mixed.transpose(1, 2).flatten(2))
    before = model(ids).logits
    with heads_ablated(model, [(0, 1)], instead):
        assert torch.allclose(attention(x)[0], expected, atol=1e-5)
        assert not torch.allclose(model(ids).logits, before)
        kept = model(ids, output_attentions=True).attentions[:, 0]
    assert torch.allclose(kept[:, 0], weights[:, 0], atol=1e-6)
    if instead == "uniform":
        assert torch.allclose(kept[:, 1], even.expand(3, n, n), atol=1e-6)
    assert torch.equal(model(ids).logits, before)


def test_all_heads_or_none_and_after_an_error():
    model, ids = small(), TASK.batch(PROBLEMS[:2]).input_ids
    before = model(ids).logits
    with heads_ablated(model, []):
        assert torch.equal(model(ids).logits, before)
    with pytest.raises(RuntimeError, match="stop"), heads_ablated(model, [(0, 0), (2, 1)]):
        raise RuntimeError("stop")
    assert torch.equal(model(ids).logits, before)
    for heads in ([(3, 0)], [(-1, 0)]):
        with pytest.raises(ValueError, match="the model has 3 layers of 2 heads"):
            heads_ablated(model, heads).__enter__()


def test_digits_are_counted_by_column_and_carries(monkeypatch):
    monkeypatch.setattr(measures, "AT_ONCE", 16)
    wrong = np.flatnonzero(PROBLEMS.carries > 0)
    rows = digit_rows(Oracle(TASK, PROBLEMS, wrong), TASK, PROBLEMS)
    by_column = summarise(rows, ["column"], "right").set_index("column")
    assert list(by_column.index) == ["units", "tens", "hundreds", "sign", "end"]
    assert by_column.loc["units", "value"] == pytest.approx(1 - len(wrong) / len(PROBLEMS))
    assert (by_column.drop("units")["value"] == 1).all()
    assert by_column.loc["sign", "n"] == (PROBLEMS.results < 0).sum()
    assert by_column.loc["end", "n"] == by_column.loc["units", "n"] == len(PROBLEMS)
    by_carries = summarise(whole_answers(rows), ["carries"], "right").set_index("carries").sort_index()
    assert (by_carries["value"] == [1.0, *[0.0] * (len(by_carries) - 1)]).all()
    assert by_carries["n"].sum() == len(PROBLEMS)
    too = dataclasses.replace(TASK, operands_too=True)
    assert digit_rows(Oracle(TASK, PROBLEMS, wrong), too, PROBLEMS).equals(rows)


def looked(model, **how):
    """What the answers of a model look at."""
    rows = look_rows(model, TASK, PROBLEMS, **how)
    assert set(rows["problem"]) == set(range(len(PROBLEMS)))
    return summarise(rows, ["layer", "head", "kind"], beside=["uniform"])


def lost(model):
    """What each head is worth."""
    return summarise(ablation_rows(model, TASK, PROBLEMS), ["head", "column"], "lost")


def test_attention_on_the_reference_scores_one(monkeypatch):
    monkeypatch.setattr(measures, "AT_ONCE", 15)
    looks = looked(Oracle(TASK, PROBLEMS))
    assert set(looks["kind"]) == {*KINDS, REFERENCE} and set(looks["layer"]) == {0, 1}
    reference = looks[looks["kind"] == REFERENCE]
    assert reference["value"].to_numpy() == pytest.approx(1, abs=1e-5)
    assert (reference["uniform"] < 0.8).all() and (reference["n"] == len(PROBLEMS)).all()
    assert (looks[looks["kind"] == "operator"]["value"] < 1e-5).all()


def test_shares_by_head_average_to_those_of_even_attention():
    model = small()
    looks = looked(model, by_head=True)
    assert list(looks["head"].unique()) == ["L0H0", "L0H1", "L1H0", "L1H1", "L2H0", "L2H1"]
    with heads_ablated(model, [(0, 1)], "uniform"):
        even = looked(model, by_head=True)
    even = even[even["head"] == "L0H1"]
    assert even["value"].to_numpy() == pytest.approx(even["uniform"].to_numpy(), abs=1e-5)


def test_ablation_says_what_each_head_costs():
    model = small()
    table = lost(model)
    assert list(table["head"].unique()) == model.head_names

    def right():
        return digit_rows(model, TASK, PROBLEMS).groupby("column", observed=True)["right"].mean()

    with heads_ablated(model, [(1, 1)]):
        without = right()
    of_one = table[table["head"] == "L1H1"].set_index("column")["value"].drop("answer")
    assert of_one.to_dict() == pytest.approx((right() - without).to_dict())


def learnt():
    """A model that has learnt a handful of sums by heart, and is stopped on the way."""
    task = arithmetic("+", (0, 3))
    problems = task.space.problems(np.arange(16))
    model = small(task, width=32, ff_width=64, n_layers=2)
    plan = Plan(steps=120, learning_rate=0.005, evaluate_every=120)
    fit(model, task.batches(problems, 16), token_loss(), plan, progress=False)
    return model, task, problems


def test_a_model_writes_its_answer_until_its_end():
    model, task, problems = learnt()
    for text in task.texts(problems):
        question, right = text.split("=")
        assert solve(model, task, question + "=") == right
    shown = forming([small(task, n_layers=2), model], task, "2+3=")
    assert shown["expected"] == shown["answers"][-1] == "5" and len(shown["answers"]) == 2
    assert shown["tokens"] == ["<bos>", "2", "+", "3", "=", "5"]
    assert shown["attentions"].shape == (2, 2, 2, 6, 6) and shown["references"].shape == (6, 6)
    figures = sample_scores(model, task.in_batches(problems, 5))
    assert (figures["right"] == figures["asked"]).all() and 0 < figures["loss"].sum() < 0.1 * len(problems)
    table = seen_rows(model, task, Splits(problems[:4], problems[:1], problems[2:8]))
    table = summarise(table, ["test problems"], "right").set_index("test problems")
    assert table["n"].to_dict() == {"all": 6, "seen in training": 3, "not seen": 3}  # 1+0 is 0+1
    assert (table["value"] == 1).all()
    table = seen_rows(model, task, Splits(problems[:4], problems[:1], problems[5:8]))
    assert list(table["test problems"].unique()) == ["all", "not seen"]


@pytest.mark.parametrize(
    ("text", "task", "message"),
    [
        ("12++3=", TASK, "there should be a number"),
        ("123456+654321=", arithmetic("+", (0, 10**6)), "reads at most max_length=11"),
    ],
)
def test_what_a_model_cannot_be_asked(text, task, message):
    with pytest.raises(ValueError, match=message):
        solve(small(), task, text)


def test_moments_are_denser_early():
    assert denser_early(20, 5) == [0, 1, 5, 11, 20]


def test_figures_show_every_head_and_kind():
    model = small()
    sample = TASK.annotate("25+16=")
    tokens = TASK.tokenizer.convert_ids_to_tokens(sample.input_ids.tolist())
    attentions = model(sample.input_ids[None], output_attentions=True).attentions[0].detach()
    grid = figures.heads_grid(attentions, tokens, sample.reference)
    titles = [axis.get_title() for axis in grid.figure.axes if axis.get_title()]
    assert titles == model.head_names
    table = figures.head_table(looked(model, by_head=True), lost(model)).figure
    assert isinstance(table, Figure) and len(table.axes) == 2
    rows = digit_rows(model, TASK, PROBLEMS)
    parts = {"column": rows, "carries": whole_answers(rows)}
    panels = {by: summarise(part, [by], "right").assign(step=3) for by, part in parts.items()}
    axes = figures.accuracy_over_training(panels).figure.axes
    assert [axis.get_title() for axis in axes] == ["column", "carries"]


# ---- what = looks at --------------------------------------------------------------------------------------


class Looks(torch.nn.Module):
    """Two heads: one looks at the first digit of the first number, one at all tokens before it equally."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.config = TransformerConfig(20, n_layers=1, n_heads=2, width=16, causal=True)

    def forward(self, input_ids, attention_mask=None, *, output_attentions=False):
        n = input_ids.shape[1]
        even = torch.ones(n, n).tril()
        first = torch.zeros(n, n)
        first[:, 1] = 1
        both = torch.stack([first, even / even.sum(1, keepdim=True)])
        return TransformerOutput(torch.zeros(*input_ids.shape, 20), both.expand(len(input_ids), 1, 2, n, n))


def test_what_equals_looks_at_is_shared_among_the_numbers(monkeypatch):
    monkeypatch.setattr(measures, "AT_ONCE", 2)
    task = arithmetic("+-", (0, 99), n_operands=3)
    problems = task.parse("12+3+45=", "7-80-9=", "1+2+3=")
    rows = equals_rows(Looks(), task, problems, by_head=True)
    table = rows.set_index(["problem", "head", "kind"])
    assert table["value"].xs("L0H0", level="head").unstack("kind").to_numpy().tolist() == [[0, 1, 0, 0]] * 3
    even = table.xs("L0H1", level="head")
    sizes = {0: (2, 1, 2, 8), 1: (1, 2, 1, 7), 2: (1, 1, 1, 6)}  # digits of each, and all tokens up to the =
    for problem, (*digits, length) in sizes.items():
        shares = [digit / length for digit in digits]
        found = even.loc[problem, "value"]
        assert found[["operand 1", "operand 2", "operand 3"]].tolist() == pytest.approx(shares)
        assert found["all operands"] == pytest.approx(3 * min(shares))
    np.testing.assert_allclose(even["value"], even["uniform"])


class Reads(Looks):
    """One head looks at the token before, one at the operator by itself; else, both at the beginning."""

    def forward(self, input_ids, attention_mask=None, *, output_attentions=False):
        size, n = input_ids.shape
        plus = TASK.tokenizer.convert_tokens_to_ids("+")
        before = torch.eye(n).roll(-1, 1).tril().expand(size, n, n)
        operator = ((input_ids == plus)[:, None] & torch.ones(n, n).tril().bool()).float()
        both = torch.stack([before, operator], 1)[:, None] + 1e-9 * (torch.arange(n) == 0)
        return TransformerOutput(torch.zeros(size, n, 20), both / both.sum(-1, keepdim=True))


def test_patterns_of_pictures_are_found_where_they_are_and_even_attention_has_what_is_counted(monkeypatch):
    monkeypatch.setattr(measures, "AT_ONCE", 1)
    problems = TASK.parse("12+34=", "5+60=")
    rows = pattern_rows(Reads(), TASK, problems, by_head=True)
    assert rows["kind"].unique().tolist() == [*PATTERNS]
    table = rows.groupby(["head", "kind"])["value"].mean().unstack()[[*PATTERNS]]
    # The token before a digit of the answer is never the operator, and that before = a digit of one number.
    assert table.loc["L0H0"].tolist() == pytest.approx([1, 0, 0], abs=1e-6)
    assert table.loc["L0H1", PATTERNS[1]] == pytest.approx(1, abs=1e-6)
    even = rows.query("problem == 0 and head == 'L0H0'").set_index("kind")["uniform"]
    # 12+34=46: the second to the eighth token may look at as many, themselves among them.
    assert even[PATTERNS[0]] == pytest.approx(np.mean([1 / n for n in range(2, 9)]))
    assert even[PATTERNS[1]] == pytest.approx((1 / 6 + 1 / 7) / 2)
    assert even[PATTERNS[2]] == pytest.approx(2 * 2 / 6)


def test_what_equals_looks_at_is_the_mean_of_heads_unless_asked_for_each():
    model = small()
    by_head = equals_rows(model, TASK, PROBLEMS, by_head=True).query("kind == 'operand 2'")
    mean = equals_rows(model, TASK, PROBLEMS).query("kind == 'operand 2'")
    assert set(mean["head"]) == {"mean"} and len(by_head) == 2 * len(mean)
    assert not np.allclose(mean["value"], mean["uniform"])


@pytest.mark.parametrize(
    ("backwards", "places"),
    [(False, ["tens", "units", "operator", "units"]), (True, ["units", "tens", "operator", "units"])],
)
def test_tokens_are_named_by_what_they_are_of(backwards: bool, places: list[str]) -> None:
    task = arithmetic("+", (0, 60), reversed_digits=backwards)
    problems = task.splits(60, 20, 40).test
    ids = task.batch(problems).input_ids
    kinds = kinds_of_keys(task, problems)
    at = next(i for i, text in enumerate(task.texts(problems)) if re.match(r"\d\d\+\d=", text))
    said = [next((name for name, keys in kinds.items() if keys[at, k]), "") for k in range(ids.shape[1])]
    assert said[:6] == ["the beginning", *(f"the {place}" for place in places), "="]
    assert set(said[6:]) <= {"the answer so far", ""} and said[6]
    assert (torch.stack([*kinds.values()]).sum(0) <= 1).all()


def test_a_line_says_where_most_attention_is_and_what_is_lost_without_the_head() -> None:
    kept = stored_model("arithmetic_lens", "addition, seed 0")
    lines = lines_on_heads(kept)
    assert list(lines) == kept.model.head_names
    found = re.fullmatch(
        r"(\d+) % of its attention on the units; without it, (\d+) points of accuracy lost", lines["L1H1"]
    )
    assert found and 0 < int(found[1]) < 100

    def right() -> float:
        asked = [batch.target_ids >= 0 for batch in kept.tests]
        hits = [
            (
                (kept.model(batch.input_ids, batch.attention_mask).logits.argmax(-1) == batch.target_ids)
                | ~real
            )
            for batch, real in zip(kept.tests, asked, strict=True)
        ]
        return float(torch.cat([each.all(-1) for each in hits]).double().mean())

    whole = right()
    with heads_ablated(kept.model, [(1, 1)]):
        assert round(100 * (whole - right())) == int(found[2])
