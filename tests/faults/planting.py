"""Plants a fault in a copy of the project, and asks the tests of its room whether they notice."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("faults.yaml")
COPIED = ("attnlib", "book", "tests")
"""What is copied, since it is changed or imported; all else is linked."""


@dataclass(frozen=True)
class Fault:
    """A change that falsifies numbers.

    Attributes:
        name: what is wrong then.
        file: where, from the root.
        old: what stands there, once.
        new: and what instead.
        tests: of the same room, the files that should notice.
    """

    name: str
    file: str
    old: str
    new: str
    tests: list[str]

    @property
    def room(self) -> str:
        """`attnlib/models` or `book/chapters/rasp`, say."""
        parts = self.file.split("/")
        return "/".join(parts[: 3 if parts[0] == "book" else 2])


def faults() -> list[Fault]:
    """All of the table."""
    return [Fault(**told) for told in yaml.safe_load(TABLE.read_text())]


def copied(folder: Path) -> Path:
    """A copy of the project to plant faults in."""
    folder.mkdir(parents=True)
    for path in ROOT.iterdir():
        if path.name in COPIED:
            ignore = shutil.ignore_patterns("__pycache__", "vendor")
            shutil.copytree(path, folder / path.name, ignore=ignore)
        elif path.name == ".git" or not path.name.startswith((".", "build")):
            (folder / path.name).symlink_to(path)
    return folder


def asked(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What pytest says there."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True)


def noticed_by(fault: Fault, copy: Path) -> str:
    """The first test that fails where the fault is planted; "" if none does. The copy is as before.

    Raises:
        ValueError: what the fault changes does not stand in its file, or more than once.
        RuntimeError: the tests could not be run.
    """
    path = copy / fault.file
    whole = path.read_text()
    if whole.count(fault.old) != 1:
        raise ValueError(f"{fault.name}: {fault.old!r} stands {whole.count(fault.old)} times in {fault.file}")
    path.write_text(whole.replace(fault.old, fault.new))
    command = [
        sys.executable,
        "-m",
        "pytest",
        *fault.tests,
        "-qx",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
    ]
    try:
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    finally:
        path.write_text(whole)
    if done.returncode > 1:
        raise RuntimeError(f"{fault.name}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    failed = [
        line.split(" ", 2)[1] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))
    ]
    return failed[0].partition("[")[0] if failed else ""
