"""The state of a training run, as tensors and JSON: whose it is, and how to go on from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.files import CheckpointError
from attnlib.models.saving import config_of
from attnlib.training.keeping import Foreign, load_own
from attnlib.training.plan import History


def identity(model: nn.Module) -> dict[str, Any]:
    """What makes two models the same architecture: class, settings, and the shape of every weight."""
    shapes = {f"shape of {name}": list(weight.shape) for name, weight in model.state_dict().items()}
    return {"class": type(model).__name__, **config_of(model), **shapes}


def check_same(path: Path, there: dict[str, Any], here: dict[str, Any], what: str) -> None:
    """Refuse to go on from the checkpoint at `path` when its settings `there` differ from those `here`.

    Raises:
        Foreign: names every setting that differs, with both values.
    """
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    if names:
        listed = "; ".join(
            f"{name} is {there.get(name)!r} there, {here.get(name)!r} here" for name in names[:5]
        )
        more = f"; and {len(names) - 5} more" if len(names) > 5 else ""
        raise Foreign(
            f"{path} belongs to another run: in its {what}, {listed}{more}. Go back to those settings, train "
            f"in another folder, or delete {path.parent} to start afresh."
        )


def read(
    last: Path, best: Path, about: dict[str, Any], history: History
) -> tuple[dict[str, Tensor] | None, dict[str, Any], dict[str, Tensor] | None] | None:
    """What two files hold of a run: its state, the header of the newest, its best weights.

    A finished run has no state any more, and its `best` says it all.

    Args:
        last: file of the state.
        best: file of the best weights.
        about: whose they have to be: `run`, `plan` and `model` of their headers.
        history: an empty one, which knows what is best.

    Returns:
        `None` if there are no such files. A `best` that is older than `last` says is mended: a run was killed
        between writing the two.

    Raises:
        CheckpointError: one is damaged or missing.
        Foreign: the newest is of another run.
    """
    weights, wrong = None, None
    if best.exists():
        try:
            weights, header = _of_run(best, "best", about)
            if header["finished"]:
                return None, header, weights
            best_is_of = header["step"]
        except CheckpointError as error:
            wrong = error
    if not last.exists():
        if best.exists():
            raise wrong or CheckpointError(f"{last} is missing")
        return None
    state, header = _of_run(last, "last", about)
    step = History(header["rows"], history.metric, history.higher_is_better).best_step
    if step is None:
        return state, header, None
    if weights is None or best_is_of != step:
        if step != header["step"]:
            raise wrong or CheckpointError(f"{best} is missing, or not of step {step}, the best of this run")
        weights = {name: value.clone() for name, value in _under(state, "model/").items()}
        best.unlink(missing_ok=True)
    return state, header, weights


def _of_run(path: Path, kind: str, about: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, header = load_own(path, None, kind=kind)
    check_same(path, header["plan"], about["plan"], "plan")
    check_same(path, header["model"], about["model"], "model")
    if header["run"] != about["run"]:
        raise Foreign(f"{path} is of another run")
    return tensors, header


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
