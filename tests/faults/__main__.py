"""`make faults`: plants every fault of the table, one at a time, and writes which test noticed it.

What was asked before, of a fault of the same name, is kept, so that a run that is killed goes on;
`--again` asks all.
"""

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pandas as pd

from book.front.faults import FOUND

from .planting import ROOT, Fault, asked, copied, faults, noticed_by

COLUMNS = ["fault", "room", "noticed_by", "seconds"]


def main() -> None:
    """Ask, and write a row after each fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Plant faults; who notices?")
    parser.add_argument("--again", action="store_true", help="ask also what was asked before")
    parser.add_argument("--cores", type=int, default=2, help="how many faults at once")
    options = parser.parse_args()
    known = faults()
    kept = pd.read_csv(FOUND, keep_default_na=False) if FOUND.exists() else pd.DataFrame(columns=COLUMNS)
    kept = kept[kept["fault"].isin([fault.name for fault in known] if not options.again else [])]
    rows = kept.to_dict("records")
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.cores):
            copies.put(copied(Path(folder) / str(number)))
        left = [fault for fault in known if fault.name not in set(kept["fault"])]
        files = sorted({file for fault in left for file in fault.tests})
        if left and (clean := asked(Path(folder) / "0", "-n", str(options.cores), *files)).returncode:
            raise SystemExit(f"Without a fault, these tests should pass:\n{clean.stdout[-3000:]}")

        def ask(fault: Fault) -> None:
            copy, start = copies.get(), time.monotonic()
            try:
                by = noticed_by(fault, copy)
            finally:
                copies.put(copy)
            rows.append(
                dict(zip(COLUMNS, (fault.name, fault.room, by, round(time.monotonic() - start)), strict=True))
            )
            order = {each.name: place for place, each in enumerate(known)}
            table = pd.DataFrame(sorted(rows, key=lambda row: order[row["fault"]]), columns=COLUMNS)
            table.to_csv(FOUND, index=False)
            print(f"{len(rows)} of {len(known)}  {fault.name}: {by or 'NOT NOTICED'}", flush=True)

        with ThreadPoolExecutor(options.cores) as pool:
            list(pool.map(ask, left))
    missed = sum(not row["noticed_by"] for row in rows)
    print(f"{len(rows) - missed} of {len(rows)} faults noticed; {FOUND.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
