"""`python -m book.pipeline quick --cores 2`: run the Snakefile for one profile; say where the page is."""

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from filelock import AcquireReturnProxy, FileLock, Timeout

from attnlib.places import CheckpointError, make_folder

PROFILES = ("smoke", "quick", "paper")


def command_line(description: str) -> argparse.ArgumentParser:
    """A parser of the options that a build and a sweep share; Snakemake takes all others."""
    parser = argparse.ArgumentParser(description=description, epilog="Other options are Snakemake's.")
    parser.add_argument("--cores", type=cores, default=2, help="notebooks run side by side")
    parser.add_argument("--config", nargs="*", default=[], help="Snakemake's own, such as minutes=120")
    return parser


def cores(text: str) -> int:
    """A number of cores, read from the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more; got {text}")
    return int(text)


def is_dry(options: list[str]) -> bool:
    """Whether Snakemake is only to say what it would do: -n, also among other letters, as in -np."""
    return any(re.fullmatch(r"-[a-zA-Z]*n[a-zA-Z]*|--dry-?run", option) for option in options)


def build_lock() -> AcquireReturnProxy:
    """Hold a lock that one build of this checkout has at a time; waits for another that has it.

    Snakemake's own lock outlives a killed run, and the next run then needs `--unlock`. The operating system
    releases this one when the process that holds it ends.
    """
    make_folder(Path("build"))
    lock = FileLock("build/.lock")
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        print("Another build is running here; waiting for it to end.", flush=True)
        return lock.acquire()


def make(targets: Iterable[str], options: argparse.Namespace, more: list[str], config: str = "") -> int:
    """Have Snakemake make some files, as many as can be made; returns its exit status."""
    from snakemake.cli import main as snakemake  # a second

    words = ["--cores", str(options.cores), "--rerun-incomplete", "--nolock", "--keep-going", *more]
    try:
        snakemake([*targets, *words, "--config", *filter(None, [config]), *options.config])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def main() -> int:
    """Build one profile of the book in the current folder; returns the exit status."""
    parser = command_line("Execute the chapters and render the book.")
    parser.add_argument("profile", choices=PROFILES)
    args, extra = parser.parse_known_args()
    if extra and not extra[0].startswith("-"):
        parser.error(f"after the profile come options, as Snakemake takes them; got {extra[0]!r}")
    try:
        with build_lock():
            return build(args, extra)
    except CheckpointError as error:
        sys.exit(str(error))


def build(args: argparse.Namespace, extra: list[str]) -> int:
    """Build the profile, and say how it went."""
    page = Path(f"build/{args.profile}/html/index.html").resolve()
    reproduced = page.parents[1] / "reproduced.txt"  # marks the pages as complete
    if not is_dry(extra) and not page.exists():
        reproduced.unlink(missing_ok=True)
    before = page.stat().st_mtime_ns if page.exists() else None
    target = f"build/{args.profile}/reproduced.txt"
    status = make([target], args, ["--quiet", "all", *extra], f"profile={args.profile}")
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
    again = f"make book PROFILE={args.profile} FLAGS=-n"
    print(f"`{again}` says what is left to be done, or what stands in the way.", file=sys.stderr)
    if page.exists():
        print(f"The pages in {page.parent} are still those of an earlier build.", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
