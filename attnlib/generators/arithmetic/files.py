"""Problems as text files in the format of Attention Lens: train.txt, val.txt, test.txt.

Each line holds one problem and an end mark: `12+34=46<EOS>`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from attnlib.checks import check
from attnlib.files import write_atomically
from attnlib.generators.arithmetic.problems import Problems
from attnlib.generators.arithmetic.splits import Splits
from attnlib.generators.arithmetic.task import Arithmetic
from attnlib.places import content, make_folder

END_MARK = "<EOS>"
_FILES = {"train": "train.txt", "valid": "val.txt", "test": "test.txt"}


def write_files(folder: str | Path, task: Arithmetic, splits: Splits) -> list[Path]:
    """Write the three files into a folder, which is made if need be.

    Returns:
        The files: train.txt, val.txt, test.txt.

    Raises:
        CheckpointError: a file could not be written; no file is left half-written.
    """
    folder = Path(folder)
    make_folder(folder)
    for split, name in _FILES.items():
        lines = [f"{text}{END_MARK}\n" for text in task.texts(getattr(splits, split))]
        write_atomically(folder / name, "".join(lines).encode())
    return [folder / name for name in _FILES.values()]


def read_files(folder: str | Path, task: Arithmetic) -> Splits:
    """Read the three files: ours, or the original's own with `arithmetic("+-", negative=False)`.

    The splits may overlap (see `Splits.seen`), but no two may be identical.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is empty, not UTF-8 text or identical to another; or a line is not a problem of the
            task, or its answer is wrong or missing (the message names the file and the line).
    """
    found = {split: _read(Path(folder) / name, task) for split, name in _FILES.items()}
    for one, other in itertools.combinations(found, 2):
        copied = task.texts(found[one]) == task.texts(found[other])
        check(not copied, f"{_FILES[other]} must hold other problems than {_FILES[one]}", str(folder))
    return Splits(**found)


def read_or_write(folder: str | Path, task: Arithmetic, draw: Callable[[], Splits]) -> Splits:
    """Read the problems of a folder; if it is new or empty, first draw problems and write them there.

    Raises:
        FileExistsError: the folder holds none of the three files, but others; nothing is written.
        FileNotFoundError: the folder holds only some of the three files.
        ValueError: see `read_files`.
        CheckpointError: see `write_files`.
    """
    folder = Path(folder)
    if not any((folder / name).exists() for name in _FILES.values()):
        if folder.is_dir() and (others := sorted(path.name for path in folder.iterdir())):
            raise FileExistsError(f"it holds other files, such as {others[0]!r}: name a new or empty folder")
        write_files(folder, task, draw())
    return read_files(folder, task)


def _text(path: Path) -> str:
    try:
        return content(path).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8; {error}") from error


def _read(path: Path, task: Arithmetic) -> Problems:
    lines = [(number, line.strip()) for number, line in enumerate(_text(path).splitlines(), 1)]
    lines = [(number, line.removesuffix(END_MARK)) for number, line in lines if line]
    if not lines:
        raise ValueError(f"{path} holds no problem; a line should be like 12+34=46{END_MARK}")
    unanswered = next((line for line in lines if line[1].endswith("=")), None)
    if unanswered:
        raise ValueError(f"{path}, line {unanswered[0]}: {unanswered[1]!r} has no answer")
    try:
        return task.parse(*(text for _, text in lines))
    except ValueError:
        for number, text in lines:  # slow, so only after an error: find the line
            try:
                task.parse(text)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
        raise
