"""The explorer of a classifier's training in Chromium: tints, ranks, the curve of a token."""

import re

import numpy as np
import pytest
import torch

from attnlib.widgets import AlignmentExplorer, MeasureExplorer
from tests.book.test_training_explorer_in_browser import CHART, on_chart, shown
from tests.browser import (
    CONTRAST,
    agrees,
    becomes,
    canvas_hash,
    connect,
    drawn,
    focused,
    readout,
    slide,
    tints,
)
from tests.explorers import (
    RELEVANCE,
    STEPS,
    TOKENS,
    classify,
    document,
    dynamics_explorer,
    question,
    scores,
    sentence,
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


def test_the_prediction_is_told_and_judged_and_the_chart_leads_to_it(opened):
    page = opened(dynamics_explorer())
    for checkpoint, verdict in [(0, "✗ wrong, good expected"), (3, "✓ right")]:
        page.locator(CHART).click(position=on_chart(page, checkpoint))
        assert shown(page) == checkpoint
        assert page.locator(".attnt-verdict").inner_text() == verdict
        assert page.locator(".attnt-text").inner_text() == ("good" if checkpoint else "bad")
        assert page.locator(".attnt-value").first.inner_text() == ("0.90" if checkpoint else "0.50")
    unlabelled = opened(dynamics_explorer({"A": document(gold=None)}))
    assert unlabelled.locator(".attnt-verdict").inner_text() == ""


def test_words_are_set_apart_and_pieces_of_words_are_not(opened):
    pieces = document(tokens=["Play", "ing", " with", " two", "\n", " ", "", "x"])
    page = opened(dynamics_explorer({"A": pieces}), dynamics_explorer())
    texts = [text.inner_text() for text in page.locator(".attnd-text").all()]
    assert [line.strip() for line in texts[0].split("\n")] == ["Playing with two⏎", "␣∅x"]
    assert texts[4].strip() == " ".join(TOKENS)


def test_the_rows_of_a_long_document_scroll_together(opened):
    tokens = [f"word{i}" for i in range(300)]
    page = opened(
        dynamics_explorer({"A": document(tokens=tokens, scores=scores(5, 300), true_relevance=None)})
    )
    texts = page.locator(".attnd-text")
    texts.first.evaluate("text => { text.scrollTop = 200; }")
    assert becomes(page, lambda: texts.nth(2).evaluate("text => text.scrollTop"), lambda at: at == 200) == 200


ON_ITSELF = CONTRAST.replace('node.closest(".attnx")', "node")


def test_every_tint_stays_legible(opened):
    ramp = torch.arange(-30, 31) / 30
    parts = {
        "tokens": ["word"] * 61,
        "scores": {"alpha": ramp.abs()[None], "beta": ramp[None]},
        "predicted": ["p"],
    }
    page = opened(dynamics_explorer({"A": parts}))
    for mode in ("light", "dark"):
        page.emulate_media(color_scheme=mode)
        page.locator(f".attnx[data-mode={mode}]").wait_for()
        contrasts = page.locator(".attnd-token[style*=background]").evaluate_all(
            f"all => all.map({ON_ITSELF})"
        )
        assert len(contrasts) == 2 * 60 and min(contrasts) >= 4.4


def test_places_of_scores_that_are_stored_as_one_are_a_range(opened) -> None:
    """In a byte they are alike; which of them is the larger is not known."""
    alike = document(
        tokens=list("abcd"), true_relevance=None, scores={"alpha": np.tile([0.5, 0.2, 0.2001, 0.1], (5, 1))}
    )
    page = opened(dynamics_explorer({"T": alike}))
    page.locator(".attnd-token").nth(1).hover()
    assert "(2nd to 3rd of 4)" in readout(page)
    page.locator(".attnd-token").nth(0).hover()
    assert "(the largest)" in readout(page)


def test_small_numbers_keep_their_sign_and_are_as_small_as_they_are(opened) -> None:
    scores = {
        "Delta": np.tile([3.0, -10000.0, 9000.0, -0.7], (5, 1)),
        "grad": np.tile([2.0, 40000.0, 30000.0, 0.5], (5, 1)),
        "tiny": np.tile([3e-7, -8e-7, 1e-7, 5e-9], (5, 1)),
    }
    page = opened(dynamics_explorer({"T": document(tokens=list("abcd"), true_relevance=None, scores=scores)}))
    said = []
    for token in range(4):
        page.locator(".attnd-token").nth(token).hover()
        said.append([readout(page).split(f"{name} ")[1].split()[0] for name in scores])
    assert said == [
        ["+<10", "<10", "+3.0e-7"],
        ["−10000", "40000", "−8e-7"],
        ["+9000", "30000", "+1.0e-7"],
        ["−<10", "<10", "+<1e-8"],
    ]


def test_who_asks_keeps_the_button_while_it_is_answered(opened) -> None:
    page = opened("<div class='attnx-map'></div>")
    connect(page, dynamics_explorer(classify=classify))
    page.get_by_role("button", name="Classify").focus()
    for busy in (True, False):
        page.evaluate("busy => put({ busy })", busy)
        drawn(page)
        assert focused(page) == "Classify"
        assert page.get_by_role("button", name="Classify").get_attribute("aria-disabled") == str(busy).lower()


NAME = "gradient_times_input_of_the_last_hidden_layer_summed_over_embedding_dimensions"


TOUCHING = """() => [...document.querySelectorAll(".attnx-ticks")].filter((ticks) => {
  const edges = [...ticks.children].map((tick) => tick.getBoundingClientRect());
  return edges.some(({ left, height }, i) => height > 20 || (i && left < edges[i - 1].right));
}).length"""


def test_long_names_are_parted_where_the_page_is_narrow(opened) -> None:
    scores = {NAME: torch.randn(5, 8, generator=torch.Generator().manual_seed(0))}
    asked = question(predicted=NAME, expected=NAME[::-1])
    page = opened(
        dynamics_explorer({"A": document(scores=scores)}, title=NAME),
        AlignmentExplorer({"A": sentence(scores={NAME: torch.randn(5, 4, 5)})}, STEPS),
        MeasureExplorer({"one": asked}),
        width=360,
    )
    over = "all => all.map((each) => each.scrollWidth - each.clientWidth)"
    assert page.locator(".attnx").evaluate_all(over) == [0, 0, 0]
    assert page.evaluate(TOUCHING) == 0
