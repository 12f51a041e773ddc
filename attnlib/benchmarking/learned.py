"""Transformers that are trained on programs of the population, and evaluated on the same questions.

A trained transformer may compute the program's output in its own way. The ground truth *causes* is still
exact, since it is a property of the function. The ground truth *reads* is the trace of the program, which a
trained transformer need not follow.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from attnlib.benchmarking.population import draw
from attnlib.benchmarking.programs import Program
from attnlib.benchmarking.questions import FEWEST, Questions, questions_of
from attnlib.generators.base import IGNORE, Batch
from attnlib.models.base import evaluating, seeded
from attnlib.models.transformer import Transformer, TransformerConfig
from attnlib.training.loop import fit
from attnlib.training.objectives import token_loss
from attnlib.training.plan import Plan

Positions = Literal["learned", "sinusoidal", "rotary"]

RIGHT = 0.99
"""A program counts as learned when this share of outputs on unseen inputs is right."""

STEPS, BATCH, UNSEEN = 3_000, 128, 1_024

HEAD_WIDTH = 16
"""Channels of a head in a transformer of relative size 1; one of size s has s times as many."""


def learned(
    program: Program,
    size: int = 1,
    positions: Positions = "learned",
    *,
    steps: int = STEPS,
    folder: Path | None = None,
) -> Transformer | None:
    """A transformer in float64, trained on a program's outputs at all tokens; None if it learns too little.

    The transformer is pre-norm, with as many layers as the program and four heads in each; `positions` is its
    position encoding (`TransformerConfig`). It learns too little if the share of right outputs at the
    program's queries, on `UNSEEN` unseen inputs, is below `RIGHT`. With a `folder`, training can be resumed.
    """
    config = TransformerConfig(
        program.alphabet + 1,
        program.variables[program.output].size,
        n_layers=program.n_layers,
        n_heads=4,
        width=4 * HEAD_WIDTH * size,
        causal=program.causal,
        positions=positions,
        norm="pre",
        max_length=program.tokens,
    )
    plan = Plan(
        steps=steps,
        learning_rate=2e-3,
        schedule="onecycle",
        optimizer="adamw",
        clip=1.0,
        evaluate_every=100,
        metric="right",
        stop_at=RIGHT,
        patience=1,
        device="cpu",
    )
    with seeded(program.seed):
        model = Transformer(config)
    history = fit(
        model, partial(_batch, program), token_loss(), plan,
        evaluate=partial(_right, program), folder=folder, progress=False,
    )  # fmt: skip
    return model.double() if history.best is not None and history.best >= RIGHT else None


def asked_of_learned(
    seed: int, size: int = 1, positions: Positions = "learned", *, folder: Path | None = None
) -> tuple[Transformer, Questions] | None:
    """A trained transformer and the questions that it answers rightly.

    None if the program has too few questions, is not learned, or fewer than `FEWEST` answers are right.
    """
    program = draw(seed)
    questions = questions_of(program)
    if questions is None:
        return None
    model = learned(program, size, positions, folder=folder)
    if model is None:
        return None
    given = answers(model, questions)
    kept = some_of(questions, given == questions.target)
    return (model, kept) if len(kept) >= FEWEST else None


@torch.no_grad()
def answers(model: nn.Module, questions: Questions) -> Tensor:
    """The most likely class at the position that each question asks about."""
    logits = model(questions.ids).logits
    return logits[torch.arange(len(questions)), questions.query].argmax(-1)


def some_of(questions: Questions, rows: Bool[Tensor, " question"]) -> Questions:
    """The questions of a program at which `rows` is True."""
    parts = {field.name: getattr(questions, field.name) for field in dataclasses.fields(questions)}
    return Questions(
        **{name: part[rows if isinstance(part, Tensor) else rows.numpy()] for name, part in parts.items()}
    )


def _batch(program: Program, step: int) -> Batch:
    return _labelled(program, np.random.default_rng([program.seed, 4, step]), BATCH)


def _labelled(program: Program, rng: np.random.Generator, n: int) -> Batch:
    ids = program.draw_inputs(rng, n)
    targets = program.outputs(ids).copy()
    targets[:, 0] = IGNORE
    every = torch.ones(ids.shape, dtype=torch.bool)
    return Batch(torch.from_numpy(ids), torch.from_numpy(targets), every)


def _right(program: Program, model: nn.Module) -> dict[str, float]:
    """The share of right outputs on unseen inputs, at the program's queries."""
    batch = _labelled(program, np.random.default_rng([program.seed, 5]), UNSEEN)
    with evaluating(model), torch.no_grad():
        given = model(batch.input_ids).logits.argmax(-1)
    places = [*program.queries]
    return {"right": float((given == batch.target_ids)[:, places].float().mean())}
