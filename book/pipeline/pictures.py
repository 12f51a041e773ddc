"""Write every captioned figure and table of a notebook that was run into files.

`python -m book.pipeline.pictures OUT.ipynb FOLDER`

A figure becomes NAME.svg, and NAME.dark.svg for dark pages. Its numbers, or those of a table, become
NAME.csv, or NAME.npz if they are attention. The pages refer to the figure or table by NAME.
"""

import argparse
import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat

from attnlib.files import CheckpointError, write_atomically
from attnlib.plots.captions import SAID
from attnlib.plots.drawing import CSV, DARK, NPZ

ENDS = {"image/svg+xml": ".svg", DARK: ".dark.svg", CSV: ".csv", NPZ: ".npz"}


def pictures(notebook: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the name and the content of each file."""
    try:
        cells = nbformat.read(notebook, as_version=4).cells
    except (nbformat.ValidationError, AttributeError) as error:  # JSON, but of something else
        raise nbformat.reader.NotJSONError(f"it is no notebook ({error})") from error
    for cell in cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            name = json.loads(data.get(SAID, "{}")).get("name")
            for kind in ENDS.keys() & data.keys() if name else ():
                yield name + ENDS[kind], base64.b64decode(data[kind]) if kind == NPZ else data[kind].encode()


def main() -> None:
    """Write the files, and say how many there are."""
    parser = argparse.ArgumentParser(prog="python -m book.pipeline.pictures", description=__doc__)
    parser.add_argument("notebook", type=Path, help="a notebook that papermill, or make book, has run")
    parser.add_argument("folder", type=Path, help="where the files are to be")
    chosen = parser.parse_args()
    try:
        found = dict(pictures(chosen.notebook))
        chosen.folder.mkdir(parents=True, exist_ok=True)
        for name, content in found.items():
            write_atomically(chosen.folder / name, content)
    except (OSError, CheckpointError, nbformat.reader.NotJSONError) as error:
        sys.exit(f"{chosen.notebook} cannot be read, or {chosen.folder} not be written to: {error}")
    if not found:
        sys.exit(f"{chosen.notebook} holds no captioned figure: run it first, by papermill or make book.")
    names = {name.partition(".")[0] for name in found}
    print(f"{len(found)} files of {len(names)} figures and tables: {chosen.folder}")


if __name__ == "__main__":
    main()
