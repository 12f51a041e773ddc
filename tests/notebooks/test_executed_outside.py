"""A chapter that papermill executed, as a page of nbconvert: what it shows without a network."""

import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest

from tests.browser import becomes, open_browser, watched_page
from tests.conftest import ROOT
from tests.parameters import profile

NBCONVERTS_OWN = ("/require.js/", "/mathjax/")
"""Addresses that nbconvert writes into every page, whatever is in it."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own_model", "methods"])
def test_its_explorers_are_there_and_nothing_is_asked_of_the_network(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    executed = tmp_path / "out.ipynb"
    papermill.execute_notebook(
        ROOT / f"notebooks/{name}.ipynb", executed, profile(name, "smoke"), kernel_name="python3"
    )
    notebook = nbformat.read(executed, 4)
    assert "widgets" not in notebook.metadata
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    explorers = [each for each in outputs if "data-attnlib" in each.get("data", {}).get("text/html", "")]
    assert explorers and not [each for each in outputs if "\r" in each.get("text", "")]
    subprocess.run([sys.executable, "-m", "nbconvert", "--to", "html", executed], check=True)
    with open_browser() as browser, watched_page(browser) as (page, problems):
        page.goto(executed.with_suffix(".html").as_uri())
        shown = page.locator(".attnx")
        assert becomes(page, shown.count, lambda n: n == len(explorers)) == len(explorers)
        for explorer in shown.all():
            explorer.scroll_into_view_if_needed()
            assert explorer.bounding_box()["height"] > 100
    outside = [each for each in problems if each.startswith("outside request: ")]
    assert [each for each in outside if not any(own in each for own in NBCONVERTS_OWN)] == []
    assert not [each for each in problems if each.startswith("page error") and "attn" in each]
