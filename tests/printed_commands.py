"""Every command that a reader is shown: in the blocks of a shell, and in the text."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

from tests.conftest import ROOT
from tests.parameters import defaults_of

TEXTS = ROOT / "notebooks/text"
PAGES = [
    *(ROOT / name for name in ("README.md", "index.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "book").glob("*.md")),
    *sorted(TEXTS.glob("*.md")),
]
SHELLS = {"bash", "sh", "shell", "console"}
PROGRAMS = {
    *("papermill", "attnlib", "make", "python", "python3", "pip", "jupyter-book", "jupyter", "snakemake"),
    *("apt", "git", "source", "jupytext", "pytest", "ruff", "mypy", "bash", "sbatch", "squeue", "conda"),
}
"""What the first word of a command may be; what is none of the test's handlers' fails there."""


class Command(NamedTuple):
    """A command.

    Attributes:
        page: where it is printed, by its path in the repository.
        text: as it is printed; a chapter's "-p steps 10" is the whole command.
    """

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        """As a shell splits them, without assignments of the environment."""
        words = shlex.split(self.text, comments=True)
        while words and re.match(r"\w+=", words[0]):
            words.pop(0)
        return words


@cache
def printed() -> list[Command]:
    """All of them, page by page, each once on a page."""
    found = [Command(str(page.relative_to(ROOT)), text) for page in PAGES for text in _commands(page)]
    return list(dict.fromkeys(found))


def _commands(page: Path) -> Iterator[str]:
    chapter = page.stem if page.parent == TEXTS else ""
    parameters = defaults_of(chapter) if chapter else {}
    for kind, text in _code(page.read_text()):
        if kind in SHELLS:
            yield from _lines(text)
        elif kind == "inline" and chapter and re.match(r"-[pfyr] \S", text):
            yield f"papermill notebooks/{chapter}.ipynb out.ipynb {text}"
        elif kind == "inline" and (said := re.match(r"(\w+): \S", text)) and said[1] in parameters:
            yield f"papermill notebooks/{chapter}.ipynb out.ipynb -y {shlex.quote(text)}"
        elif kind == "inline" and re.match(r"([A-Z_]+=\S+ )*(\S*/)?(\S+) \S", text) and _program(text):
            yield text


def _program(text: str) -> bool:
    try:
        words = Command("", text).words
    except ValueError:  # a quotation mark of prose
        return False
    return bool(words) and words[0].rpartition("/")[2] in PROGRAMS


def _lines(block: str) -> Iterator[str]:
    """The commands of a block, with what its variables stand for."""
    variables: dict[str, str] = {}
    for line in block.replace("\\\n", "").splitlines():
        for name, value in variables.items():
            line = line.replace(f"${name}", value)
        if assigned := re.fullmatch(r"([a-z_]+)=(\S+)", line):
            variables[assigned[1]] = assigned[2]
        elif line and not line.startswith("#"):
            yield line


def _code(text: str) -> Iterator[tuple[str, str]]:
    """Code of a page: the language of its block, or "inline", and what it says; also inside of directives."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        language, *_ = token.info.split() or [""]
        if token.type == "fence" and language.startswith("{") and language != "{code-cell}":
            yield from _code(token.content)
        elif token.type == "fence":
            yield language, token.content
        before = None
        for child in token.children or []:
            role = before is not None and before.type == "text" and before.content.endswith("}")
            if child.type == "code_inline" and not role:
                yield "inline", child.content
            before = child
