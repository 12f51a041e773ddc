"""Data for the chapter's explorers: programs, and questions of one program with the scores of methods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from attnlib.attribution.registry import METHODS
from attnlib.benchmarking.population import draw
from attnlib.benchmarking.programs import COUNT, Program
from attnlib.benchmarking.questions import ask, questions_of
from attnlib.benchmarking.scoring import asked

OFFERED = range(1000, 1030)
"""Seeds of the programs that a reader can draw in the page, beside the program shown at first."""


def programs_to_draw(shown: int) -> dict[str, dict[str, object]]:
    """Programs for `ProgramExplorer`, that of `shown` first, each on its question that reads most."""
    found: dict[str, dict[str, object]] = {}
    for seed in dict.fromkeys((shown, *OFFERED)):
        program = draw(seed)
        questions = questions_of(program)
        if questions is None:
            continue
        row = int(questions.reads.sum(1).argmax())
        counts = any(program.variables[number].operation == COUNT for number in program.used())
        layers = f"{program.n_layers} layer{'s' * (program.n_layers > 1)}"
        found[f"{seed}: {layers}{', counts' * counts}"] = {
            "program": program,
            "text": "".join(in_letters(program, questions.ids[row, 1:])),
            "query": int(questions.query[row]),
        }
    return found


def questions_to_show(shown: int, methods: Sequence[str]) -> dict[str, dict[str, object]]:
    """The first four questions of the program that is shown, for `MeasureExplorer`; the truth is *reads*."""
    made = asked(shown)
    assert made is not None
    model, questions = made
    program = draw(shown)
    scores = ask(model, questions, {name: METHODS[name] for name in methods})
    found: dict[str, dict[str, object]] = {}
    for row in range(min(4, len(questions))):
        tokens = in_letters(program, questions.ids[row])
        query = int(questions.query[row])
        label = f"{row + 1}: {' '.join(tokens[1:])}, output {int(questions.target[row])} at {query}"
        found[label] = {
            "tokens": tokens,
            "scores": {name: np.nan_to_num(each[row]) for name, each in scores.items()},
            "truth": questions.reads[row],
            "candidates": questions.candidates[row],
            "query": query,
            "expected": str(int(questions.target[row])),
        }
    return found


def in_letters(program: Program, ids: Tensor) -> list[str]:
    """Symbols as letters; the token of the beginning is ^."""
    letters = program.value_names(0)
    return [letters[each] for each in ids.tolist()]
