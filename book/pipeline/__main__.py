"""`python -m book.pipeline quick --cores 2`: run the Snakefile for one profile, then say where the page is.

Snakemake's own lock outlives a killed run, and the next run then needs `--unlock`. The operating system
releases the lock used here when the processes that hold it end, so a killed run never blocks the next one.
"""

import argparse
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil  # type: ignore[import-untyped]

from .kept import discard_others, say_damaged
from .reached import chapters_of, executed_first

PROFILES = ("smoke", "quick", "paper")
READ = ("attnlib", "book", "notebooks", "results", "my_runs")
"""The folders that a build reads."""


def is_dry(options: list[str]) -> bool:
    """Whether Snakemake is only to say what it would do."""
    return not {"-n", "--dry-run", "--dryrun"}.isdisjoint(options)


def cores(text: str) -> int:
    """A number of cores, read from the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"should be a whole number, 1 or more; got {text}")
    return int(text)


def take_lock(path: Path) -> IO[str]:
    """Open and lock `path`, waiting for another run that holds it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("w", encoding="utf-8")
    except OSError as error:
        sys.exit(
            f"{error.filename} cannot be written ({error.strerror}): a build needs a folder {path.parent}"
        )
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("Another build is running here; waiting for it to end.", flush=True)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except KeyboardInterrupt:
            sys.exit("Nothing was done: the other build goes on.")
    return handle


def snakemake(profile: str, cores: int, extra: list[str]) -> list[str]:
    """The Snakemake command line of one build; chapters of `executed_first` have priority."""
    quiet = [] if is_dry(extra) else ["--quiet", "all"]
    target = f"build/{profile}/reproduced.txt"
    first = [f"build/{profile}/runs/{name}.json" for name in executed_first(profile)]
    first = ["--prioritize", *first] if first else []
    return making([target], cores, *quiet, *first, "--config", f"profile={profile}", *extra)


def making(targets: Iterable[str], cores: int, *more: str) -> list[str]:
    """The Snakemake command line for some files: resumes after a kill, and goes on if one of them fails."""
    options = ["--cores", str(cores), "--rerun-incomplete", "--nolock", "--keep-going"]
    return [sys.executable, "-m", "snakemake", *targets, *options, *more]


def end_in_order() -> None:
    """Have Snakemake stop its jobs and itself when this process, which only waits for it, is told to end.

    The terminal sends Ctrl-C to all of these processes. SIGTERM reaches only this one, so it is passed on.
    """
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, _interrupt_the_others)


def _interrupt_the_others(*_: object) -> None:
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(each.pid) == os.getpgrp():  # kernels have own groups: their chapters end them
                each.send_signal(signal.SIGINT)


def files_read() -> set[Path]:
    """Every file that a build may read, without Python's `__pycache__`."""
    found = (path for folder in READ for path in Path(folder).rglob("*") if "__pycache__" not in path.parts)
    return {path for path in found if path.is_file()}


def main() -> int:
    """Build one profile of the book in the current folder; returns the exit status."""
    parser = argparse.ArgumentParser(description="Execute the chapters and render the book.")
    parser.add_argument("profile", choices=PROFILES)
    parser.add_argument("--cores", type=cores, default=2, help="notebooks run side by side")
    args, extra = parser.parse_known_args()
    if extra and not extra[0].startswith("-"):
        parser.error(f"after the profile come options, as Snakemake takes them; got {extra[0]!r}")

    lock = take_lock(Path("build/.lock"))
    if not is_dry(extra):
        say_damaged(build := Path("build", args.profile))
        discard_others(build, chapters_of(args.profile))
    page = Path(f"build/{args.profile}/html/index.html").resolve()
    reproduced = page.parents[1] / "reproduced.txt"
    if not is_dry(extra) and not page.exists():
        reproduced.unlink(missing_ok=True)  # this file marks the pages as complete
    before = page.stat().st_mtime_ns if page.exists() else None
    read = files_read()
    end_in_order()
    # Snakemake inherits the lock, which is thus held until Snakemake itself is gone.
    run = subprocess.Popen(snakemake(args.profile, args.cores, extra), pass_fds=(lock.fileno(),))
    status = run.wait()
    whole = page.exists() and reproduced.exists()  # Snakemake removes the second when it begins anew
    if is_dry(extra) or (status == 0 and not whole):  # or the options requested less than the pages
        return status
    if status == 0:
        if page.stat().st_mtime_ns == before:
            print("Nothing to be done: nothing has changed since the last build.")
            if not page.with_name("models").exists():  # a language model may have been fetched since
                from .stage import put_model  # seconds, as it loads torch

                put_model(page.parent)
        print(f"{reproduced.read_text(encoding='utf-8')}.")
        print(f"The book: {page.as_uri()}\n`make serve PROFILE={args.profile}` shows it in a local server.")
        return status
    if gone := sorted(map(str, read - files_read())):
        # Chapters report their own failures. Snakemake would report a missing file, but runs with --quiet.
        print(
            f"Removed while the book was built: {', '.join(gone)}. The same command goes on from here.",
            file=sys.stderr,
        )
    if page.exists():
        print(f"The pages in {page.parent} are still those of an earlier build.", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
