"""JupyterLab as `make lab` starts it: numbers stand in the text, and files keep the roles of the book."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis.strategies import lists, sampled_from, text
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from book.pipeline.live import Chapters, asking, naming

ROOT = Path(__file__).parents[2]
TEXT = (
    'Right: {glue:text}`sort, "it\'s": accuracy:.2f` of {glue:text}`n`; {eval}`1 + 1` stays, {math}`x` too.'
)


def test_a_text_is_handed_out_with_roles_for_the_kernel_and_taken_back_as_it_was() -> None:
    live = asking(TEXT)
    assert "glue" not in live.replace("glued", "") and "{eval}`glued('n')`" in live and "{math}`x`" in live
    assert naming(live) == TEXT


def test_a_citation_is_a_link_to_the_paper_by_author_and_year() -> None:
    both = "{cite}`abnar2020quantifying, linzen2016assessing`"
    roles = f"{{cite:t}}`linzen2016assessing` say; so {both}; {{cite}}`nobody`"
    live = asking(roles)
    assert live.startswith("[Linzen et al. (2016)](https://")
    assert "[(Abnar and Zuidema 2020; Linzen et al. 2016)](https://" in live
    assert live.endswith("{cite}`nobody`") and naming(live) == roles


LINK = asking("{cite}`linzen2016assessing`")
PARTS = [
    *("{glue:text}`n:.2f`", "{eval}`glued('n')`", "{eval}` glued('n')`", "{eval}`glued(f(1))`", "{eval}`1`"),
    *("{cite}`linzen2016assessing`", "{cite:t}`abnar2020quantifying, linzen2016assessing`", "{cite}`nobody`"),
    *(LINK, LINK.replace('"cite', '" cite'), '[a](https://b.c "cite nobody")', '[a](b "cite x")', "[a](b)"),
    *("{eval}", "{glue:text}", "{cite}", "glued(", "'n'", ")", "`", "[", "]", "(", '"', "\\", " ", "n"),
]


@given(lists(sampled_from(PARTS) | text(max_size=3)).map("".join))
def test_what_is_handed_out_and_saved_is_what_it_was(written: str) -> None:
    assert naming(asking(written)) == written


def test_what_a_reader_writes_in_jupyterlab_stays() -> None:
    """A link with such a title, and a call of one's own: neither is a citation or a number of the book."""
    for written in ('[a](https://b.c "cite foo")', "{eval}`glued(name)`", "{eval}`glued('a' + 'b')`"):
        assert naming(written) == written


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks/text").glob("*.md")), ids=lambda path: path.stem)
def test_every_chapter_comes_back_as_it_was(path: Path) -> None:
    text = path.read_text()
    assert "{glue:text}" not in asking(text) and "{cite" not in asking(text)
    assert naming(asking(text)) == text


def test_the_server_changes_what_is_seen_and_not_what_is_kept(tmp_path: Path) -> None:
    code = new_code_cell("text = '{glue:text}`n`'")
    nbformat.write(new_notebook(cells=[new_markdown_cell(TEXT), code]), tmp_path / "a.ipynb")
    (tmp_path / "a.md").write_text(TEXT)
    (tmp_path / "a.py").write_text(TEXT)
    manager = Chapters(root_dir=str(tmp_path))
    for name, source in (("a.ipynb", lambda model: model["content"]["cells"][0]["source"]),
                         ("a.md", lambda model: model["content"])):  # fmt: skip
        before, model = (tmp_path / name).read_text(), manager.get(name)
        assert source(model) == asking(TEXT)
        manager.save({key: model[key] for key in ("type", "format", "content")}, name)
        kept, again = (tmp_path / name).read_text(), manager.get(name)
        assert "{glue:text}" in kept and "glued(" not in kept and source(again) == asking(TEXT)
        if name == "a.md":
            assert kept == before
    assert manager.get("a.ipynb")["content"]["cells"][1]["source"] == code.source, "code is left alone"
    assert manager.get("a.py")["content"] == TEXT
    written = asking(TEXT)
    manager.save({"type": "file", "format": "text", "content": written}, "a.py")
    assert (tmp_path / "a.py").read_text() == written, "code is written as it is"
    assert [each["name"] for each in sorted(manager.get("")["content"], key=lambda each: each["name"])] == [
        "a.ipynb", "a.md", "a.py"]  # fmt: skip


def test_a_kernel_knows_what_the_run_has_glued() -> None:
    """In a process of its own: the startup file changes `myst_nb`."""
    startup = ROOT / "book/pipeline/live_startup.py"
    (said,) = re.findall(r'PYTHONSTARTUP="\$\(CURDIR\)/(\S+)"', (ROOT / "Makefile").read_text())
    assert ROOT / said == startup
    code = (
        f"exec(open({str(startup)!r}).read())\n"
        "print(glued('a: b:.2f'))\n"
        "from myst_nb import glue\n"
        "glue('a: b', 1.234567, display=False); glue('word', 'yes', display=False)\n"
        "glue('n', 7, display=False)\n"
        "print(glued('a: b:.2f'), glued('a: b'), glued('word'), [glued('word')], glued('n:d'))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first == "\N{EN DASH}"
    assert last == "1.23 1.234567 yes [yes] 7"
