"""The leaderboard: the methods of the library, and the entries in `book/leaderboard`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attnlib.attribution.registry import METHODS
from attnlib.benchmarking.entering import SEEDS
from attnlib.benchmarking.metrics import metric_table, published_metrics
from attnlib.benchmarking.population import POPULATION
from attnlib.benchmarking.questions import TRUTHS
from attnlib.benchmarking.scoring import published, summary
from attnlib.stats import with_interval

ENTRIES = Path(__file__).parents[1] / "leaderboard"


def leaderboard(_: Path) -> str:
    """A table with a row per method, sorted by *reads*, the best first."""
    rows = sorted(_rows(), key=lambda row: -row["reads"]["value"])
    lines = ["| rank | method | from | reads | causes |", "|---|---|---|---|---|"]
    for rank, row in enumerate(rows, 1):
        scores = " | ".join(
            with_interval(row[truth]).replace(", ", ",\N{NO-BREAK SPACE}") for truth in TRUTHS
        )
        lines.append(f"| {rank} | {row['method']} | {row['from']} | {scores} |")
    return "\n".join(lines)


def metrics(_: Path) -> str:
    """A table of the recorded faithfulness metrics, sorted by *causes*, the best first."""
    said: dict[str, dict[str, str]] = {}
    for row in metric_table(published_metrics()).to_dict("records"):  # rows by causes come first
        said.setdefault(row["metric"], {})[row["truth"]] = with_interval(row)
    lines = [f"| {name} | {each['reads']} | {each['causes']} |" for name, each in said.items()]
    return "\n".join(["| metric | reads | causes |", "|---|---|---|", *lines])


def _rows() -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    own = summary(published(SEEDS).astype({"method": str, "truth": str, "sign": str}))
    for each in own[own["sign"] == "as given"].to_dict("records"):
        found.setdefault(str(each["method"]), {"from": "attnlib"})[str(each["truth"])] = each
    for path in sorted(ENTRIES.glob("*.json")):
        entry = json.loads(path.read_text("utf-8"))
        if "method" not in entry:
            continue
        if entry["population"] != POPULATION or entry["seeds"] != f"{SEEDS.start}:{SEEDS.stop}":
            raise ValueError(
                f"{path.name} must be about {POPULATION}, seeds {SEEDS.start}:{SEEDS.stop}; got "
                f"{entry['population']}, seeds {entry['seeds']}: run attnlib benchmark without --seeds"
            )
        whence = "attnlib" if entry["method"] in METHODS else path.stem
        row = found.setdefault(entry["method"], {"from": whence})
        row |= {each["truth"]: each for each in entry["summary"] if each["sign"] == "as given"}
    return [{"method": name, **row} for name, row in found.items()]
