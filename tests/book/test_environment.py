"""The environment is one thing said once: requirements, pins and conda's file agree, and layers hold."""

import ast
import importlib
import itertools
import json
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import attnlib
from attnlib.training.closure import modules_reached
from book.chapters import CHAPTERS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINS = {
    canonicalize_name(pin.name): pin
    for pin in map(
        Requirement, re.findall(r"^[^#\s].*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    )
}
FOUND = list(pkgutil.walk_packages(attnlib.__path__, "attnlib."))
MODULES = sorted(module.name for module in FOUND)
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
# Import nothing of the house; anyone may use them.
ALONE = [
    "attended",
    "colours",
    "files",
    "lazily",
    "naming",
    "options",
    "pieces",
    "places",
    "stats",
    "undoing",
]
BESIDE = ["plots", "widgets"]  # do not import each other


def pinned(name: str) -> Version:
    """The version constraints.txt names."""
    (specifier,) = PINS[canonicalize_name(name)].specifier
    assert specifier.operator == "=="
    return Version(specifier.version)


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


def is_public(name: str) -> bool:
    """Whether readers import from it: a package that names what it offers, or a module beside those."""
    if name == "attnlib.__main__":
        return False  # run, never imported from
    return name.count(".") == 1 or hasattr(importlib.import_module(name), "__all__")


@pytest.mark.parametrize("text", [*PROJECT["dependencies"], *itertools.chain(*EXTRAS.values())])
def test_every_requirement_has_a_pin_that_satisfies_it(text: str) -> None:
    requirement = Requirement(text)
    assert canonicalize_name(requirement.name) in PINS, (
        f"{requirement.name} is not in constraints.txt: make lock"
    )
    assert requirement.specifier.contains(pinned(requirement.name)), f"constraints.txt breaks {text}"


def test_pins_are_exact_sorted_and_free_of_this_machine() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines == sorted(lines, key=lambda line: line.split("==")[0].lower()), "make lock sorts them"
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), (
            f"not an exact, portable version: {line}"
        )


def test_what_is_installed_is_what_is_pinned() -> None:
    wrong = {}
    for name in PINS:
        try:
            installed = Version(version(name))
        except PackageNotFoundError:
            continue  # of an extra that is not installed here, such as `cluster`
        if Version(installed.public) != pinned(name):
            wrong[name] = (str(installed), str(pinned(name)))
    assert wrong == {}, "installed, pinned: run make, or make lock if the new version is meant"


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


@pytest.mark.parametrize("name", [name for name in MODULES if is_public(name)])
def test_every_public_module_is_in_the_api_reference(name: str) -> None:
    pages = [page.read_text() for page in (ROOT / "book/api").glob("*.md")]
    assert any(re.search(rf"automodule:: {re.escape(name)}$", page, re.MULTILINE) for page in pages), (
        f"add {name} to a page of book/api"
    )


def room_of(path: Path) -> str:
    """The room that a file of the package is in: its folder, or itself where it stands alone."""
    return path.relative_to(ROOT / "attnlib").with_suffix("").parts[0]


def test_every_file_is_in_a_room_that_has_a_place() -> None:
    rooms = {room_of(path) for path in (ROOT / "attnlib").rglob("*.py")} - {"__init__"}
    assert rooms == {*ROOMS, *ALONE}, "give each room its place in ROOMS or ALONE"


@pytest.mark.parametrize("where", ["README.md", "CONTRIBUTING.md", "attnlib/__init__.py"])
def test_every_room_is_named_in_its_order(where: str) -> None:
    """From the bottom up: in a table's or a list's first column, or between arrows."""
    text = (ROOT / where).read_text()
    if where == "CONTRIBUTING.md":
        lines = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text, re.MULTILINE)
    elif where == "README.md":
        lines = re.findall(r"`generators` →[^;]*", text)
    else:
        lines = re.findall(r"^    ([a-z]+)  +", text.partition("Its rooms")[2], re.MULTILINE)
    rooms = [room for room in re.findall(r"[a-z]+", " ".join(lines)) if room != "stats"]
    assert rooms == [room for room in ROOMS if room != "__main__"]


def test_dependencies_point_downwards_only() -> None:
    upwards = []
    for path in (ROOT / "attnlib").rglob("*.py"):
        room = room_of(path)
        if room == "__init__":
            continue
        allowed = {room, *ALONE, *ROOMS[: ROOMS.index(room)]} if room in ROOMS else {room, "places"}
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


PUBLIC = {
    "attnlib.attribution.learned",
    *(f"attnlib.benchmarking.{name}" for name in ("entering", "exporting", "learned", "recording")),
    *(
        f"attnlib.benchmarking.{name}"
        for name in ("compiling", "population", "programs", "questions", "scoring")
    ),
    "attnlib.benchmarking",
    "attnlib.measures",
}
"""What one chapter alone uses, and a user of the library would look for."""


def test_what_one_chapter_alone_uses_is_in_its_folder() -> None:
    users: dict[str, set[str]] = {}
    for folder in CHAPTERS:
        code = {path.stem for path in (ROOT / "book/chapters" / folder).rglob("*.py")} - {"__init__"}
        notebooks = [path for path in (ROOT / "notebooks").glob("*.ipynb") if path.stem in code]
        cells = [cell for path in notebooks for cell in json.loads(path.read_text())["cells"]
                 if cell["cell_type"] == "code"]  # fmt: skip
        source = "\n".join("".join(cell["source"]) for cell in cells)
        modules = [f"book.chapters.{folder}.{name}" for name in code]
        for module in modules_reached(modules, source):
            users.setdefault(module, set()).add(folder)
    front = [f"book.front.{path.stem}" for path in (ROOT / "book/front").glob("*.py")]
    elsewhere = {*modules_reached(["attnlib.commands", "attnlib", *front]), *PUBLIC}
    alone = {
        module: min(folders)
        for module, folders in users.items()
        if module.startswith("attnlib.") and len(folders) == 1 and module not in elsewhere
    }
    assert [module for module, folder in alone.items() if folder not in {"methods", "own_model"}] == []


def test_a_kernel_that_starts_in_notebooks_finds_library_and_book() -> None:
    """As JupyterLab, Binder and Colab start it: by the installation alone."""
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
