"""Helpers of the Snakefile: on which files a chapter depends, and why the chapter is about to run."""

import functools
import json
import re
import runpy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from book.pipeline.imports import modules_reached

PLACES = "book/chapters/records/places.py"
"""A module that is run as a file, because importing its packages would take seconds."""

BESIDE = (".js", ".css", ".csv", ".wasm")
"""Suffixes of files beside Python modules that also determine the pages."""

TIME = re.compile(
    r"^#.*?([^#:,.;]*\b(?:second|minute|hour|day)s?\b(?: or two)?)", re.MULTILINE | re.IGNORECASE
)
"""How long a chapter takes, in a profile's comment."""


@functools.cache
def files_reached(modules: tuple[str, ...] = (), notebook: str = "") -> list[str]:
    """The files that modules and a notebook's cells import, directly or not, and files `BESIDE` them."""
    cells = json.loads(Path(notebook).read_bytes())["cells"] if notebook else []
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    source = "\n".join(
        line for line in "\n".join(code).split("\n") if not line.lstrip().startswith(("%", "!"))
    )
    try:
        modules_found = modules_reached(modules, source, Path.cwd())
    except SyntaxError:  # the chapter reports it when it runs
        modules_found = modules_reached(modules, house=Path.cwd())
    found = {path.relative_to(Path.cwd()) for path in modules_found.values()}
    rooms = {path.parent for path in found if len(path.parts) > 2}  # not `attnlib` itself
    beside = {path for room in rooms for path in room.rglob("*") if path.suffix in BESIDE}
    return sorted(map(str, found | beside))


def own_records() -> list[str]:
    """The files of the reader's own records: pages show them, and no chapter depends on them."""
    return [str(path) for path in runpy.run_path(PLACES)["own_files"]()]


def chapters_of(profile: str) -> list[str]:
    """The chapters that have this profile."""
    return sorted(path.parent.name for path in Path("notebooks/profiles").glob(f"*/{profile}.yaml"))


def needs(profile: str) -> dict[str, list[str]]:
    """By chapter, the chapters whose models it uses, which are executed first (`notebooks/needs.yaml`)."""
    declared, there = Path("notebooks/needs.yaml"), chapters_of(profile)
    told = yaml.safe_load(declared.read_text(encoding="utf-8")) if declared.exists() else {}
    return {name: sorted(set(told.get(name, [])) & set(there)) for name in there}


def priority(name: str, profile: str) -> int:
    """1 for chapters to begin with, so that no core is idle at the end, otherwise 0.

    Other chapters wait for them, or they take minutes.
    """
    waited_for = any(name in others for others in needs(profile).values())
    return int(waited_for or re.search("minutes|hour|day|night", by_comment(name, profile)) is not None)


def about_to_run(jobs: Iterable[tuple[Any, Any]], profile: str) -> list[str]:
    """A line for each chapter that is about to run: its expected time, and why it runs."""
    lines = []
    for job, reason in jobs:
        if job.rule.name == "notebook":
            name = job.wildcards.notebook
            lines.append(f"{name:<23}  {expected(name, profile):<19}  {why(reason)}")
    early = (
        f"A chapter that is done can be read at once: make page FILE=build/{profile}/notebooks/CHAPTER.ipynb"
    )
    return [*sorted(lines), early] if lines and not Path(f"build/{profile}/html").exists() else sorted(lines)


def expected(name: str, profile: str) -> str:
    """How long a chapter took the last time, or takes by its profile's own comment."""
    try:
        seconds = json.loads(Path(f"build/{profile}/runs/{name}.json").read_bytes())["wall_time_s"]
        return f"{seconds / 60:.1f} min"
    except (OSError, ValueError, KeyError):
        return by_comment(name, profile)


def by_comment(name: str, profile: str) -> str:
    """How long a chapter takes by its profile's own comment."""
    path = Path(f"notebooks/profiles/{name}/{profile}.yaml")
    found = TIME.search(path.read_text(encoding="utf-8")) if path.exists() else None
    return found[1].strip().lower() if found else ""


def why(reason: Any) -> str:
    """Snakemake's reason in words: the first of the files that have changed, and how many more."""
    changed = sorted(map(str, reason.updated_input))
    before = sorted(Path(str(path)).stem for path in reason.updated_input_run)
    more = f", and {len(changed) - 1} more" if len(changed) > 1 else ""
    said = {
        "not built yet": reason.missing_output,
        "was cut short": reason.incomplete_output,
        f"{''.join(changed[:1])} has changed{more}": changed,
        f"takes models of {', '.join(before)}": before,
        "is made of other files than it was": reason.input_changed,
        "its rule has changed": reason.code_changed or reason.software_stack_changed,
    }
    return "; ".join(words for words, so in said.items() if so) or "asked for"
