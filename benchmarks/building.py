"""Where the minutes of `make book` go: by the clock, chapter by chapter, and how many of them train models.

    make book && python benchmarks/building.py [--record]

It reads what a build with empty caches has left in build/<profile>, and measures nothing itself.
"""

from __future__ import annotations

import json
from pathlib import Path

from timing import Line, common_options, report

from book.sealing import read_sealed

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Read the runs of a build, and what their records say of training."""
    parser = common_options(__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build/quick", help="the folder of a build")
    options = parser.parse_args()
    runs = [json.loads(path.read_text()) for path in (options.build / "runs").glob("*.json")]
    if not runs:
        raise SystemExit(f"{options.build} holds no runs: `make book` first, or name a build with --build")
    lines: list[Line] = []
    for run in sorted(runs, key=lambda run: -run["wall_time_s"]):
        records = map(read_sealed, (options.build / "results" / run["notebook"]).glob("*.json"))
        trained = sum(record["seconds"] for record in records if record["steps"])
        seconds = {"seconds": run["wall_time_s"], "of training": trained}
        said = {name: f"{number:.0f}" for name, number in seconds.items()}
        lines.append({"chapter": run["notebook"].replace("_", " "), **said})
    total = {name: f"{sum(int(line[name]) for line in lines):,}" for name in ("seconds", "of training")}
    report("building", [*lines, {"chapter": "all", **total}], options.record)


if __name__ == "__main__":
    main()
