"""Paths, folders and whole files; errors are one line that names the path."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import platformdirs


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, cannot be trusted, or belongs to another run."""


@contextlib.contextmanager
def in_words(path: Path) -> Iterator[None]:
    """Turn an `OSError` in a `with` block into a `CheckpointError` of one line that names the path."""
    try:
        yield
    except OSError as error:
        place = Path(error.filename or path)
        raise CheckpointError(
            f"{place} cannot be used ({error.strerror or error}). "
            "Mend that, or move away what is there, and make the same call again."
        ) from error


def expanded(name: str | Path) -> Path:
    """A path with `~` and `~user` replaced by home folders; unchanged if there is no such home folder."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def pasteable(path: Path) -> str:
    """A path to paste into a shell: absolute, quoted, with the home folder written as `~`."""
    home, path = expanded("~"), path.absolute()
    if path != home and path.is_relative_to(home):
        return f"~/{shlex.quote(str(path.relative_to(home)))}"
    return shlex.quote(str(path))


def cache_folder() -> Path:
    """The folder for files that can be made again: `$ATTNLIB_CACHE`, or else the system's cache folder."""
    return Path(os.environ.get("ATTNLIB_CACHE") or platformdirs.user_cache_path("attnlib"))


def make_folder(folder: Path) -> None:
    """Make a folder and its parents if they are missing; a `CheckpointError` if the system refuses."""
    with in_words(folder):
        folder.mkdir(parents=True, exist_ok=True)


_SCRATCH: list[tempfile.TemporaryDirectory] = []


def scratch_folder() -> Path:
    """A new temporary folder, deleted when the process ends."""
    _SCRATCH.append(tempfile.TemporaryDirectory())
    return Path(_SCRATCH[-1].name)


def content(path: Path) -> bytes:
    """The content of a file; an `OSError` for a pipe or a device."""
    check_regular_file(path)
    return path.read_bytes()


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file; an `OSError` for a pipe or a device."""
    check_regular_file(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def has_sha256(path: Path, sha256: str) -> bool:
    """Whether `path` is a readable file with this SHA-256."""
    try:
        return sha256_of(path) == sha256
    except OSError:
        return False


def check_regular_file(path: Path) -> None:
    """Raise an `OSError` for a pipe, where reading may block, and a device, which may have no end."""
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise OSError(errno.EINVAL, "A pipe or a device, not a file", str(path))
