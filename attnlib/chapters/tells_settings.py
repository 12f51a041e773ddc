"""The settings of the chapter `where_attention_tells`, by name."""

from __future__ import annotations

from attnlib.chapters.tells_recurrent import Copies, InventedSentences, PlantedDocuments
from attnlib.chapters.tells_setting import Setting
from attnlib.chapters.tells_transformers import CompiledProgram, Facts, Program, Sums, Task
from attnlib.models.compiled import PROGRAMS

SETTINGS: dict[str, Setting] = {
    **{f"{name}, compiled": CompiledProgram(name) for name in PROGRAMS},
    "reverse": Program("reverse"),
    "sort": Program("sort"),
    "sort, supervised": Program("sort", supervised=True),
    "hist, supervised": Program("hist", supervised=True),
    "addition": Task("long_addition"),
    "multiplication": Task("long_multiplication"),
    "string reversal": Task("string_reversal"),
    "string reversal, supervised": Task("string_reversal", supervised=True),
    "successor": Task("successor"),
    "value assignment": Task("value_assignment"),
    "flip-flop": Task("flip_flop"),
    "arithmetic": Sums(),
    "documents": PlantedDocuments(),
    "translation": InventedSentences(),
    "copying": Copies(),
    "needle": Facts(),
}
"""Name -> setting, of every model of the book whose sources are known."""

NEEDS = tuple(sorted({setting.needs for setting in SETTINGS.values() if setting.needs}))
"""The chapters that train their models. `notebooks/needs.yaml` tells the pipeline."""
