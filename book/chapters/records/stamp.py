"""Clear a record's mark "other code" by evidence: its numbers were found again.

A record is made once; code changes. Where a run of today's code gives the numbers of a record again, to
rounding, the record is as good as new, and committing the same numbers once more would say nothing. So only
its provenance is added to: `found again` says at which commit, of which code, and how many numbers.

```bash
make book PROFILE=smoke                                              # in a clean tree
python -m book.chapters.records.stamp --alike build/smoke/results
```

Other records of the chapter that were of the same code as one that was found again, to the last definition,
went the same ways with other parameters. Where they were not run again, `--alike` stamps these,
too, and names the run that stands for them: here that of the smoke profile, `results/smoke/`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnlib.files import CheckpointError
from book.chapters.records.code import code_hash
from book.chapters.records.reproduced import SAME, folders_of_records, summary, twins
from book.chapters.records.runs import RECORDED, files_of, read_all, write_provenance

FOUND_AGAIN = "found again"
"""The entry of a record's provenance that holds the stamps."""


def stamp(made: Path, recorded: Path = RECORDED, *, alike: bool = False) -> dict[tuple[str, str], str]:
    """Stamp the records whose numbers a build of today's code found again.

    Args:
        made: the build's folder of records, each from a clean tree.
        recorded: the records to stamp.
        alike: stamp records of the same code, too.

    Returns:
        What was said of each record that got a stamp, by notebook and run.

    Raises:
        ValueError: if a record is damaged; the message names the file.
    """
    theirs, places = read_all(recorded), files_of(recorded)
    said = {}
    compared = twins(made, recorded)
    not_run = {key: theirs[key] for key in theirs if compared[key][1] is None}
    for key, (table, origin) in compared.items():
        if key not in theirs or not (
            origin and _of_now(key[0], origin) and set(table["verdict"]) <= {*SAME, "new"}
        ):
            continue
        old = theirs[key][1]
        evidence = summary(table.assign(notebook=key[0], record=key[1]))[key]
        for other, why in _stamped(key, evidence, old, not_run if alike else {}):
            provenance = theirs[other][1]
            if origin["code"] in _codes(provenance):
                continue
            entry = {name: origin[name] for name in ("commit", "code", "processor", "recorded")} | {
                "numbers": why
            }
            provenance[FOUND_AGAIN] = [*provenance.get(FOUND_AGAIN, []), entry]
            write_provenance(places[other], provenance)
            said[other] = why
    return said


def _of_now(notebook: str, origin: Mapping[str, Any]) -> bool:
    """Whether a run was made by the code that is here, from a clean tree."""
    return bool(origin["clean"] and origin["code"] == code_hash(notebook))


def _stamped(
    key: tuple[str, str], evidence: str, old: Mapping[str, Any], candidates: Mapping[tuple[str, str], Any]
) -> Iterator[tuple[tuple[str, str], str]]:
    """The record that was found again, and those that were of its code; with what is said of each."""
    yield key, evidence
    for other, (_, provenance) in candidates.items():
        if other[0] == key[0] and _codes(provenance) & _codes(old):
            yield other, f"none; of the same code as {key[1]}: {evidence}"


def _codes(provenance: Mapping[str, Any]) -> set[str]:
    return {provenance["code"], *(each["code"] for each in provenance.get(FOUND_AGAIN, ()))}


def main() -> int:
    """Stamp records, and say which; returns the exit status."""
    parser = argparse.ArgumentParser(
        description="Clear the mark 'other code' of records that were found again."
    )
    parser.add_argument(
        "--alike", action="store_true", help="and records of the same code with other parameters"
    )
    args = folders_of_records(parser)
    try:
        said = stamp(args.made, args.recorded, alike=args.alike)
    except (ValueError, CheckpointError) as error:  # a damaged record, a full disk
        sys.exit(f"{error}\nWhat was stamped before stays so: the next call goes on from there.")
    print(*(f"{'/'.join(key)}: {why}" for key, why in said.items()), f"{len(said)} records stamped", sep="\n")
    if of_none := [
        notebook
        for (notebook, _), (_, origin) in read_all(args.made).items()
        if not _of_now(notebook, origin)
    ]:
        print(
            f"{len(of_none)} runs stamp nothing, since their code is not that which is here, or was not "
            f"committed: {', '.join(sorted(set(of_none)))}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
