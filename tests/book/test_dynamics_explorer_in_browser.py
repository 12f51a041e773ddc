"""The explorer of a classifier's training in Chromium, with the network off."""

import hashlib
import re

import pytest
import torch

import tests.book.test_training_explorer_in_browser as training
from attnlib.widgets import DynamicsExplorer
from tests.book.test_training_explorer_in_browser import CHART, on_chart, slide
from tests.browser import CONTRAST, agrees, becomes, canvas_hash, connect, readout, tints
from tests.explorers import scores

pytestmark = pytest.mark.book

STEPS = [0, 10, 50, 100, 1000]
TOKENS = ["this", "film", "is", "really", "great", ",", "not", "dull"]
NAMES = ["alpha", "beta", "Delta", "true relevance"]


RELEVANCE = torch.tensor([0.0, 0, 0, 0, 2, 0, 0.5, -2])


def document(**changes):
    parts = {"tokens": TOKENS, "scores": scores(5, 8), "true_relevance": RELEVANCE}
    return parts | {"predicted": ["bad", "bad", "good", "good", "good"], "gold": "good"} | changes


def explorer(documents=None, **settings):
    curves = {"accuracy": [0.5, 0.6, 0.8, 0.9, 0.95], "A": [0.1, 0.2, 0.5, 0.6, 0.7]}
    return DynamicsExplorer(documents or {"A": document()}, STEPS, curves, **settings)


def truth(name, checkpoint):
    return RELEVANCE if name == "true relevance" else scores(5, 8)[name][checkpoint]


def token(page, row, at):
    return page.locator(f".attnd-row:nth-child({row + 1}) [data-token='{at}']")


def colours(page, row):
    return tints(page.locator(f".attnd-row:nth-child({row + 1}) .attnd-token"))


def picture(page, row):
    """One hash of a row: its tints, and the curve beside it."""
    curve = canvas_hash(page, f".attnd-row:nth-child({row + 1}) .attnd-curve")
    return hashlib.sha256(f"{colours(page, row)} {curve}".encode()).hexdigest()


# ---- the pictures


def test_every_checkpoint_has_its_own_picture_of_every_score(opened):
    page = opened(explorer())
    pictures = []
    for checkpoint in range(5):
        slide(page, checkpoint)
        pictures.append([picture(page, row) for row in range(3)])
        pictures[-1].append(canvas_hash(page, training.MARKER))
    for column in zip(*pictures, strict=True):
        assert len(set(column)) == 5
    slide(page, 0)
    assert [picture(page, row) for row in range(3)] == pictures[0][:3]


def test_the_colours_grow_with_the_score_and_tell_its_sign(opened):
    page = opened(explorer(checkpoint=2))
    for row, name in enumerate(NAMES):
        values = truth(name, 2).tolist()
        tints = colours(page, row)
        assert [tint is None for tint in tints] == [value == 0 for value in values]
        shown = [(value, tint) for value, tint in zip(values, tints, strict=True) if tint]
        assert all((tint[2] > tint[0]) == (value > 0) for value, tint in shown)  # blue or orange
        for sign in (1, -1):
            side = sorted((abs(value), sum(tint)) for value, tint in shown if value * sign > 0)
            assert [light for _, light in side] == sorted((light for _, light in side), reverse=True)


def test_the_scale_can_end_at_the_largest_now(opened):
    page = opened(explorer(checkpoint=1))
    before, ends = picture(page, 1), page.locator(".attnd-end")
    largest = scores(5, 8)["beta"].abs()
    assert float(ends.nth(3).inner_text()) == pytest.approx(largest.max().item(), rel=0.05)
    page.get_by_label("What the strongest colour stands for").select_option("shown")
    assert picture(page, 1) != before
    assert float(ends.nth(3).inner_text()) == pytest.approx(largest[1].max().item(), rel=0.05)


def test_scores_are_shown_and_hidden(opened):
    page = opened(explorer(shown=["alpha", "beta"]))
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


# ---- hover and keyboard


def test_a_hover_tells_the_true_numbers_and_ranks_at_every_checkpoint(opened):
    page = opened(explorer())
    for checkpoint, at, row in [(4, 4, 0), (0, 7, 1), (2, 1, 2)]:
        slide(page, checkpoint)
        token(page, row, at).hover()
        said = readout(page)
        assert said.startswith(f"'{TOKENS[at]}' ({at}): ")
        for i, name in enumerate(NAMES):
            values = truth(name, checkpoint)
            number, rank = re.search(rf"{name} (\S+) \((the largest|\d+)", said).groups()
            assert agrees(number, values[at].item())
            assert (1 if rank == "the largest" else int(rank)) == 1 + (values > values[at]).sum().item()
            assert page.locator(".attnd-value").nth(i).inner_text() == number
            assert "attnx-chosen" in token(page, i, at).get_attribute("class")
    page.locator(".attnx-readout").hover()
    assert readout(page).startswith("Point at a token")
    assert page.locator(".attnd-token.attnx-chosen").count() == 0


def test_without_a_token_every_row_follows_its_largest(opened):
    page = opened(explorer())
    for checkpoint in (0, 4):
        slide(page, checkpoint)
        for row, name in enumerate(NAMES):
            best = truth(name, checkpoint).argmax().item()
            assert page.locator(".attnd-who").nth(row).inner_text() == f"largest: {TOKENS[best]}"


def test_the_curve_beside_a_row_is_of_the_token_in_focus(opened):
    page = opened(explorer())
    before = canvas_hash(page, ".attnd-curve")
    pictures = []
    for at in range(8):
        token(page, 0, at).hover()
        pictures.append(canvas_hash(page, ".attnd-curve"))
    assert len(set(pictures)) == 8
    assert before == pictures[scores(5, 8)["alpha"][4].argmax()]
    assert page.locator(".attnd-history").nth(3).is_hidden()  # the truth does not change


def test_tokens_are_chosen_by_click_and_walked_through_by_the_arrow_keys(opened):
    page = opened(explorer())
    status, focused = page.locator("[aria-live]"), "document.activeElement"
    token(page, 1, 2).click()
    assert "'is' (2): alpha " in status.inner_text()
    for key, at, row in [
        ("ArrowRight", 3, 1),
        ("ArrowDown", 3, 2),
        ("End", 7, 2),
        ("ArrowUp", 7, 1),
        ("Home", 0, 1),
    ]:
        page.keyboard.press(key)
        assert page.evaluate(f"{focused}.dataset.token") == str(at)
        rows = "[...document.querySelectorAll('.attnd-text')]"
        assert page.evaluate(f"{rows}.indexOf({focused}.parentElement)") == row
        assert f"'{TOKENS[at]}' ({at}): " in status.inner_text()
        assert page.locator(".attnd-token[tabindex='0']").count() == 4  # one of each row
    page.keyboard.press("PageUp")
    assert status.inner_text().startswith(
        "Step 100, accuracy 0.90, A 0.60. Prediction 'good', right. 'this' (0)"
    )
    page.keyboard.press("Escape")
    assert "(0)" not in status.inner_text()
    token(page, 0, 5).click()
    token(page, 0, 5).click()
    assert page.locator(".attnd-token.attnx-chosen").count() == 4  # under the pointer, not chosen
    page.locator(".attnx-readout").hover()
    assert page.locator(".attnd-token.attnx-chosen").count() == 0


def test_the_table_lists_every_token_at_the_checkpoint_shown(opened):
    page = opened(explorer())
    page.locator("summary").click()
    rows = page.locator(".attnx tbody tr")
    rows.first.wait_for()
    for checkpoint in (4, 1):
        slide(page, checkpoint)
        for at in (0, 6):
            cells = rows.nth(at).locator("td").all_inner_texts()
            pairs = zip(cells, NAMES, strict=True)
            assert all(agrees(cell, truth(name, checkpoint)[at].item()) for cell, name in pairs)


# ---- the training


def test_the_prediction_is_told_and_judged_and_the_chart_leads_to_it(opened):
    page = opened(explorer())
    for checkpoint, verdict in [(0, "✗ wrong, good expected"), (3, "✓ right")]:
        page.locator(CHART).click(position=on_chart(page, checkpoint))
        assert training.shown(page) == checkpoint
        assert page.locator(".attnt-verdict").inner_text() == verdict
        assert page.locator(".attnt-text").inner_text() == ("good" if checkpoint else "bad")
        assert page.locator(".attnt-value").first.inner_text() == ("0.90" if checkpoint else "0.50")
    unlabelled = opened(explorer({"A": document(gold=None)}))
    assert unlabelled.locator(".attnt-verdict").inner_text() == ""


def test_documents_of_other_sizes_are_switched(opened):
    short = {"tokens": ["x", "y"], "scores": {"alpha": torch.tensor([[0.25, 0.75]])}, "predicted": ["bad"]}
    page = opened(explorer({"A": document(), "B": short}, token=7, checkpoint=1))
    before = picture(page, 1)
    page.get_by_label("Document", exact=True).select_option("B")
    assert page.locator(".attnd-name").all_inner_texts() == ["alpha"]
    assert page.locator(".attnt-step").inner_text() == "Step 1,000 · the trained model alone"
    assert page.get_by_label("Checkpoint", exact=True).is_disabled()
    token(page, 0, 0).hover()
    assert readout(page) == "'x' (0): alpha 0.25 (2nd of 2)."
    page.get_by_label("Document", exact=True).select_option("A")
    page.locator(".attnx-readout").hover()
    assert page.get_by_label("Checkpoint", exact=True).is_enabled() and picture(page, 1) == before


# ---- escaping, the page around


def test_words_are_set_apart_and_pieces_of_words_are_not(opened):
    pieces = document(tokens=["Play", "ing", " with", " two", "\n", " ", "", "x"])
    page = opened(explorer({"A": pieces}), explorer())
    texts = [text.inner_text() for text in page.locator(".attnd-text").all()]
    assert [line.strip() for line in texts[0].split("\n")] == ["Playing with two⏎", "␣∅x"]
    assert texts[4].strip() == " ".join(TOKENS)


def test_the_rows_of_a_long_document_scroll_together(opened):
    tokens = [f"word{i}" for i in range(300)]
    page = opened(explorer({"A": document(tokens=tokens, scores=scores(5, 300), true_relevance=None)}))
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
    page = opened(explorer({"A": parts}))
    for mode in ("light", "dark"):
        page.emulate_media(color_scheme=mode)
        page.locator(f".attnx[data-mode={mode}]").wait_for()
        contrasts = page.locator(".attnd-token[style*=background]").evaluate_all(
            f"all => all.map({ON_ITSELF})"
        )
        assert len(contrasts) == 2 * 60 and min(contrasts) >= 4.4


# ---- live


def classify(text):
    words = text.split()
    return {"tokens": words, "scores": scores(5, len(words)), "predicted": ["good"] * 5}


def test_a_live_view_asks_and_shows_the_scores(opened):
    widget = explorer(classify=classify, token=7)
    page = opened("<p class='attnx-map'></p>")
    kernel = connect(page, widget)
    before = picture(page, 0)
    box, documents = page.get_by_label("A text of your own"), page.get_by_label("Document", exact=True)
    assert documents.is_hidden()
    box.fill("what a great\nday")
    box.press("Control+Enter")
    assert page.evaluate("sent") == [{"text": "what a great\nday"}]
    kernel()
    assert documents.locator("option").all_inner_texts() == ["A", "what a great day (typed)"]
    words = page.locator(".attnd-row:first-child .attnd-token").all_inner_texts()
    assert words == ["what", "a", "great", "day"]
    token(page, 1, 2).hover()
    number = page.locator(".attnd-value").nth(1).inner_text()
    assert agrees(number, scores(5, 4)["beta"][4, 2].item())
    typed = picture(page, 0)
    slide(page, 0)
    assert picture(page, 0) not in (before, typed)
