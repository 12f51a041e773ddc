"""Conda installs what pip does, the layers of the house hold, and chapters have files of the same names."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from book.chapters import CHAPTERS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

# From the bottom up: a module imports from its own room, those before it, and those that stand alone.
ROOMS = [
    "generators",
    "models",
    "training",
    "rollout",
    "attribution",
    "measures",
    "plots",
    "widgets",
    "benchmarking",
    "commands",
    "__main__",
]
# Import of the house only checks and places; anyone may use them.
ALONE = [
    "attended",
    "checks",
    "colours",
    "files",
    "lazily",
    "options",
    "pieces",
    "places",
    "stats",
    "undoing",
]
BESIDE = ["plots", "widgets"]  # do not import each other

HOMES = {name: ROOT / "book/chapters" / name for name in CHAPTERS}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(path.relative_to(ROOT).parts[: -node.level]) if node.level else ""
            base = ".".join(part for part in (package, node.module) if part)
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def test_conda_installs_the_same() -> None:
    *conda, pip = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert f"python ={lowest}" in conda, "Binder reads one minor version, and takes its own for a range"
    constraints, package = pip["pip"]
    assert constraints == "-c constraints.txt"
    extras = Requirement(package.replace("-e .", "attnlib")).extras
    make = re.search(r"^EXTRAS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert make and extras == set(make[1].split(","))
    assert extras <= set(EXTRAS)


def room_of(path: Path) -> str:
    """The room that a file of the package is in: its folder, or itself where it stands alone."""
    return path.relative_to(ROOT / "attnlib").with_suffix("").parts[0]


def test_dependencies_point_downwards_only() -> None:
    upwards = []
    for path in (ROOT / "attnlib").rglob("*.py"):
        room = room_of(path)
        if room == "__init__":
            continue
        allowed = {room, *ALONE, *ROOMS[: ROOMS.index(room)]} if room in ROOMS else {room, "checks", "places"}
        allowed -= set(BESIDE) - {room} if room in BESIDE else set()
        # Rollout follows attention, wherever it came from.
        allowed -= {"generators"} if room == "rollout" else set()
        for name in imports(path):
            house, *rest = name.split(".")
            if house in {"notebooks", "book", "tests", "benchmarks"} or (
                house == "attnlib" and rest and rest[0] not in allowed
            ):
                upwards.append(f"{path.relative_to(ROOT)} imports {name}")
    assert upwards == []


@pytest.mark.parametrize("folder", [name for name in HOMES if (HOMES[name] / "claims.py").exists()])
def test_a_chapter_has_the_same_six_files_and_at_most_three_others(folder: str) -> None:
    found = {path.stem for path in HOMES[folder].glob("*.py")} - {"__init__"}
    found |= {path.parent.name for path in HOMES[folder].glob("*/__init__.py")}
    parameters = found & {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert parameters, f"{folder} has no file with its notebook's name"
    same = {"measures", "tables", "figures", "sentences", "claims"}
    lacking = same - found
    assert not lacking, f"{folder} lacks {sorted(lacking)}"
    others = sorted(found - parameters - same)
    assert len(others) <= 3, f"{folder} has {len(others)} other files, of at most 3: {others}"


def test_a_kernel_that_starts_in_notebooks_finds_library_and_book() -> None:
    """As JupyterLab and Binder start it: by the installation alone."""
    code = "import attnlib, book.chapters; print(attnlib.__file__, book.chapters.__file__)"
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "notebooks", env=bare, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_no_module_of_the_house_is_imported_late() -> None:
    """A late import hides a circle of modules."""
    late = [
        f"{path.relative_to(ROOT)}: {name.name}"
        for path in (ROOT / "attnlib").rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attnlib")
        for name in node.names
    ]
    assert late == []


def test_the_core_needs_nothing_of_the_book() -> None:
    """Someone who only wants generators, models and training installs no Jupyter."""
    core = [
        "attnlib.generators",
        "attnlib.models",
        "attnlib.training",
        *(f"book.chapters.{name}" for name in CHAPTERS),
    ]
    book = {
        "papermill",
        "jupyter_book",
        "snakemake",
        "jupytext",
        "anywidget",
        "ipywidgets",
        "matplotlib",
        "seaborn",
    }
    code = f"import sys, {', '.join(core)}; print(*sorted(set(sys.modules) & {book!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []


def test_no_file_names_a_machine_or_a_registry() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: there is no list of files to look through")
    # Written in two parts so that this file passes its own test.
    parts = ["/" + "work/", "/" + "root/", "/" + "home/", "pypi" + r"\.", "index" + "-url"]
    barred = re.compile("|".join(parts))
    vendored = ("book/assets/",)
    found = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if (
            name.startswith(vendored)
            or not path.is_file()
            or path.suffix in {".parquet", ".png", ".safetensors"}
        ):
            continue
        for number, line in enumerate(path.read_text(errors="ignore").splitlines(), 1):
            if barred.search(line):
                found.append(f"{name}:{number}: {line.strip()[:80]}")
    assert found == []
