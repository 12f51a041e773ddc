"""Plants a fault in a copy of the project, and asks the tests of its room whether they notice."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from queue import SimpleQueue

import yaml

ROOT = Path(__file__).parents[2]
ERRED = Path(__file__).with_name("faults.yaml")
"""As a researcher would err: written by hand."""
DRAWN = Path(__file__).with_name("drawn.yaml")
"""By rule: written by `tests.faults.drawing`."""
CONTRADICTIONS = Path(__file__).with_name("contradictions.yaml")
"""Of prose, with what it is about."""
TABLES = {"by hand": ERRED, "by rule": DRAWN, "in words": CONTRADICTIONS}
NEAREST = 3
"""Files that are asked first: most faults are noticed there, and the others are not even imported."""
LIMIT = 900
"""Seconds after which a test that does not end has noticed."""
COPIED = ("attnlib", "book", "tests", "notebooks", "README.md", "index.md")
"""What is copied, since it is changed or imported; all else is linked."""


@dataclass(frozen=True)
class Fault:
    """A change that falsifies numbers.

    Attributes:
        name: what is wrong then.
        file: where, from the root.
        old: what stands there, once.
        new: and what instead.
        tests: of the same room, the files that should notice; if none are named, all, the nearest first.
    """

    name: str
    file: str
    old: str
    new: str
    tests: list[str] = field(default_factory=list)

    @property
    def room(self) -> str:
        """`attnlib/models` or `book/chapters/rasp`, say."""
        return room_of(self.file)

    @property
    def asked(self) -> list[str]:
        """Test files: of the room, the nearest first; then others that name what is changed, or its file."""
        return self.tests or [*sorted(_tests_of(self.room), key=self._distance), *self._elsewhere]

    @property
    def _function(self) -> str:
        """What the change is in: a function of the fault's name, or the file."""
        return self.name.split(": ")[0].split(", ")[-1].split(".")[-1].strip("_ ") or Path(self.file).stem

    def _distance(self, test: str) -> tuple[bool, bool, bool]:
        """Least for tests that are called like the file or its folder, and name the function and the file."""
        path, text = Path(self.file), _tests()[test]
        return (
            not any(name in Path(test).stem for name in (path.stem, path.parent.name)),
            not re.search(rf"\b{self._function}\b", text),
            f".{path.stem} " not in text,
        )

    @property
    def _elsewhere(self) -> list[str]:
        package, of_room = self.room.replace("/", "."), _tests_of(self.room)
        module = rf"\.{Path(self.file).stem} import "
        if self.file.endswith("/claims.py"):  # those of all chapters are judged in one place
            return ["tests/chapters/test_findings.py"]
        return [
            file
            for file, text in _tests().items()
            if file not in of_room and package in text and re.search(rf"\b{self._function}\b|{module}", text)
        ]


def room_of(file: str) -> str:
    """The folder of the library or of a chapter; `book/chapters` for what chapters share."""
    parts = file.split("/")[:-1]
    return "/".join(parts[: 3 if parts[:1] == ["book"] else 2])


def is_of_room(test: str, room: str) -> bool:
    """Whether a test is of the room of a file; what chapters share is tested beside their folders."""
    folder = f"tests/{room.removeprefix('book/')}/"
    return test.startswith(
        folder if (ROOT / folder).exists() and room != "book/chapters" else "tests/chapters/test_"
    )


@cache
def _tests() -> dict[str, str]:
    files = sorted([*ROOT.glob("tests/attnlib/**/test_*.py"), *ROOT.glob("tests/chapters/**/test_*.py")])
    return {str(file.relative_to(ROOT)): file.read_text() for file in files}


def _tests_of(room: str) -> list[str]:
    return [file for file in _tests() if is_of_room(file, room)]


def faults(*tables: Path) -> list[Fault]:
    """All of some tables."""
    return [Fault(**told) for table in tables for told in yaml.safe_load(table.read_text())]


def copied(folder: Path) -> Path:
    """A copy of the project to plant faults in."""
    folder.mkdir(parents=True)
    for path in ROOT.iterdir():
        if path.name in COPIED and path.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "vendor")
            shutil.copytree(path, folder / path.name, ignore=ignore)
        elif path.name in COPIED:
            shutil.copy(path, folder)
        elif path.name == ".git" or not path.name.startswith((".", "build")):
            (folder / path.name).symlink_to(path)
    return folder


@contextmanager
def lent_copies(cores: int) -> Iterator[Callable[[], AbstractContextManager[Path]]]:
    """As many copies as faults are planted at once: `with lent() as copy` has one for itself."""
    with tempfile.TemporaryDirectory() as folder:
        free: SimpleQueue[Path] = SimpleQueue()
        for number in range(cores):
            free.put(copied(Path(folder).resolve() / str(number)))

        @contextmanager
        def lent() -> Iterator[Path]:
            copy = free.get()
            try:
                yield copy
            finally:
                free.put(copy)

        yield lent


def pytest(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What pytest says there. What the tests start finds the copy, too."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow and not book",
        "-p",
        "no:cacheprovider",
        *words,
    ]
    environment = os.environ | {"PYTHONPATH": str(copy)}
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT)


def noticed_by(fault: Fault, copy: Path) -> str:
    """The first test that fails where the fault is planted; "" if none does. The copy is as before.

    Raises:
        ValueError: what the fault changes does not stand in its file, or more than once.
        RuntimeError: the tests could not be run.
    """
    with planted(fault, copy):
        return _first_failed(copy, fault.asked[:NEAREST]) or _first_failed(copy, fault.asked[NEAREST:])


@contextmanager
def planted(fault: Fault, root: Path) -> Iterator[None]:
    """The fault is in its file inside a `with` block; in a chapter's text, also in its notebook."""
    changed = {root / fault.file: (fault.old, fault.new)}
    if fault.file.startswith("notebooks/text/"):
        twin = root / "notebooks" / Path(fault.file).with_suffix(".ipynb").name
        changed[twin] = (_in_json(fault.old), _in_json(fault.new))
    before = {path: path.read_text() for path in changed}
    for path, (old, _) in changed.items():
        if (count := before[path].count(old)) != 1:
            raise ValueError(f"{fault.name}: {old!r} stands {count} times in {path.relative_to(root)}")
    try:
        for path, (old, new) in changed.items():
            path.write_text(before[path].replace(old, new))
        yield
    finally:
        for path, text in before.items():
            path.write_text(text)


def _in_json(line: str) -> str:
    return json.dumps(line, ensure_ascii=False)[1:-1]


def _first_failed(copy: Path, files: list[str]) -> str:
    if not files:
        return ""
    try:
        done = pytest(copy, "-x", *files)
    except subprocess.TimeoutExpired:
        return f"no end after {LIMIT} seconds"
    lines = done.stdout.splitlines()
    failed = [line.split(" ", 2)[1] for line in lines if line.startswith(("FAILED", "ERROR"))]
    if done.returncode and not failed:
        raise RuntimeError(f"{done.stdout[-1000:]}{done.stderr[-1000:]}")
    return failed[0].partition("[")[0] if failed else ""
