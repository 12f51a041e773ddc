"""`python -m tests.faults.building`: what a build of the book says of planted faults, without any test.

A fault is planted in a copy of the project, and the chapters whose smoke run comes to its line are executed,
the quickest first, until one stops or leaves a number that is not the one recorded in `results/smoke`. Faults
are asked in an order that was drawn, so that the first of them are a sample of all; every answer is a row of
`book/faults_built.csv`, and what was asked before is kept.
"""

import argparse
import ast
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import coverage
import pandas as pd

from book.chapters.records.reproduced import SAME, reproduced
from book.chapters.records.runs import RECORDED, SMOKE, read_all
from book.front.faults import BUILT

from .planting import DRAWN, ERRED, LIMIT, ROOT, Fault, faults, lent_copies, planted

COLUMNS = ["fault", "room", "asked", "chapter", "said", "seconds"]

STARTS = "import coverage\n\ncoverage.process_startup()\n"
"""What Python runs first, under the name sitecustomize, in each process of a run that is watched."""

Lines = dict[str, set[int]]
"""By file, from the root: those that were run."""


def chapters() -> list[str]:
    """Those with a record of their smoke run, the quickest first."""
    recorded = read_all(RECORDED / SMOKE).items()
    return [name for _, name in sorted((told["seconds"], name) for (name, _), (_, told) in recorded)]


def drawn(seed: int = 0) -> list[Fault]:
    """All faults of the code, in an order that was drawn."""
    every = faults(ERRED, DRAWN)
    return random.Random(seed).sample(every, len(every))


def said_by(name: str, copy: Path, watch: dict[str, str] | None = None) -> str:
    """What a chapter's smoke run says, with nothing kept from an earlier one; "" if all is as recorded."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        command = [
            sys.executable,
            "-m",
            "book.pipeline.execute",
            f"notebooks/{name}.ipynb",
            str(out / "out.ipynb"),
        ]
        command += ["--parameters", f"notebooks/profiles/{name}/{SMOKE}.yaml", "--run", str(out / "run.json")]
        command += ["--results", str(out / "results" / name), "--log", str(out / "log.txt")]
        own = {"PYTHONPATH": str(copy), "ATTNLIB_CACHE": str(out / "cache"), "OMP_NUM_THREADS": "1"}
        environment = os.environ | own | (watch or {})
        try:
            done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return f"no end after {LIMIT} seconds"
        if done.returncode:
            return "stops"
        try:
            found = reproduced(out / "results", RECORDED / SMOKE).query(f"notebook == {name!r}")
        except ValueError:  # a record that is not whole: a build stops there, too
            return "stops where it is compared"
    moved = (~found["verdict"].isin(SAME)).sum()
    return f"{moved} of {len(found)} numbers differ" if moved else ""


def lines_run(name: str, copy: Path) -> Lines:
    """Which lines of the code a chapter's smoke run comes to.

    Raises:
        RuntimeError: a number is another one, though no fault is planted.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "settings.ini")
        settings.write_text(
            f"[run]\nparallel = true\ndata_file = {folder}/lines\nsource = {copy}/attnlib,{copy}/book\n"
        )
        Path(folder, "sitecustomize.py").write_text(STARTS)
        watch = {"PYTHONPATH": f"{folder}:{copy}", "COVERAGE_PROCESS_START": str(settings)}
        if said := said_by(name, copy, watch):
            raise RuntimeError(f"{name} without a fault: {said}")
        watched = coverage.Coverage(data_file=f"{folder}/lines", config_file=False)
        watched.combine([folder])
        data = watched.get_data()
        return {
            str(Path(file).relative_to(copy)): set(data.lines(file) or ()) for file in data.measured_files()
        }


def lines_of(fault: Fault) -> set[int]:
    """The lines of the statement that a fault is in; of one with a body, those before it."""
    text = (ROOT / fault.file).read_text()
    line = text[: text.index(fault.old)].count("\n") + 1
    last = line + fault.old.rstrip("\n").count("\n")
    around = [
        each
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.stmt) and each.lineno <= line <= each.end_lineno
    ]
    if not around:
        return set(range(line, last + 1))
    inner = max(around, key=lambda each: each.lineno)
    body = getattr(inner, "body", None)
    end = body[0].lineno - 1 if body else inner.end_lineno
    return set(range(inner.lineno, max(end, inner.lineno, last) + 1))


def in_order(fault: Fault, run: dict[str, Lines]) -> list[str]:
    """The chapters that come to a fault: its own, then the quickest."""
    its = lines_of(fault)
    met = [name for name, lines in run.items() if its & lines.get(fault.file, set())]
    return sorted(met, key=lambda name: not (ROOT / fault.file).with_name(f"{name}.py").exists())


def noticed_by(fault: Fault, copy: Path, asked: list[str]) -> tuple[str, str]:
    """Which of some chapters is the first whose smoke run shows the fault, and how; twice "" if none does."""
    with planted(fault, copy):
        for name in asked:
            if said := said_by(name, copy):
                return name, said
    return "", ""


def main() -> None:
    """Ask, and write a row after each fault."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.building", description="Plant faults; what does a build say?"
    )
    parser.add_argument(
        "--faults", type=int, default=60, help="how many, of those in the order that was drawn"
    )
    parser.add_argument("--cores", type=int, default=2, help="how many at once")
    options = parser.parse_args()
    kept = pd.read_csv(BUILT, keep_default_na=False) if BUILT.exists() else pd.DataFrame(columns=COLUMNS)
    rows = {row["fault"]: row for row in kept.to_dict("records")}
    order, names = drawn(), chapters()
    wanted = order[: options.faults]

    with lent_copies(options.cores) as lent, ThreadPoolExecutor(options.cores) as pool:

        def watch(name: str) -> Lines:
            with lent() as copy:
                return lines_run(name, copy)

        def ask(fault: Fault) -> None:
            asked = in_order(fault, run)
            with lent() as copy:
                start = time.monotonic()
                chapter, said = noticed_by(fault, copy, asked)
            told = fault.name, fault.room, len(asked), chapter, said, round(time.monotonic() - start)
            rows[fault.name] = dict(zip(COLUMNS, told, strict=True))
            table = pd.DataFrame([rows[each.name] for each in order if each.name in rows], columns=COLUMNS)
            table.to_csv(BUILT, index=False)
            print(f"{len(rows)}  {fault.name}: {chapter} {said or 'NOT NOTICED'}", flush=True)

        run = dict(zip(names, pool.map(watch, names), strict=True))
        list(pool.map(ask, [each for each in wanted if each.name not in rows]))
    missed = sum(not rows[each.name]["said"] for each in wanted)
    print(f"{len(wanted) - missed} of {len(wanted)} faults noticed; {BUILT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
