"""Files that survive kills, full disks and flipped bits.

Tensors go into one safetensors file; a JSON object in the file's header holds everything that is not a
tensor. Nothing is pickled, so opening a stranger's file cannot run code. A file is written under a temporary
name and then moved to its path. A SHA-256 over the tensors and the JSON detects later damage, but only
accidental damage: whoever changes a file on purpose can also change the checksum. Trust what the header says
about the file's origin only if you trust the file's source.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from attnlib.places import CheckpointError as CheckpointError
from attnlib.places import cache_folder as cache_folder
from attnlib.places import content
from attnlib.places import replacing as replacing
from attnlib.places import write_atomically as write_atomically

FORMAT = 1
"""The version of the file format; increased when older files can no longer be read."""


def save_tensors(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Write tensors (of any device) and a JSON-able header as `replacing` does, with a checksum."""
    tensors = _separate({name: tensor.contiguous() for name, tensor in on_cpu(tensors).items()})
    text = json.dumps({"format": FORMAT, **header})
    metadata = {"attnlib": text, "sha256": _checksum(tensors, text)}
    with replacing(path, sum(tensor.nbytes for tensor in tensors.values())) as temporary:
        safetensors.torch.save_file(tensors, temporary, metadata)


def on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors, detached, on the CPU; those already there are not copied. Waits for each GPU only once."""
    found = {name: tensor.detach().to("cpu", non_blocking=True) for name, tensor in tensors.items()}
    for device in {tensor.device for tensor in tensors.values()} - {torch.device("cpu")}:
        torch.accelerator.synchronize(device)
    return found


def _separate(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors; views of larger ones, and those that share memory (tied weights), are cloned."""
    seen: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        whole = storage.nbytes() == tensor.nbytes and storage.data_ptr() not in seen
        seen.add(storage.data_ptr())
        apart[name] = tensor if whole else tensor.clone()
    return apart


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read back what `save_tensors` wrote: the tensors (on the CPU) and the header.

    Raises a `CheckpointError` if the file is damaged or not ours, a `FileNotFoundError` if it is missing.
    """
    try:
        data = content(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, f"it cannot be read ({error.strerror})") from error
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
    try:
        header = json.loads(text)
        written = header["format"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:  # intact, but of another program
        raise _unreadable(path, f"it has a header that is not ours ({error})") from error
    if written != FORMAT:
        raise _unreadable(path, f"it has format {written}, and this version reads {FORMAT}")
    return tensors, header


def _unreadable(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path} cannot be used: {reason}. What needs it is to be made again.")


def _checksum(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
