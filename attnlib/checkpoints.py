"""Checkpoints that survive kills, full disks and flipped bits.

A checkpoint is one safetensors file: the tensors, and a JSON object in the file's header for all that is not
a tensor. Nothing is pickled, so opening a stranger's checkpoint cannot run code. Files are written beside
their place and moved there whole; a SHA-256 over the tensors and the JSON tells when one was damaged later.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

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


def config_of(model: nn.Module) -> dict[str, Any]:
    """A model's settings as JSON: its `config` (a dataclass, or Hugging Face's); empty if it has none."""
    config: Any = getattr(model, "config", None)
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        settings = dataclasses.asdict(config)
    else:
        settings = config.to_dict() if hasattr(config, "to_dict") else {}
    return as_json(settings)


def as_json(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings as they come back from a file: tuples as lists, what JSON does not know as text."""
    return json.loads(json.dumps(settings, default=str))


def identity(model: nn.Module) -> dict[str, Any]:
    """What makes two models the same architecture: class, settings, and the shape of every weight."""
    shapes = {f"shape of {name}": list(weight.shape) for name, weight in model.state_dict().items()}
    return {"class": type(model).__name__, **config_of(model), **shapes}


def check_same(path: Path, there: dict[str, Any], here: dict[str, Any], what: str) -> None:
    """Refuse to go on from the checkpoint at `path` when its settings `there` differ from those `here`.

    Raises:
        CheckpointError: names every setting that differs, with both values.
    """
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    if names:
        listed = "; ".join(
            f"{name} is {there.get(name)!r} there, {here.get(name)!r} here" for name in names[:5]
        )
        more = f"; and {len(names) - 5} more" if len(names) > 5 else ""
        raise CheckpointError(
            f"{path} belongs to another run: in its {what}, {listed}{more}. Go back to those settings, train "
            f"in another folder, or delete {path.parent} to start afresh."
        )


def training_state(
    model: nn.Module, optimizer: torch.optim.Optimizer, schedule: Any, device: torch.device
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All that the next training step depends on, apart from its data: tensors, and the rest as JSON.

    Covers weights and buffers, the optimizer's moments and groups, the schedule, and torch's random numbers.
    """
    tensors = {f"model/{name}": weight for name, weight in model.state_dict().items()}
    state = optimizer.state_dict()
    for index, values in state["state"].items():
        tensors |= {f"optimizer/{index}/{name}": value for name, value in values.items()}
    tensors["random/cpu"] = torch.get_rng_state()
    if device.type == "cuda":
        tensors["random/cuda"] = torch.cuda.get_rng_state(device)
    return tensors, {"groups": state["param_groups"], "schedule": schedule and schedule.state_dict()}


def restore_training_state(
    tensors: dict[str, Tensor],
    header: dict[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Any,
    device: torch.device,
) -> None:
    """The reverse of `training_state`, into objects made from the same plan."""
    model.load_state_dict(_under(tensors, "model/"))
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in _under(tensors, "optimizer/").items():
        index, key = name.split("/")
        state.setdefault(int(index), {})[key] = value.clone()
    groups = [{**group, "betas": tuple(group["betas"])} for group in header["groups"]]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    if schedule is not None:
        schedule.load_state_dict(header["schedule"])
    torch.set_rng_state(tensors["random/cpu"].clone())
    if device.type == "cuda" and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"].clone(), device)


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
