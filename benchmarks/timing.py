"""Shared code of the benchmarks: time several implementations in turn, and record tables for the book."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import nn

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGES = Path(__file__).parents[1] / "book" / "performance"
PLAIN, ORIGINAL = "the plain way", "the original"
Line = dict[str, str | float]


@dataclass(frozen=True)
class Way:
    """An implementation: a call to time, and the number of units (steps, samples) that one call makes."""

    count: int
    work: Callable[[], object]

    def per_second(self) -> float:
        """Units per second of this process's processor time, which other programs do not use up."""
        start = time.process_time()
        self.work()
        return self.count / (time.process_time() - start)


def compared(what: str, ours: Way, others: Mapping[str, Way], rounds: int = 5) -> Line:
    """A row of a table: units per second of each implementation, and the ratios of ours to the others.

    The implementations take turns, so that a machine that slows down slows all of them. The best turn of each
    counts, since other programs can only add time.
    """
    ways = {"": ours} | others
    turns = [{name: way.per_second() for name, way in ways.items()} for _ in range(rounds)]
    best = {name: max(turn[name] for turn in turns) for name in ways}
    line: Line = {"what": what, "per second": best[""]}
    for name in others:
        line |= {f"{name}, per second": best[name], f"times {name}": best[""] / best[name]}
    return line


def training(
    model: nn.Module,
    batch_at: Callable[[int], Any],
    loss: Callable[..., Any],
    rate: float,
    *,
    bf16: bool = False,
    clip: float = 0.0,
    losses: list[float] | None = None,
) -> Callable[[int], None]:
    """A function that makes a number of further steps with Adam, as `fit` does, and appends to `losses`."""
    optimizer, steps = torch.optim.Adam(model.parameters(), rate, fused=True), count()

    def train(more: int) -> None:
        for _ in range(more):
            with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
                found = loss(model, batch_at(next(steps)))["loss"]
            optimizer.zero_grad()
            found.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            if losses is not None:
                losses.append(found.item())

    return train


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A fresh Chromium (`$CHROMIUM`, or /usr/bin/chromium), which is closed at the end of the block."""
    from playwright.sync_api import sync_playwright  # other benchmarks do not need a browser

    with sync_playwright() as playwright:
        path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--headless", "--no-sandbox"])
        yield browser
        browser.close()


def common_options(description: str, original: str = "") -> argparse.ArgumentParser:
    """A parser with the options of every benchmark; `original` names code that can be timed beside ours."""
    kept = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=kept)
    parser.add_argument("--record", action="store_true", help="write the tables of the book's page too")
    if original:
        parser.add_argument("--original", type=Path, metavar="FOLDER", help=f"of the code of {original}")
    return parser


def shown(value: str | float) -> str:
    """A number to three significant digits, without exponent; a text is returned unchanged."""
    if isinstance(value, str):
        return value
    return np.format_float_positional(value, precision=3, unique=False, fractional=False, trim="-")


def report(name: str, lines: Sequence[Line], record: bool) -> None:
    """Print a table and, if `record` is true, write it to book/performance/<name>.csv."""
    table = pd.DataFrame([{column: shown(value) for column, value in line.items()} for line in lines])
    print(table.to_string(index=False))
    if record:
        write_table(table, name)
        write_machine(name)


def write_table(table: pd.DataFrame, name: str, folder: Path = PAGES) -> None:
    """Write a table as a CSV file for the book's page on performance."""
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / f"{name}.csv", index=False)


def write_machine(name: str, device: str = "cpu", threads: int | None = None, folder: Path = PAGES) -> None:
    """Write the line of machine.csv that says on what device, with what packages and when `name` ran."""
    threads = threads or torch.get_num_threads()
    processor = f"{threads} CPU thread{'s' * (threads > 1)}"
    line = {
        "measured": name.replace("_", " "),
        "on": torch.cuda.get_device_name() if device == "cuda" else processor,
        "with": ", ".join(f"{package} {version(package)}" for package in ("torch", "transformers")),
        "date": str(date.today()),
    }
    path = folder / "machine.csv"
    table = pd.read_csv(path, dtype=str) if path.exists() else pd.DataFrame(columns=list(line))
    others = table[table["measured"] != line["measured"]]
    write_table(pd.concat([others, pd.DataFrame([line])]), "machine", folder)
