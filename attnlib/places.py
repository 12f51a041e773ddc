"""Paths, folders and whole files; errors are one line that names the path."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shlex
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import platformdirs
from safetensors import SafetensorError


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


@contextlib.contextmanager
def replacing(path: Path, size: int) -> Iterator[Path]:
    """A temporary path to write to, which takes the place of `path` when the block ends without an error.

    A reader of `path` sees the old file or the new one, never a part of one. The new file has the permissions
    of the old one. If writing fails, the old file is unchanged, and a `CheckpointError` says that `size`
    bytes were to be written.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path.is_file() else None
        if mode is not None:
            temporary.touch(mode | stat.S_IWUSR)
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())  # before the move: a crash must not leave a name without its bytes
        if mode is not None:
            temporary.chmod(mode)
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or any(
            f"os error {number}" in reason for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        )
        raise CheckpointError(
            f"{path} could not be written ({reason}; {size:,} bytes). "
            f"{'The previous version is intact. ' if os.path.isfile(path) else ''}"
            f"{'Free some space' if full else 'Mend that'} and make the same call again."
        ) from error
    finally:
        with contextlib.suppress(OSError):  # already moved if all went well; or the folder is not writable
            temporary.unlink()


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` as `replacing` does, with the same errors."""
    with replacing(path, len(data)) as temporary:
        temporary.write_bytes(data)
