"""Letters of every script in figures: text in SVG, drawn where a font has them, without a warning."""

import base64
import io
import re
import warnings
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.image import imread

from attnlib import plots
from attnlib.plots.themes import FONTS, installed_fonts
from tests.attnlib.test_pieces import SCRIPTS
from tests.browser import open_browser, watched_page

TEXT = "{http://www.w3.org/2000/svg}text"
WORDS = [word.replace(" ", "") for word in SCRIPTS.values()]


def token_map(words):
    return plots.token_map(torch.rand(len(words), 3).softmax(-1), words, ["a", "<b>", "$c$"])


def test_tokens_of_every_script_are_text_in_svg_and_nothing_is_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = token_map(WORDS)
        texts = {node.text for node in ElementTree.fromstring(drawn.svg()).iter(TEXT)}
        assert {*WORDS, "a", "<b>", "$c$"} <= texts
        assert {*WORDS} <= {node.text for node in ElementTree.fromstring(drawn.svg("dark")).iter(TEXT)}
        drawn.html()


def test_svg_names_the_same_fonts_whatever_is_installed() -> None:
    families = {*re.findall(r"font-family: ([^;\"]*)", token_map(["中文", "b"]).svg())}
    assert families == {"'DejaVu Sans', Verdana, sans-serif"}


def test_a_font_of_the_system_draws_letters_that_the_first_one_lacks() -> None:
    assert installed_fonts()[0] == FONTS[0] == "DejaVu Sans"
    if not any("CJK" in name or "Hei" in name for name in installed_fonts()):
        pytest.skip("no font with Chinese letters is installed (Debian: fonts-noto-cjk)")

    def picture(word):
        torch.manual_seed(0)
        source = re.search(r"base64,([^\"]*)", token_map([word, "b"]).html())[1]
        return imread(io.BytesIO(base64.b64decode(source)))

    assert np.array_equal(picture("中"), picture("中"))
    assert not np.array_equal(picture("中"), picture("文")), "boxes would be equal"


@pytest.mark.book
def test_no_text_leaves_a_figure_in_a_browser(tmp_path) -> None:
    rows = pd.DataFrame({"task": ["alpha, a task", "b"], "way": "c", "value": 0.5, "low": 0.4, "high": 0.6})
    notes = {"b": "seeds 50 % or seeds 100 % of what the original has"}
    outside = """() => {
      const all = document.documentElement.getBoundingClientRect(), within = (text) => {
        const box = text.getBoundingClientRect();
        return box.left > all.left - 1 && box.right < all.right + 1 && box.top > all.top - 1
          && box.bottom < all.bottom + 1;
      };
      return [...document.querySelectorAll("text")].filter((text) => !within(text)).length;
    }"""
    words = ["internationally", *WORDS[:6]]
    with open_browser() as browser, watched_page(browser) as (page, problems):
        for drawn in (plots.estimates(rows, "task", "way", "share", notes=notes), token_map(words)):
            (tmp_path / "x.svg").write_text(drawn.svg())
            page.goto((tmp_path / "x.svg").as_uri())
            assert page.evaluate(outside) == 0 and page.locator("text").count() > 5
        assert problems == []
