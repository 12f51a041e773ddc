"""The settings of the chapter `where_attention_tells`, by name."""

from __future__ import annotations

from attnlib.models.compiled import PROGRAMS
from book.chapters.tells.recurrent import Copies, InventedSentences, PlantedDocuments
from book.chapters.tells.setting import Setting
from book.chapters.tells.transformers import CompiledProgram, Facts, Program, Sums, Task

_EVERY: tuple[Setting, ...] = (
    *map(CompiledProgram, PROGRAMS),
    Program("reverse"),
    Program("sort"),
    Program("sort", supervised=True),
    Program("hist", supervised=True),
    Task("long_addition"),
    Task("long_multiplication"),
    Task("string_reversal"),
    Task("string_reversal", supervised=True),
    Task("successor"),
    Task("value_assignment"),
    Task("flip_flop"),
    Sums(),
    PlantedDocuments(),
    InventedSentences(),
    Copies(),
    Facts(),
)

SETTINGS = {setting.title: setting for setting in _EVERY}
"""Name -> setting, of every model of the book whose sources are known."""

NEEDS = tuple(sorted({setting.needs for setting in SETTINGS.values() if setting.needs}))
"""The chapters that train their models. `notebooks/needs.yaml` tells the pipeline."""
