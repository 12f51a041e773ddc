"""Going back to the best weights: when, to what, and after a kill."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from attnlib.training import Plan, fit
from book.chapters.rasp.recipes import ResetToBest

STEPS, EVERY = 14, 2
PLAN = Plan(steps=STEPS, learning_rate=0.1, evaluate_every=EVERY, seed=0, device="cpu")
SCORES = [0.1, 0.5, 0.4, 0.5, 0.3, 0.2, 0.1]
"""Of evaluations at steps 2, 4, ...: the best is at 4."""


class Batch:
    """Something that can be moved to a device."""

    def to(self, device):
        return self


class Scores:
    """Scores as written down, by how often the run has been evaluated; a killed run is told where it was."""

    def __init__(self, before=0):
        self.left = iter(SCORES[before:])

    def __call__(self, model):
        return {"accuracy": next(self.left)}


def line():
    torch.manual_seed(0)
    return nn.Linear(3, 1)


def falling(model, batch):
    """A loss that moves the weights for ever."""
    return model.weight.sum()


def weights_by_step(folder, patience=None, plan=PLAN, before=0, stop_after=None):
    """The weights after every step of a run, with resets or without."""
    seen: dict[int, torch.Tensor] = {}

    def look(event):
        seen[event.step] = event.model.weight.detach().clone()
        if event.step == stop_after:
            raise RuntimeError("killed")

    hooks = [ResetToBest(patience, EVERY)] if patience else []
    model = line()
    fit(model, lambda step: Batch(), falling, plan, evaluate=Scores(before), folder=folder,
        hooks=[*hooks, look], progress=False)  # fmt: skip
    return seen


def test_the_best_weights_come_back_after_more_than_so_many_evaluations(tmp_path):
    plain, reset = weights_by_step(tmp_path / "plain"), weights_by_step(tmp_path / "reset", patience=1)
    # Best at step 4; not better at 6 and 8: the update after that is replaced by the weights of step 4.
    for step in range(1, 9):
        assert torch.equal(reset[step], plain[step])
    assert torch.equal(reset[9], plain[4])
    assert not torch.equal(reset[10], reset[9])
    assert torch.equal(reset[13], plain[4]), "counted anew: 10 and 12 are not better either"


def test_with_more_patience_nothing_is_reset(tmp_path):
    plain, reset = weights_by_step(tmp_path / "plain"), weights_by_step(tmp_path / "reset", patience=4)
    assert all(torch.equal(reset[step], plain[step]) for step in plain)


@pytest.mark.parametrize(("killed_at", "evaluated"), [(8, 3), (9, 4)])
def test_a_killed_run_is_reset_at_the_same_step(tmp_path, killed_at, evaluated):
    whole = weights_by_step(tmp_path / "whole", patience=1)
    with pytest.raises(RuntimeError, match="killed"):
        weights_by_step(tmp_path / "killed", patience=1, stop_after=killed_at)
    rest = weights_by_step(tmp_path / "killed", patience=1, before=evaluated)
    assert min(rest) == EVERY * evaluated + 1, "it goes on after the last evaluation that is on disk"
    assert all(torch.equal(rest[step], whole[step]) for step in rest)
