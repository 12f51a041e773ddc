"""The book on paper: what the PDF is printed from, and what is said where it cannot be."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnlib.widgets import GenerationExplorer
from attnlib.widgets.static import whole_page
from book.pipeline import pdf
from book.pipeline.stage import BookError
from tests.browser import chromium_path

ROOT = Path(__file__).parents[2]


@pytest.mark.book
def test_a_page_is_printed_with_its_explorer_as_a_picture_and_its_code_whole(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CHROMIUM", str(chromium_path()))
    explorer = GenerationExplorer(["The", " sky"], [" is"], torch.full((1, 2, 1), 0.3), title="Colours")
    code = "<pre>" + "one_long_name " * 60 + "</pre>"
    chapter = '<div class="toctree-wrapper"><section><h2>{}</h2>{}</section></div>'
    body = chapter.format("First", explorer.to_html()) + chapter.format("Second", code)
    style = (ROOT / "book/_static/print.css").read_text()
    page = tmp_path / "index.html"
    page.write_text(
        whole_page("A book", f'<style>{style}</style><article class="bd-article">{body}</article>')
    )
    printed = pdf.print_page(page, tmp_path / "book.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type /Page\b", printed)) == 2, "a chapter begins on a page of its own"
    assert b"/Subtype /Image" in printed, "the explorer's maps"


@pytest.mark.parametrize("has", [True, False])
def test_chromium_stays_in_its_sandbox_where_there_is_one(monkeypatch, has) -> None:
    asked = []

    def launch(chromium_sandbox: bool, **how: Any) -> str:
        asked.append(chromium_sandbox)
        if chromium_sandbox and not has:
            raise pdf.Error("No usable sandbox!")
        return "a browser"

    monkeypatch.setattr(pdf, "chromium", lambda: "chromium")
    assert pdf.launched(SimpleNamespace(chromium=SimpleNamespace(launch=launch))) == "a browser"
    assert asked == [True] * has or asked == [True, False]
    assert "--no-sandbox" not in pdf.FLAGS


def test_without_chromium_it_says_what_to_do(monkeypatch) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(pdf, "NAMES", ("no-such-browser",))
    with pytest.raises(BookError, match=r"no-such-browser.*CHROMIUM=/path make pdf"):
        pdf.chromium()
