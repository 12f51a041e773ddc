"""`python -m book.pipeline.sync`: bring every chapter's notebook and text together; `make sync` runs it.

Jupytext copies the newer of the two files over the older, so an edit of the older file is lost. If both files
of any pair were edited and differ, `sync` names the pair and changes nothing. It recognises an edit by
comparing a file with the last commit in which both agreed, and with the state after the last `sync`.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import jupytext
from jupytext.cli import jupytext as run_jupytext

from attnlib.places import make_folder, write_atomically

TOGETHER = Path("build/synced.json")
"""A hash of the content of each pair when it was last synchronised."""

TODO = """\
Nothing was changed. Move one file of each pair that is named out of the project, and run `make sync` again:
it is written again from the other. Then repeat its edits by hand."""


class Unreadable(Exception):
    """A file is no notebook: the message names it."""


def pairs() -> list[tuple[Path, Path]]:
    """The notebook and the text of every chapter; one of them may be missing."""
    folder = Path("notebooks")
    names = {path.stem for path in [*folder.glob("*.ipynb"), *folder.glob("text/*.md")]}
    return [(folder / f"{name}.ipynb", folder / f"text/{name}.md") for name in sorted(names)]


def said_by(path: Path, content: bytes | None = None) -> str:
    """A hash of the cells and settings of a notebook or a text, without outputs."""
    read = path.read_bytes() if content is None else content
    try:
        notebook = jupytext.reads(read.decode(), fmt="ipynb" if path.suffix == ".ipynb" else "md:myst")
        text = jupytext.writes(notebook, fmt="md:myst")
    except Exception as error:  # of whichever library came upon the broken part
        raise Unreadable(f"{path} cannot be read as a notebook: {error}") from None
    return hashlib.sha256(text.encode()).hexdigest()


def said_in_git(pair: tuple[Path, Path]) -> str | None:
    """The hash of a pair's content in the last commit in which both files agreed; `None` if there is none.

    Commits in which the files differ are skipped: an edit of one file alone may have been committed.
    """
    for commit in (_git("log", "--format=%H", "-20", "--", *map(str, pair)) or b"").decode().split():
        then = [_git("show", f"{commit}:./{path}") for path in pair]
        if None in then:
            break
        with suppress(Unreadable):
            first, second = (said_by(path, content) for path, content in zip(pair, then, strict=True))
            if first == second:
                return first
    return None


def _git(*words: str) -> bytes | None:
    """What git prints; `None` if it refuses, or there is no git."""
    try:
        return subprocess.run(["git", *words], capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None


def sync() -> int:
    """Synchronise all pairs, or none if one is refused; returns the exit status."""
    together = json.loads(TOGETHER.read_text("utf-8")) if TOGETHER.exists() else {}
    ahead, refused = list[Path](), list[str]()
    for pair in pairs():
        notebook, text = pair
        try:
            if not (notebook.exists() and text.exists()) or said_by(notebook) == said_by(text):
                continue
            before = (together.get(text.stem), said_in_git(pair))
            edited = [path for path in pair if said_by(path) not in before]
        except Unreadable as error:
            refused.append(str(error))
            continue
        if len(edited) == 2:
            refused.append(f"{notebook} and {text} differ, and both were edited")
        ahead += edited
    if refused:
        print(*refused, TODO, sep="\n", file=sys.stderr)
        return 1
    for path in ahead:
        os.utime(path)  # so that Jupytext takes the edited file for the newer one
    if status := _jupytext():
        return status
    make_folder(TOGETHER.parent)
    write_atomically(TOGETHER, json.dumps({text.stem: said_by(text) for _, text in pairs()}).encode())
    return 0


def _jupytext() -> int:
    files = [str(text if text.exists() else notebook) for notebook, text in pairs()]
    return int(run_jupytext(["--sync", *files]) or 0)


def main() -> int:
    """Run the command line; returns the exit status."""
    argparse.ArgumentParser(description="Bring every chapter's notebook and text together.").parse_args()
    return sync()


if __name__ == "__main__":
    raise SystemExit(main())
