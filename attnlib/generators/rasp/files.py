"""Languages of a reader's own, from a Python file."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlib.generators.rasp.definitions import LANGUAGES, Definition


@dataclass(frozen=True)
class FromFile(Definition):
    """A language that a file defines; other processes read it from there.

    Attributes:
        file: the file.
    """

    file: str = ""

    def __reduce__(self) -> Any:
        """By file and name."""
        return _read, (self.file, self.name)


def definitions_in(file: Path) -> dict[str, Definition]:
    """The languages that a Python file defines, by their names.

    The file is run, as `python file` would: name only files that you trust.

    Args:
        file: with one `Definition` or more at its top level, under any variable names.

    Raises:
        ValueError: there is no such file, it fails, it defines no language, or two of one name, or one with
            a name that is taken, or that could not be a file's.

    Example of such a file::

        from attnlib.generators import rasp

        first = rasp.Definition("first", "the first symbol", lambda s: s.symbols[:, :1].expand_as(s.symbols))
    """
    if not file.is_file():
        raise ValueError(f"language_file should be a Python file that defines a language; there is no {file}")
    try:
        values = runpy.run_path(str(file)).values()
    except Exception as error:
        raise ValueError(
            f"language_file {file} fails when it is run: {type(error).__name__}: {error}"
        ) from error
    found = list({id(value): value for value in values if isinstance(value, Definition)}.values())
    found = [value for value in found if LANGUAGES.get(value.name) is not value]  # those it imports
    if not found:
        raise ValueError(
            f"language_file {file} defines no attnlib.generators.rasp.Definition at its top level"
        )
    names = [definition.name for definition in found]
    for name in names:
        if not name.isidentifier() or name in LANGUAGES or names.count(name) > 1:
            raise ValueError(
                f"language_file {file} should give each language a name of its own, of letters, digits "
                f"and _; got {name!r}"
            )
    where = str(file.resolve())
    return {definition.name: FromFile(**vars(definition), file=where) for definition in found}


def _read(file: str, name: str) -> Definition:
    return definitions_in(Path(file))[name]
