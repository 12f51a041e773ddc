"""Sequences to copy: each what it is said to be, drawn by its own seed and step alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from attnlib.generators.copying import Copying


@some.composite
def tasks(draw):
    repetition = draw(some.booleans())
    symbols = draw(some.integers(1, 12))
    length = draw(some.integers(1, 14 if repetition else symbols))
    room = draw(some.sampled_from([0, symbols, symbols + 3]))
    return Copying(length, symbols, repetition, room)


@settings(max_examples=50)
@given(tasks(), some.integers(1, 5), some.lists(some.integers(0, 99), min_size=1, max_size=3))
def test_every_batch_is_what_the_task_says(task, n, seeds):
    batch = task.batches(n, seeds)(7)
    assert batch.source.shape == (len(seeds), n, task.length + 1)
    symbols = batch.source[..., :-1]
    assert (batch.source[..., -1] == task.end).all() and (batch.target[..., 0] == task.start).all()
    assert torch.equal(batch.predicted, batch.source)
    assert ((symbols >= 0) & (symbols < task.symbols)).all()
    assert task.symbols <= task.end < task.start < task.vocabulary
    if not task.repetition:
        assert all(len(set(row)) == task.length for rows in symbols.tolist() for row in rows)
    if task.permutations:
        assert (symbols.sort(-1).values == torch.arange(task.symbols)).all()
    assert batch.elsewhere.any() <= task.repetition


def test_a_models_batch_depends_on_its_own_seed_and_the_step_alone():
    task = Copying(10, 20)
    together = [row for step in (0, 1) for row in task.batches(1, [7, 3])(step).source.flatten(1).tolist()]
    alone = [task.batches(1, [seed])(step).source.flatten().tolist() for step in (0, 1) for seed in (7, 3)]
    assert together == alone and len(set(map(tuple, alone))) == 4


@pytest.mark.parametrize(
    "task", [Copying(3, 3), Copying(3, 5), Copying(3, 4, True)], ids=lambda task: task.name
)
def test_every_sequence_is_as_likely_as_any_other(task):
    drawn = task.sequences(60_000, np.random.default_rng(0))
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    possible = {"permutations of 3": 6, "3 of 5": 60, "3 of 4, repeated": 64}[task.name]
    assert len(counts) == possible
    expected = len(drawn) / possible
    assert ((counts - expected) ** 2 / expected).sum() < possible + 6 * (2 * possible) ** 0.5


@pytest.mark.parametrize(
    ("given", "name"),
    [((5, 4), "length"), ((0, 4), "length"), ((3, 0, True), "symbols"), ((3, 4, False, 3), "room")],
)
def test_impossible_tasks_are_refused(given, name):
    with pytest.raises(ValueError, match=f"{name} must"):
        Copying(*given)
