"""The helpers that verdicts are made of: each says yes, no and open; groups are compared by differences."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from book.chapters.findings.finding import (
    INCONCLUSIVE,
    NOT_REPRODUCED,
    REPRODUCED,
    STRONGER,
    WEAKER,
    NotRunError,
    Number,
    slug,
)
from book.chapters.findings.rules import above, ahead, beside, every, no_less, paired, some, within

VERDICTS = [REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE]


def row(low: float, high: float) -> SimpleNamespace:
    return SimpleNamespace(value=(low + high) / 2, low=low, high=high)


@pytest.mark.parametrize(
    ("rule", "ends"),
    [
        (lambda row: above(row, 0.5), [(0.6, 0.7), (0.3, 0.4), (0.4, 0.6)]),
        (lambda row: ahead(row, 0.1), [(0.01, 0.5), (-0.5, 0.09), (-0.1, 0.2)]),
        (lambda row: no_less(row, 0.1), [(-0.1, 0.09), (0.01, 0.5), (-0.1, 0.2)]),
        (lambda row: within(row, 0.5, 0.1), [(0.41, 0.59), (0.61, 0.9), (0.35, 0.45)]),
    ],
)
def test_a_rule_of_one_number_reaches_every_verdict(rule, ends) -> None:
    assert [rule(row(*each)) for each in ends] == VERDICTS
    assert rule(row(float("nan"), float("nan"))) == INCONCLUSIVE, "one seed shows nothing"


def test_within_refutes_on_both_sides() -> None:
    assert within(row(0.1, 0.2), 0.5, 0.1) == within(row(0.7, 0.8), 0.5, 0.1) == NOT_REPRODUCED


def test_an_effect_is_weaker_or_stronger_where_its_interval_says_so() -> None:
    assert [beside(row(*ends), 0.5) for ends in ((0.3, 0.4), (0.6, 0.7), (0.4, 0.6))] == [
        WEAKER,
        STRONGER,
        "",
    ]


def cases(*ends: tuple[float, float], n: int = 3) -> pd.DataFrame:
    return pd.DataFrame([vars(row(*each)) | {"n": n} for each in ends])


def test_every_case_has_to_be_shown_and_one_that_is_refuted_is_enough() -> None:
    assert every(cases((0.1, 0.2), (0.3, 0.4))).verdict == REPRODUCED
    found = every(cases((0.1, 0.2), (-0.1, 0.4)))
    assert (found.verdict, found.shown, found.refuted, found.n) == (INCONCLUSIVE, 1, 0, 2)
    found = every(cases((0.1, 0.2), (-0.201, -0.2), (-0.5, 0.5)))
    assert (found.verdict, found.refuted, found.least.high) == (NOT_REPRODUCED, 1, -0.2)
    with pytest.raises(NotRunError):
        every(cases()[:0])


def test_a_refutation_is_corrected_for_how_many_cases_there_are() -> None:
    """Of one case an interval that just misses the bound refutes; of five it does not."""
    just = (-0.4, -0.001)
    assert every(cases(just)).verdict == NOT_REPRODUCED
    assert every(cases(just, *[(-0.5, 0.5)] * 4)).verdict == INCONCLUSIVE


def test_bounds_may_differ_from_case_to_case() -> None:
    rows = cases((0.3, 0.4), (0.5, 0.6)).assign(half=[0.2, 0.55])
    found = every(rows, "half")
    assert (found.verdict, found.least.bound) == (INCONCLUSIVE, 0.55)


def test_some_case_is_enough_and_only_all_cases_refute() -> None:
    assert some(cases((0.29, 0.3), (-0.2, -0.1)), whole=False).verdict == REPRODUCED
    none = cases((-0.3, -0.2), (-0.2, -0.1))
    assert [some(none, whole=whole).verdict for whole in (True, False)] == [NOT_REPRODUCED, INCONCLUSIVE]
    assert some(cases((0.001, 0.4), *[(-0.5, 0.5)] * 4), whole=True).verdict == INCONCLUSIVE, "corrected"
    with pytest.raises(NotRunError):
        some(none[:0], whole=True)


def test_a_difference_is_taken_seed_by_seed() -> None:
    """Of groups whose intervals overlap widely, it may be sure."""
    spread = np.array([0.1, 0.5, 0.9])
    first, second = (
        pd.DataFrame({"of": "a", "seed": range(3), "value": spread + more}) for more in ([0.1, 0.12, 0.11], 0)
    )
    found = paired(first, second, ["of"])
    assert found[["value", "first", "second", "n"]].to_numpy(float) == pytest.approx(
        np.array([[0.11, 0.61, 0.5, 3]])
    )
    assert found["low"].item() > 0.08
    assert paired(first[:0], second, ["of"]).empty


def test_a_number_is_said_in_words() -> None:
    found = Number(0.4, 0.3, 0.5, 1000, "seeds", 0.0, unit="points", signed=True)
    assert found.words == "+40 points [+30, +50; n = 1,000 seeds]" and found.short == "+40 points [+30, +50]"


def test_a_slug_is_that_of_markdown() -> None:
    assert slug("What an answer's digits look at, and when?") == "what-an-answers-digits-look-at-and-when"
