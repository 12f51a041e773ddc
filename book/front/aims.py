"""What was aimed at, what is reached, and what bounds the rest: read from the tables of the page on speed."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from book.pipeline.stage import myst_table

CLASSIFIER = "steps of the attention classifier"
TABLE = """\
```{{table}} A row per aim: what it was before, what was wanted, what is reached, and what bounds the rest.
:name: speed-aims

{rows}
```"""

Tables = Callable[[str], pd.DataFrame]
"""A table of the page, by its name."""


class Aim(NamedTuple):
    """A figure that was wanted.

    Attributes:
        what: is measured.
        before: the figure on another occasion, before any of this was made faster; a text.
        wanted: the figure wanted.
        now: reads today's from the tables, or None where it is not measured.
        bound: what keeps it from what was wanted, or from being measured: a sentence.
        less: less is faster, as of a multiple of a plain pass; else more is.
        unit: behind the figures.
    """

    what: str
    before: str
    wanted: float
    now: Callable[[Tables], float] | None
    bound: str = ""
    less: bool = False
    unit: str = " x"

    def reached(self, now: float) -> bool:
        """Whether today's figure is as good as the one wanted."""
        return now <= self.wanted if self.less else now >= self.wanted


def aims(stage: Path) -> str:
    """A row per aim, in MyST: before, wanted, now; and what bounds it where it is not reached."""

    def tables(name: str) -> pd.DataFrame:
        return pd.read_csv(stage / f"book/performance/{name}.csv", na_values="–")

    head = ["what", "before", "wanted", "now", "what bounds it"]
    return TABLE.format(rows=myst_table(head, [_row(aim, tables) for aim in AIMS]))


def _row(aim: Aim, tables: Tables) -> list[str]:
    wanted = f"{_shown(aim.wanted)}{aim.unit}"
    if aim.now is None:
        return [aim.what, aim.before, wanted, "not measured", aim.bound]
    now = aim.now(tables)
    return [
        aim.what,
        aim.before,
        wanted,
        f"{_shown(now)}{aim.unit}",
        "reached" if aim.reached(now) else aim.bound,
    ]


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _cell(name: str, column: str, **where: object) -> Callable[[Tables], float]:
    """Reads the one number of a table in a column, in the row where other columns have these values."""

    def read(tables: Tables) -> float:
        rows = tables(name)
        for key, value in where.items():
            rows = rows[rows[key] == value]
        (number,) = rows[column]
        return float(number)

    return read


def _rollout(method: str, tokens: int = 4096) -> Callable[[Tables], float]:
    return _cell("forward", "times the first", method=method, tokens=tokens)


def _least_of_training(tables: Tables, precision: str) -> float:
    table = tables("rasp_training")
    return float(table.loc[table["what"].str.endswith(precision), "times the original"].min())


def _dearest_measure(tables: Tables) -> float:
    table = tables("measures").iloc[1:]  # behind the plain call itself
    return float(table.loc[~table["method"].isin(ASKS_AGAIN), "times the first"].max())


ASKS_AGAIN = {
    "integrated gradients": (
        "not known",
        30.0,
        "It is 20 times a pass forwards and one backwards, which are nearly all products of matrices.",
    ),
    "blank-out": ("85-144 x in captum", 60.0, "Each token left out takes the rest of the text again."),
    "AtMan": ("not known", 60.0, "Each token takes the rest of the text again."),
    "attention knockout": ("not known", 60.0, "Each token takes the end of the text again."),
    "activation patching": ("not known", 60.0, "Each token takes the rest of the text again."),
    "value zeroing": (
        "not known",
        60.0,
        "A layer's feed-forward block is computed for every pair of tokens.",
    ),
}
"""Measures that are slow by what they ask: before, wanted, and what bounds it."""

AIMS = [
    Aim(
        "rollout of 64 keys in 4,096 tokens, over a plain pass",
        "1.38-1.47 x",
        1.25,
        _rollout("rollout_of, 64 keys"),
        less=True,
    ),
    Aim("the same, 8 rows", "2.6 x", 1.3, _rollout("rollout_of, 8 rows"), less=True),
    Aim("the same, the whole matrix", "3.3 x", 1.9, _rollout("rollout_of, all keys"), less=True),
    Aim(
        "the same, 64 keys at any length, in heads of 8 channels",
        "1.8 x at 16k",
        1.6,
        lambda tables: tables("longest_context")["times the plain pass"].max(),
        "Scores of 128 queries and all keys leave the cache from 16k tokens on, and are passed over several "
        "times; heads so narrow have little arithmetic to do meanwhile.",
        less=True,
    ),
    Aim(
        "the longest text, 64 keys",
        "32,768 tokens",
        131072,
        lambda tables: tables("longest_context")["tokens"].max(),
        "Time alone: a text that is twice as long takes four times as long or more.",
        unit=" tokens",
    ),
    Aim(
        "64 tokens generated with the whole matrix, over plain generation",
        "1.11-1.20 x",
        1.05,
        _cell("generation", "times the first", method="generate_with_rollout"),
        "Python: queries are collected in 512 calls of attention, each of which takes little time itself.",
        less=True,
    ),
    Aim(
        "rollout with weights of heads, 32 heads, over the order as published",
        "1.0 x",
        4,
        _cell("head_weights", "times as published", what="texts of 512 tokens, with head weights"),
    ),
    Aim(
        "a measure of what a prediction drew on, 128 tokens, over a plain call",
        "2.0-2.9 x",
        3,
        _dearest_measure,
        less=True,
    ),
    *(
        Aim(
            f"the same, {name}",
            before,
            wanted,
            _cell("measures", "times the first", method=name),
            bound,
            less=True,
        )
        for name, (before, wanted, bound) in ASKS_AGAIN.items()
    ),
    Aim(
        "Dyck sequences, over the original",
        "1.35 x",
        10,
        _cell("rasp_sampling", "times the original", what="dyck2_ptf"),
        "A third of the time draws random numbers, a place for every insertion. Drawn otherwise, they would "
        "give other texts, and no trained model would be found again. A third makes batches, which the "
        "original's time leaves out.",
    ),
    Aim(
        "training a classifier on short texts, over a packed LSTM",
        "1.6 x",
        3,
        _cell("classifier_training", "times the plain way", what=f"{CLASSIFIER}, 10 to 30 words"),
        "Nearly four fifths of such a step is PyTorch's own kernel of an LSTM.",
    ),
    Aim(
        "training a transformer on RASP languages, over the original",
        "1.0-1.4 x",
        2,
        lambda tables: _least_of_training(tables, "float32"),
        "Three quarters of a step are products of matrices with tokens that are not padding.",
    ),
    Aim(
        "the same in bf16",
        "1.6-2.0 x",
        3.6,
        lambda tables: _least_of_training(tables, "bf16"),
        "Three quarters of a step are products of matrices with tokens that are not padding.",
    ),
    Aim(
        "training the transformer that adds, over the original",
        "1.8 x",
        3,
        _cell("lens_training", "times the original", what="sums, right tokens only, float32"),
        "Half of a step is products of matrices, and a fifth is dropout; of texts of ten tokens, a tenth is "
        "padding.",
    ),
    Aim(
        "the same, with its own predictions",
        "2.6-3.7 x",
        3,
        _cell("lens_training", "times the original", what="sums, a quarter own predictions, float32"),
        "A step of ours is two passes; the original's asks again for a quarter of 19 tokens, of texts that "
        "are still short.",
    ),
]
"""In the order of the page. A bound is shown only where the aim is not reached."""
