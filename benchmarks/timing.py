"""What every benchmark does alike: time ways of doing the same in turn, and record the table for the book."""

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
    """A call, and how many of what is counted it makes."""

    count: int
    work: Callable[[], object]

    def per_second(self) -> float:
        """How many per second of this process's own time, which is not that of its neighbours."""
        start = time.process_time()
        self.work()
        return self.count / (time.process_time() - start)


def compared(what: str, ours: Way, others: Mapping[str, Way], rounds: int = 5) -> Line:
    """One line of a table: how many per second each way makes, and how many times the others ours does.

    All take turns, so that a machine that slows down slows all of them, and the best turn of each counts:
    what else a machine does can only take time.
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
    """What makes so many more steps of a model by Adam, as `fit` does; `losses` gets theirs."""
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
    """A Chromium of its own (`$CHROMIUM`, or /usr/bin/chromium), which lets go of all memory at its end."""
    from playwright.sync_api import sync_playwright  # a machine of the other benchmarks may have no browser

    with sync_playwright() as playwright:
        path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--headless", "--no-sandbox"])
        yield browser
        browser.close()


def common_options(description: str, original: str = "") -> argparse.ArgumentParser:
    """The options that every benchmark has; `original` names the code that can be timed beside ours."""
    kept = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=kept)
    parser.add_argument("--record", action="store_true", help="write the tables of the book's page too")
    if original:
        parser.add_argument("--original", type=Path, metavar="FOLDER", help=f"of the code of {original}")
    return parser


def shown(value: str | float) -> str:
    """A number to three significant digits, without exponent; words as they are."""
    if isinstance(value, str):
        return value
    return np.format_float_positional(value, precision=3, unique=False, fractional=False, trim="-")


def report(name: str, lines: Sequence[Line], record: bool) -> None:
    """Print a table, and, to `record` it, write book/performance/<name>.csv."""
    table = pd.DataFrame([{column: shown(value) for column, value in line.items()} for line in lines])
    print(table.to_string(index=False))
    if record:
        write_table(table, name)
        write_machine(name)


def write_table(table: pd.DataFrame, name: str, folder: Path = PAGES) -> None:
    """One CSV of the book's page on performance."""
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / f"{name}.csv", index=False)


def write_machine(name: str, device: str = "cpu", threads: int | None = None, folder: Path = PAGES) -> None:
    """Where, with what and when the benchmark `name` ran: its line of machine.csv."""
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
