"""What became of the faults that were planted in the code and in the text: who noticed them."""

from pathlib import Path

import pandas as pd

from book.pipeline.stage import myst_table

FOUND = Path(__file__).parents[1] / "faults.csv"
"""Written by `make faults` (`tests/faults`): a row per fault, with the test that noticed it, or none."""

BUILT = FOUND.with_stem("faults_built")
"""Written by `tests.faults.building`: a row per fault, with what a smoke build said of it."""

IN_WORDS = "in words"
"""The kind of those that were planted in the text."""


def planted(stage: Path) -> str:
    """Faults of the code: the counts, those that none noticed, and a row per room, in MyST."""
    found = _found()
    found = found[found["kind"] != IN_WORDS]
    columns = pd.get_dummies(found["kind"]).assign(noticed=found["noticed"], own=found["of_room"])
    rooms = columns.groupby(found["room"]).sum()
    kinds = [str(name) for name in rooms if name not in ("noticed", "own")]
    table = myst_table(
        ["room", *kinds, "noticed", "by a test of the room"], [list(row) for row in rooms.itertuples()]
    )
    own = f", **{found['of_room'].sum()}** of them by a test of the same room"
    return f"{_said(found, 'faults', own)}\n\n{table}"


def built(stage: Path) -> str:
    """Faults of the code that were left to a build alone: the counts, and what it did not notice, in MyST."""
    found = pd.read_csv(BUILT, keep_default_na=False)
    seen = found["said"].ne("")
    missed, differ = found.loc[~seen, "fault"], found["said"].str.endswith("differ").sum()
    how = f"in {seen.sum() - differ} a chapter stops, in {differ} a number is another one"
    unreached = f"{found['asked'].eq(0).sum()} of the others stand where no chapter comes to at that profile"
    by_tests = found["fault"].map(_found().set_index("fault")["seconds"])
    sooner, seconds = (by_tests < found["seconds"])[seen].sum(), found["seconds"][seen].median()
    when = f"took {by_tests[seen].median():.0f} seconds, the build {seconds:.0f} (medians, beside other work)"
    listed = "\n".join(f"- {_as_code(name)}" for name in missed)
    return (
        f"Of **{len(found)}** faults, a smoke build noticed **{seen.sum()}**: {how}. {unreached}. "
        f"For what it noticed the tests {when}, and were sooner in {sooner}.\n\n"
        f":::{{dropdown}} The {len(missed)} that it did not notice\n{listed}\n:::"
    )


def contradicted(stage: Path) -> str:
    """Contradictions of the text: the counts, and those that none noticed, in MyST."""
    found = _found()
    return _said(found[found["kind"] == IN_WORDS], "contradictions")


def _found() -> pd.DataFrame:
    found = pd.read_csv(FOUND, keep_default_na=False)
    return found.assign(noticed=found["noticed_by"].ne(""))


def _said(found: pd.DataFrame, what: str, more: str = "") -> str:
    missed = "".join(f"\n- {_as_code(name)}" for name in found.loc[~found["noticed"], "fault"])
    said = f"Of **{len(found)}** {what}, the tests noticed **{found['noticed'].sum()}**{more}"
    return said + (f". Not noticed:\n{missed}" if missed else "; none was missed.")


def _as_code(name: str) -> str:
    """A fault by rule is called by its place and the change: code, as it is."""
    place, change, after = name.partition(": ")
    return f"{place}: `` {after} ``" if change and place.partition(",")[0].endswith(".py") else name
