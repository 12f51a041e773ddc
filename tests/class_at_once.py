"""Whether a class can run a chapter at once: so many papermill runs over one cache, beside one run alone.

    python -m tests.class_at_once              # 100 runs: some forty minutes of processor time
    python -m tests.class_at_once --runs 6

All runs are of the same parameters, so all want the same models at the same moment, and write the same
record. Each has a process and a kernel of its own; as many are begun together as fit into the memory that is
free, and the next begins where one ends. What each run shows is held against the run alone, over a cache of
its own: every output of every cell but its times, and in the end the record's rows, byte for byte.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import unified_diff
from itertools import islice
from pathlib import Path

import nbformat
import pandas as pd
import psutil

from book.pipeline.execute import clean
from book.pipeline.times import set_apart

ROOT = Path(__file__).parents[1]
FREE = 0.7
"""Of the memory that is free, the share that runs may take."""

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}\+00:00")
"""When a record was made, as tables say it: of the class, once."""


@dataclass
class Runs:
    """Runs of a chapter at its smoke profile over one cache.

    Attributes:
        chapter: its name.
        folder: of the cache, the records and the executed notebooks.
        said: by run, what those that ended with an error wrote last.
    """

    chapter: str
    folder: Path
    said: dict[int, str] = field(default_factory=dict)

    def run(self, number: int) -> None:
        """One of them, as a student would type it."""
        source, profile = f"notebooks/{self.chapter}.ipynb", f"notebooks/profiles/{self.chapter}/smoke.yaml"
        own = {"ATTNLIB_CACHE": str(self.folder / "cache"), "ATTNLIB_RESULTS": str(self.folder / "results")}
        done = subprocess.run(
            [sys.executable, "-m", "papermill", source, str(self.executed(number)), "-f", profile],
            cwd=ROOT,
            env=os.environ | own | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            self.said[number] = done.stderr[-2000:]

    def executed(self, number: int) -> Path:
        """Where one's notebook is."""
        return self.folder / f"{number}.ipynb"

    def shown(self, number: int) -> str | None:
        """All that a run showed, but for times; `None` if it is not whole."""
        if number in self.said:
            return None
        notebook = nbformat.read(self.executed(number), as_version=4)
        if not all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code"):
            return None
        set_apart(notebook)
        return MOMENT.sub("", nbformat.writes(clean(notebook)))

    def rows(self) -> dict[str, bytes]:
        """The records' rows, by their place; those of unfinished files too."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.glob("results/**/*"))
            if path.is_file() and path.suffix != ".json"
        }

    def half_files(self) -> list[str]:
        """What was being written and did not come to its place."""
        return [str(path.relative_to(self.folder)) for path in sorted(self.folder.rglob("*.tmp"))]


@contextmanager
def memory() -> Iterator[list[float]]:
    """The most memory, in GiB, that this process's children take together; pages they share count once."""
    most, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(1.0):
            total = 0
            for each in psutil.Process().children(recursive=True):
                try:
                    total += each.memory_full_info().pss
                except psutil.Error:  # it has just ended
                    continue
            most[0] = max(most[0], total / 2**30)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()


def compared(chapter: str, n: int, folder: Path, at_once: int | None = None) -> dict[str, str | int | float]:
    """`n` runs over one cache beside one alone: how many were lost or wrong, and what they took.

    Args:
        chapter: its name.
        n: how many.
        folder: an empty one.
        at_once: how many of them together; as many as fit into memory if left out.
    """
    for name in ("alone", "class"):
        (folder / name).mkdir()
    alone, together = Runs(chapter, folder / "alone"), Runs(chapter, folder / "class")
    start = time.monotonic()
    with memory() as of_one:
        alone.run(0)
    seconds = time.monotonic() - start
    expected = alone.shown(0)
    if expected is None:
        raise SystemExit(f"The run alone failed:\n{alone.said.get(0)}")
    fits = min(n, at_once or max(1, int(psutil.virtual_memory().available * FREE / 2**30 / of_one[0])))
    print(f"alone {seconds:.0f} s, {of_one[0]:.2f} GiB; {fits} at once", flush=True)

    start = time.monotonic()
    with memory() as of_all, ThreadPoolExecutor(fits) as pool:
        list(pool.map(together.run, range(n)))
    minutes = (time.monotonic() - start) / 60
    for number, said in together.said.items():
        print(f"run {number} failed:\n{said}", file=sys.stderr)
    shown = [together.shown(number) for number in range(n)]
    for number, each in enumerate(shown):
        if each not in (None, expected):
            lines = unified_diff(
                expected.splitlines(), each.splitlines(), "alone", f"run {number}", n=0, lineterm=""
            )
            print("\n".join(line[:500] for line in islice(lines, 40)), file=sys.stderr)
    return {
        "chapter": chapter,
        "runs": n,
        "at once": fits,
        "lost": shown.count(None),
        "wrong": sum(each not in (None, expected) for each in shown),
        "records": "the same" if together.rows() == alone.rows() else "others",
        "half files": len(together.half_files()),
        "minutes": round(minutes, 1),
        "minutes of one alone": round(seconds / 60, 2),
        "GiB of one alone": round(of_one[0], 2),
        "GiB of all": round(of_all[0], 1),
    }


def main() -> None:
    """Run them, in a folder that goes at the end."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--at-once", type=int, help="how many together (default: as many as fit into memory)")
    parser.add_argument("--chapter", default="classification_dynamics", help="by default the cheapest")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        line = compared(given.chapter, given.runs, Path(folder), given.at_once)
    print(pd.Series(line).to_string())


if __name__ == "__main__":
    main()
