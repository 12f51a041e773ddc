"""The explorer of a classifier's training in Chromium: tints, ranks, the curve of a token."""

import re

import pytest

from tests.browser import (
    agrees,
    canvas_hash,
    readout,
    slide,
    tints,
)
from tests.explorers import (
    RELEVANCE,
    TOKENS,
    dynamics_explorer,
    scores,
)

pytestmark = pytest.mark.book

NAMES = ["alpha", "beta", "Delta", "true relevance"]


def truth(name, checkpoint):
    return RELEVANCE if name == "true relevance" else scores(5, 8)[name][checkpoint]


def token(page, row, at):
    return page.locator(f".attnd-row:nth-child({row + 1}) [data-token='{at}']")


def colours(page, row):
    return tints(page.locator(f".attnd-row:nth-child({row + 1}) .attnd-token"))


def test_the_colours_grow_with_the_score_and_tell_its_sign(opened):
    page = opened(dynamics_explorer(checkpoint=2))
    for row, name in enumerate(NAMES):
        values = truth(name, 2).tolist()
        tints = colours(page, row)
        assert [tint is None for tint in tints] == [value == 0 for value in values]
        shown = [(value, tint) for value, tint in zip(values, tints, strict=True) if tint]
        assert all((tint[2] > tint[0]) == (value > 0) for value, tint in shown)  # blue or orange
        for sign in (1, -1):
            side = sorted((abs(value), sum(tint)) for value, tint in shown if value * sign > 0)
            assert [light for _, light in side] == sorted((light for _, light in side), reverse=True)


def test_scores_are_shown_and_hidden(opened):
    page = opened(dynamics_explorer(shown=["alpha", "beta"]))
    shown = page.locator(".attnd-row .attnd-name")
    assert shown.all_inner_texts() == ["alpha", "beta"]
    page.get_by_role("checkbox", name="Delta").check()
    page.get_by_role("checkbox", name="alpha").uncheck()
    assert shown.all_inner_texts() == ["beta", "Delta"]
    for name in ("beta", "Delta"):
        page.get_by_role("checkbox", name=name).uncheck()
    assert shown.count() == 0
    page.get_by_role("checkbox", name="beta").check()
    page.get_by_role("checkbox", name="alpha").check()
    assert shown.all_inner_texts() == ["alpha", "beta"]  # in the order of the document


def test_a_hover_tells_ranks_and_marks_the_token_in_every_row(opened):
    page = opened(dynamics_explorer(checkpoint=0))
    token(page, 1, 7).hover()
    for i, name in enumerate(NAMES):
        values = truth(name, 0)
        rank = re.search(rf"{name} \S+ \((the largest|\d+)", readout(page))[1]
        assert (1 if rank == "the largest" else int(rank)) == 1 + (values > values[7]).sum().item()
        assert agrees(page.locator(".attnd-value").nth(i).inner_text(), values[7].item())
        assert "attnx-chosen" in token(page, i, 7).get_attribute("class")


def test_without_a_token_every_row_follows_its_largest(opened):
    page = opened(dynamics_explorer())
    for checkpoint in (0, 4):
        slide(page, checkpoint)
        for row, name in enumerate(NAMES):
            best = truth(name, checkpoint).argmax().item()
            assert page.locator(".attnd-who").nth(row).inner_text() == f"largest: {TOKENS[best]}"


def test_the_curve_beside_a_row_is_of_the_token_in_focus(opened):
    page = opened(dynamics_explorer())
    before = canvas_hash(page, ".attnd-curve")
    pictures = []
    for at in range(8):
        token(page, 0, at).hover()
        pictures.append(canvas_hash(page, ".attnd-curve"))
    assert len(set(pictures)) == 8
    assert before == pictures[scores(5, 8)["alpha"][4].argmax()]
    assert page.locator(".attnd-history").nth(3).is_hidden()  # the truth does not change


def test_a_token_is_chosen_by_a_click_and_let_go_by_another(opened):
    page = opened(dynamics_explorer())
    chosen, away = page.locator(".attnd-token.attnx-chosen"), page.locator(".attnx-readout")
    for count in (4, 0):
        token(page, 0, 5).click()
        away.hover()
        assert chosen.count() == count
        assert page.locator(".attnd-token[tabindex='0']").count() == 4  # one of each row
