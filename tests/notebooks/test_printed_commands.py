"""Every command that the book prints is one: its own program takes it, and a chapter its parameters.

Nothing is run here but parsers and the checks of parameters; the tests of the chapters execute some of them.
"""

import argparse
import os
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest
import snakemake.cli

import attnlib.commands
from book.pipeline.sweep import planned
from tests.conftest import ROOT
from tests.notebooks.command_line import papermill_gives
from tests.notebooks.one_kernel import chapter_with
from tests.parameters import CHAPTERS
from tests.printed_commands import PAGES, Command, printed

STAND_FOR = {
    r"\bX\b": "rasp_languages",
    "language NAME": "language hist",
    "executor NAME": "executor local",
    r"\bMODEL\b": "tiny-random",
    r"\bFOLDER\b": "my/new",
    r'sentence "\.\.\."': 'sentence "the keys to the cabinet"',
}
"""What a page leaves to its reader, as patterns, and what a reader may put there."""

ELSEWHERE = {
    "source .venv/bin/activate": "made by make",
    "squeue --me": "of Slurm",
    "apt install python3-venv": "a package of the system",
    "apt install chromium": "a package of the system",
    "jupyter-book build .": "what `make book` calls; with no parameters of ours",
}
"""Commands of others that no parser here knows."""

NAMES = {"attnlib look", "attnlib look: ...", "make sweep", "papermill -f"}
"""What is called by its name in a sentence, not to be typed."""


DATA = {
    "reviews.csv": "review,sentiment\na good film,1\na bad film,0\n",
    "folder/train.de": "ein Haus\n",
    "folder/train.en": "a house\n",
}
"""Files of a reader's own data."""


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like the checkout, and has what a reader is told to put there."""
    for each in ROOT.iterdir():
        if not each.name.startswith("."):
            (tmp_path / each.name).symlink_to(each)
    for folder in ("my/folder", "path/to/agreement", "path/to/your/model", "path/to/model"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("path/to/your/model", "path/to/model"):
        (tmp_path / folder / "config.json").write_text("{}")
    for name, text in DATA.items():
        (tmp_path / "my" / name).write_text(text * 20)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def takes_papermill(words: Sequence[str]) -> None:
    """Papermill hands the parameters on, and the chapter takes them from the notebook's first cells."""
    if "--help-notebook" in words:
        with pytest.raises(SystemExit, match=r"^0$"):
            papermill_gives(words)
        return
    notebook, parameters = papermill_gives(words)
    chapter, names = Path(notebook).stem, {}
    for cell in chapter_with(chapter, parameters).cells:
        if {"parameters", "injected-parameters"} & {*cell.metadata.get("tags", [])}:
            exec(cell.source, names)
    CHAPTERS[chapter].from_notebook(names)


class Parsed(Exception):
    """What a program has read, instead of doing it."""


def takes_python(words: Sequence[str]) -> None:
    """The parser of a module or a script of ours takes them."""
    module = words[0] == "-m"
    program, *rest = words[module:]
    parse = argparse.ArgumentParser.parse_known_args

    def stop(*given, **how):
        raise Parsed(*parse(*given, **how))

    if module:
        package = bool(find_spec(program).submodule_search_locations)
        run = import_module(program + ".__main__" * package).main
    else:
        run = partial(runpy.run_path, program, run_name="__main__")
    with (
        patch.object(argparse.ArgumentParser, "parse_known_args", stop),
        patch.object(sys, "argv", [program, *rest]),
        patch.object(sys, "path", [str(Path(program).parent), *sys.path]),
        pytest.raises(Parsed) as read,
    ):
        run()
    options, strange = read.value.args
    if program.startswith("book.pipeline"):  # which hands on what it does not know
        takes_snakemake(strange)
    else:
        assert strange == []
    if program == "book.pipeline.sweep":
        assert planned(options.file)


def takes_snakemake(words: Sequence[str]) -> None:
    """Its own parser does. A profile is there; what it says needs the plugin of a cluster."""
    words = list(words)
    if "--profile" in words:
        at = words.index("--profile")
        assert Path(words[at + 1], "config.yaml").exists()
        del words[at : at + 2]
    assert snakemake.cli.get_argument_parser().parse_args(words)


def takes_make(words: Sequence[str]) -> None:
    """It knows the target, and what it would call takes its words."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    told = subprocess.run(["make", "-n", *words], env=own, capture_output=True, text=True, check=True).stdout
    for call in re.findall(r"python (-m (?:book|attnlib)\b.*)", told.replace("\\\n", "")):
        takes_python(Command("", call).words)


def takes_pip(words: Sequence[str]) -> None:
    """The extras that it names are ours, and the file of versions is there."""
    known = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert words[0] == "install" and Path(words[words.index("-c") + 1]).exists()
    (extras,) = re.findall(r"^\.\[(.+)\]$", words[-1])
    assert set(extras.split(",")) <= set(known)


def takes_attnlib(words: Sequence[str]) -> None:
    """Its own parser does."""
    with pytest.raises(SystemExit, match=r"^0$") if "--help" in words else nullcontext():
        assert attnlib.commands.parser().parse_args(words)


TAKES: dict[str, Callable[[Sequence[str]], None]] = {
    "papermill": takes_papermill,
    "python": takes_python,
    "make": takes_make,
    "snakemake": takes_snakemake,
    "pip": takes_pip,
    "attnlib": takes_attnlib,
}
"""A handler for every program that a page names. A further one fails until it has its own."""


def files_of(page: str) -> dict[str, str]:
    """Files that a page has its reader write, by their names: as a block names itself, or of a language."""
    text = (ROOT / page).read_text()
    files = {name: block for block, name in re.findall(r"^```yaml\n(# (\S+)\n.*?)^```", text, re.M | re.S)}
    for defined in re.findall(
        r"^```\{code-cell\}[^`]*?\n\n(def [^`]*= rasp\.Definition\([^`]*?\n)(?:lang|plots)", text, re.M
    ):
        files |= dict.fromkeys(("shift.py", "mine.py"), f"from attnlib.generators import rasp\n\n{defined}")
    return files


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_what_a_page_prints_is_taken(page: str, at_home: Path) -> None:
    """All that are refused are named at once."""
    for name, text in files_of(page).items():
        (at_home / name).write_text(text)
    refused = []
    for command in (
        each for each in printed() if each.page == page and each.text not in {*ELSEWHERE, *NAMES}
    ):
        text = command.text
        for pattern, stands in STAND_FOR.items():
            text = re.sub(pattern, stands, text)
        program, *words = Command(page, text).words
        try:
            TAKES[program.rpartition("/")[2]](words)
        except (Exception, SystemExit) as error:
            refused.append(f"{command.text}\n    {type(error).__name__}: {error}")
    assert not refused, "\n".join(refused)
