"""The kinds of checks, and how each says what was wrong; those that check are tested in their rooms."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from attnlib import checks


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: checks.check(False, "rows must grow", [2, 1]), "rows must grow; got [2, 1]"),
        (lambda: checks.check_between(0, 1, share=1.5), "share must be from 0 to 1; got 1.5"),
        (lambda: checks.check_between(0, 1, share=float("nan")), "share must be from 0 to 1; got nan"),
        (lambda: checks.check_at_least(1, n=2, steps=0), "steps must be at least 1; got 0"),
        (lambda: checks.check_count(k=2.5), "k must be a whole number, at least 1; got 2.5"),
        (lambda: checks.check_count(2, k=1), "k must be a whole number, at least 2; got 1"),
        (lambda: checks.check_seed(True), "seed must be a whole number, at least 0; got True"),
        (lambda: checks.check_seed(-1), "seed must be a whole number, at least 0; got -1"),
        (
            lambda: checks.check_one_of(["sort", "hist"], language="srot"),
            "language must be one of sort, hist; got 'srot'; did you mean 'sort'?",
        ),
        (lambda: checks.check_one_of([10, 26], size=11), "size must be one of 10, 26; got 11"),
        (lambda: checks.check_some(batches=[]), "batches must not be empty; got []"),
        (
            lambda: checks.check_shape((2, 3), "[query key]", mask=torch.ones(3)),
            "mask must be of the shape [query key] = (2, 3); got (3,)",
        ),
        (lambda: checks.check_mask((3,), mask=np.ones(3)), "mask must be bool; got 'float64'"),
        (
            lambda: checks.check_finite("[row key]", x=np.array([[0, np.nan]])),
            "x must be finite; got nan at [row key] [0, 1]",
        ),
        (
            lambda: checks.check_text(prompt="a\udcff"),
            r"prompt must be text in UTF-8; got '\udcff' at character 2",
        ),
    ],
)
def test_a_refusal_names_the_argument_what_it_must_be_and_what_it_is(
    call: Callable[[], None], message: str
) -> None:
    with pytest.raises(ValueError) as refused:
        call()
    assert str(refused.value) == message


def test_what_is_allowed_passes() -> None:
    checks.check_between(0, 1, share=1, other=None)
    checks.check_at_least(1, n=1, other=None)
    checks.check_count(n=np.int64(2), other=None)
    checks.check_seed(np.uint8(0))
    checks.check_one_of([None, "train"], split=None)
    checks.check_some(batches=[0])
    checks.check_shape((2,), x=torch.zeros(2))
    checks.check_mask((2,), x=torch.zeros(2).bool(), y=np.zeros(2, bool))
    checks.check_finite(x=np.zeros(2))
    checks.check_text(prompt="é")


def test_a_large_array_is_shown_by_its_shape_and_a_long_text_is_cut() -> None:
    for large in (np.zeros((5, 4), np.float32), torch.zeros(5, 4)):
        with pytest.raises(ValueError, match=r"got (torch\.)?float32 of shape \(5, 4\)$"):
            checks.check(False, "x must be otherwise", large)
    with pytest.raises(ValueError) as refused:
        checks.check(False, "x must be short", "a" * 1000)
    assert len(str(refused.value)) < 250
