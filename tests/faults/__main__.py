"""`make faults`: plants every fault of the tables, one at a time, and writes which test noticed it.

What was asked before, of a fault of the same name, is kept, so that a run that is killed goes on;
`--again` asks all.
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

import pandas as pd

from book.front.faults import FOUND

from .planting import ROOT, TABLES, Fault, faults, is_of_room, lent_copies, noticed_by, pytest

COLUMNS = ["fault", "kind", "room", "noticed_by", "of_room", "seconds"]


def main() -> None:
    """Ask, and write a row after each fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Plant faults; who notices?")
    parser.add_argument("--again", action="store_true", help="ask also what was asked before")
    parser.add_argument("--cores", type=int, default=2, help="how many faults at once")
    options = parser.parse_args()
    kinds = {fault.name: kind for kind, table in TABLES.items() for fault in faults(table)}
    order = {name: place for place, name in enumerate(kinds)}
    kept = pd.read_csv(FOUND, keep_default_na=False) if FOUND.exists() else pd.DataFrame(columns=COLUMNS)
    rows = kept[kept["fault"].isin([] if options.again else kinds)].to_dict("records")
    left = [each for each in faults(*TABLES.values()) if each.name not in {row["fault"] for row in rows}]

    def write() -> None:
        table = pd.DataFrame(sorted(rows, key=lambda row: order[row["fault"]]), columns=COLUMNS)
        table.to_csv(FOUND, index=False)

    with lent_copies(options.cores) as lent:

        def ask(fault: Fault) -> None:
            with lent() as copy:
                start = time.monotonic()
                by = noticed_by(fault, copy)
            seconds = round(time.monotonic() - start)
            of_room = is_of_room(by, fault.room)
            rows.append(
                dict(
                    zip(
                        COLUMNS,
                        (fault.name, kinds[fault.name], fault.room, by, of_room, seconds),
                        strict=True,
                    )
                )
            )
            write()
            print(f"{len(rows)} of {len(kinds)}  {fault.name}: {by or 'NOT NOTICED'}", flush=True)

        with ThreadPoolExecutor(options.cores) as pool:
            list(pool.map(ask, left))
        asked = sorted({row["noticed_by"] for row in rows if "::" in row["noticed_by"]}) if left else []
        with lent() as copy:
            if asked and (clean := pytest(copy, "-n", str(options.cores), *asked)).returncode:
                raise SystemExit(f"Without a fault, these tests should pass:\n{clean.stdout[-3000:]}")
    missed = sum(not row["noticed_by"] for row in rows)
    print(f"{len(rows) - missed} of {len(rows)} faults noticed; {FOUND.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
