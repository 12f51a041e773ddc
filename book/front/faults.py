"""What became of the faults that were planted in the code: who noticed them."""

from pathlib import Path

import pandas as pd

from book.pipeline.stage import myst_table

FOUND = Path(__file__).parents[1] / "faults.csv"
"""Written by `make faults` (`tests/faults`): a row per fault, with the test that noticed it, or none."""


def planted(stage: Path) -> str:
    """A sentence with the counts, the faults that none noticed, and a row per room, in MyST."""
    found = pd.read_csv(FOUND, keep_default_na=False)
    noticed = found["noticed_by"].ne("")
    rooms = found.assign(noticed=noticed).groupby("room")["noticed"].agg(["size", "sum"])
    missed = "".join(f"\n- {name}" for name in found.loc[~noticed, "fault"])
    said = f"Of **{len(found)}** faults, the tests of the same room noticed **{noticed.sum()}**"
    said += f". Nobody noticed:\n{missed}" if missed else ", which is all of them."
    table = myst_table(["room", "planted", "noticed"], [list(row) for row in rooms.itertuples()])
    return f"{said}\n\n{table}"
