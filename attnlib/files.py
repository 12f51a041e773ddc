"""Files that survive kills, full disks and flipped bits.

Tensors go into one safetensors file, with a JSON object in the file's header for all that is not a
tensor. Nothing is pickled, so opening a stranger's file cannot run code. Files are written beside their place
and moved there whole; a SHA-256 over the tensors and the JSON tells when one was damaged later.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

FORMAT = 1
"""Rises when an older file can no longer be read."""


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, cannot be trusted, or belongs to another run."""


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path`: whoever reads sees the old file or the new one, never half of one.

    Raises:
        CheckpointError: the system refused (disk full, quota, rights); what was at `path` is as it was, and
            the temporary file is gone.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # before the move: a crash must not leave a name without its bytes
        os.replace(temporary, path)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise CheckpointError(
            f"{path} could not be written ({error.strerror or error}; {len(data):,} bytes). "
            f"{'The previous version is intact. ' if path.exists() else ''}"
            f"{'Free some space' if full else 'Mend that'} and make the same call again."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)  # already gone if all went well


def save_tensors(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Write tensors (of any device) and a JSON-able header to `path`, atomically and with a checksum.

    Raises:
        CheckpointError: see `write_atomically`.
    """
    # Cloned because tied weights share memory, which the format refuses.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps({"format": FORMAT, **header})
    metadata = {"attnlib": text, "sha256": _checksum(tensors, text)}
    write_atomically(path, safetensors.torch.save(tensors, metadata))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read back what `save_tensors` wrote: the tensors (on the CPU) and the header.

    Raises:
        CheckpointError: the file is cut short, damaged, or of another program; the message says which file.
        FileNotFoundError: there is no such file.
    """
    data = path.read_bytes()
    try:
        tensors = safetensors.torch.load(data)
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length])["__metadata__"]
        text, checksum = metadata["attnlib"], metadata["sha256"]
    except Exception as error:  # a damaged file can make its reader raise anything
        reason = f"it is cut short, damaged, or not ours ({type(error).__name__}: {error})"
        raise _unreadable(path, reason) from error
    if _checksum(tensors, text) != checksum:
        raise _unreadable(path, "its content does not match its checksum")
    header = json.loads(text)
    if header["format"] != FORMAT:
        raise _unreadable(path, f"it has format {header['format']}, and this version reads {FORMAT}")
    return tensors, header


def _unreadable(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path} cannot be used: {reason}. Delete this file to start afresh.")


def _checksum(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
