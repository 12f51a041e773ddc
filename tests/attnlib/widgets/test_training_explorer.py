"""The explorer of a training without a browser: what it refuses, how it stores, and its live side."""

import re

import numpy as np
import pytest
import torch

from attnlib.widgets import TrainingExplorer
from attnlib.widgets.encoding import dequantise
from attnlib.widgets.over_training import check_curve, check_steps
from tests.explorers import attention, press, raw, state_of

STEPS = [0, 10, 40]


def problem(**changes):
    parts = {"tokens": list("1+2="), "attentions": attention(), "answers": ["7", "3", "3"], "expected": "3"}
    return parts | changes


def explorer(**settings):
    return TrainingExplorer({"1+2=": problem()}, STEPS, {"exact match": [0, 0.5, 0.9]}, **settings)


def unpacked(widget, index=0) -> np.ndarray:
    """What the front end reads: [checkpoint layer head query key]."""
    return dequantise(raw(widget, index)).reshape(widget.items[index]["shape"])


# ---- storing


def test_problems_of_different_sizes_lie_one_after_the_other_as_precisely_as_promised():
    longer = problem(tokens=list("12+34="), attentions=attention(3, 1, 2, 6), answers=["", "46", "46"])
    widget = TrainingExplorer({"short": problem(), "long": longer}, STEPS, title="T", item=1)
    for index, truth in enumerate([attention().numpy(), attention(3, 1, 2, 6).numpy()]):
        assert (np.abs(unpacked(widget, index) - truth) <= np.sqrt(truth) / 255 + 1 / 255**2).all()
    assert repr(widget) == "TrainingExplorer 'T': 2 problems, 3 checkpoints, 1 layers x 2 heads"
    assert [example["label"] for example in widget.items] == ["short", "long"]


def test_references_are_stored_for_all_heads_or_some():
    eye = torch.eye(4).bool()
    some = problem(references={(1, 2): eye})
    widget = TrainingExplorer({"all": problem(references=eye), "some": some, "none": problem()}, STEPS)
    assert [example["masks"] for example in widget.items] == [1, 1, 0]
    assert widget.items[1]["mask_of"] == [[-1, -1, -1], [-1, -1, 0]]
    assert widget.masks == 2 * np.packbits(eye.numpy()).tobytes()


def test_curves_are_given_per_checkpoint_or_by_step_and_may_have_gaps():
    curves = {"a": torch.tensor([0.0, float("nan"), 1.0]), "b": {0: 0, 5: None, 40: np.float32(2.5)}}
    widget = TrainingExplorer({"1+2=": problem()}, np.array(STEPS), curves)
    assert widget.steps == STEPS
    assert widget.curves == [
        {"name": "a", "steps": STEPS, "values": [0.0, None, 1.0]},
        {"name": "b", "steps": [0, 5, 40], "values": [0.0, None, 2.5]},
    ]


def test_the_last_checkpoint_is_shown_first_unless_another_is_chosen():
    assert explorer().checkpoint == 2 and explorer(checkpoint=-3).checkpoint == 0


# ---- refusing


def broken(place, value):
    weights = attention()
    weights[place] = value
    return weights


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"tokens": list("1+2")}, "checkpoint 0: attentions"),
        ({"attentions": attention(2)}, "attentions"),
        ({"attentions": broken((1, 0, 0, 2, 0), np.nan)}, "checkpoint 1: attentions"),
        ({"attentions": broken((2, 0, 0, 2, 0), 3.0)}, "checkpoint 2: attentions"),
        ({"answers": ["3"]}, "answers"),
        ({"expected": 3}, "expected"),
        ({"references": torch.eye(4)}, "the reference of layer 0, head 0"),
        ({"reference": None}, "problem 'mine'"),
    ],
)
def test_a_problem_that_cannot_be_shown_is_named(changes, name):
    with pytest.raises(ValueError, match=f"^(problem 'mine': )?{name} must "):
        TrainingExplorer({"fine": problem(), "mine": problem(**changes)}, STEPS)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"problems": {}}, "problems"),
        ({"steps": []}, "steps"),
        ({"steps": [0, 20, 20]}, "steps"),
        ({"curves": {"loss": [1, 2]}}, "curve 'loss'"),
        ({"curves": {"loss": {0: 1, 50: 2}}}, "curve 'loss'"),
    ],
)
def test_a_training_that_cannot_be_shown_is_refused(settings, name):
    with pytest.raises(ValueError, match=f"^{name} must "):
        TrainingExplorer(**({"problems": {"1+2=": problem()}, "steps": STEPS} | settings))


def test_steps_and_curves_are_plain_numbers_whatever_they_came_as():
    steps = check_steps(torch.tensor([0.5, 1.0]))
    assert [type(step) for step in steps] == [float, float]
    assert [type(step) for step in check_steps(np.arange(3))] == [int, int, int]
    assert check_curve("a", {0.5: np.float64(1 / 3)}, steps)["values"] == [0.33333]


# ---- the page


def test_three_problems_in_twelve_heads_at_eight_checkpoints_stay_under_176_kb(tmp_path):
    draw = torch.randn(8, 3, 4, 12, 12, generator=torch.Generator().manual_seed(0))
    noise = torch.softmax(2 * draw, dim=-1)
    parts = {"tokens": list("12+34=46EEEE"), "attentions": noise, "answers": ["46"] * 8}
    widget = TrainingExplorer(dict.fromkeys("abc", parts), range(8), {"exact match": [0.5] * 8})
    assert widget.save_html(tmp_path / "page.html").stat().st_size < 176_000


# ---- live


def adder(text):
    """Answers sums of two digits, with the attention of every checkpoint."""
    if not re.fullmatch(r"\d\+\d=", text):
        raise ValueError(f"{text} is not a sum such as 1+2=.")
    right = str(int(text[0]) + int(text[2]))
    return problem(tokens=list(text), answers=["?", right, right], expected=right)


def test_a_typed_problem_is_answered_and_put_behind_the_recorded_ones():
    widget, busy = explorer(answer=adder, query=3), []
    widget.observe(lambda change: busy.append(change["new"]), "busy")
    press(widget, " 4+5= ")
    press(widget, "2+2=")
    assert busy == [True, False, True, False] and widget.error == ""
    assert [(example["label"], example["typed"]) for example in widget.items] == [
        ("1+2=", False), ("4+5=", True), ("2+2=", True),
    ]  # fmt: skip
    assert widget.item == 2 and widget.items[2]["answers"] == ["?", "4", "4"]
    assert np.abs(unpacked(widget, 2) - attention().numpy()).max() < 0.004
    press(widget, "4+5=")  # again: it moves to the end
    assert [example["label"] for example in widget.items] == ["1+2=", "2+2=", "4+5="]


def test_the_trained_model_alone_may_answer():
    def trained(text):
        return {"tokens": list(text), "attentions": attention(1, tokens=len(text)), "answers": ["9"]}

    widget = explorer(answer=trained, query=3, checkpoint=1)
    press(widget, "4+5")
    assert widget.items[1]["shape"] == [1, 2, 3, 3, 3] and widget.items[1]["expected"] is None
    assert widget.query == -1  # there is no fourth row
    assert widget.checkpoint == 1  # where the slider is for the recorded problems


@pytest.mark.parametrize(
    ("text", "answer", "message"),
    [
        ("1++2=", adder, "1++2= is not a sum such as 1+2=."),
        ("  ", adder, "There is no text. Type some first."),
        ("1+2=", lambda text: {"tokens": ["x"]}, "problem '1+2=' must hold tokens, attentions and answers"),
        ("1+2=", lambda text: 1 / 0, "ZeroDivisionError: division by zero"),
        ("1+2=", None, "nobody to ask"),
    ],
)
def test_what_cannot_be_answered_is_an_error_in_the_widget(text, answer, message):
    widget = explorer(answer=answer)
    before = widget.items
    press(widget, text)
    assert message in widget.error and not widget.busy
    assert widget.items == before and widget.asked == text


def test_the_static_page_of_a_live_explorer_has_what_was_typed_but_no_box():
    widget = explorer(answer=adder)
    press(widget, "4+5=")
    press(widget, "wrong")
    state = state_of(widget.to_html())
    assert (state["asks"], state["recorded"], state["busy"], state["error"]) == (False, True, False, "")
    assert len(state["items"]) == 2 and widget.asks
    assert not state_of(explorer().to_html())["recorded"]
