"""Models of the RASP languages: how each language is learned, and with how much less it might be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attnlib.generators.rasp import Language
from book.chapters.chapter import Run


@dataclass(frozen=True)
class Recipe:
    """How long and how fast a small model of a language is trained (width 64, up to 30 of 10 symbols).

    Attributes:
        steps: training steps.
        batch_size: sequences per step.
        learning_rate: the highest.
    """

    steps: int = 2500
    batch_size: int = 16
    learning_rate: float = 0.002


RECIPES = {
    "hist2": Recipe(8000, batch_size=32),
    "sort_by_freq": Recipe(12000),
    "dyck1_ptf": Recipe(8000),
    **{f"dyck{n}_ptf": Recipe(12000, learning_rate=0.0015) for n in range(2, 9)},
}
"""Languages that take longer than the others."""


@dataclass(frozen=True)
class Size:
    """How large a model is.

    Attributes:
        n_layers: layers.
        n_heads: heads per layer.
        width: numbers per token.
    """

    n_layers: int
    n_heads: int
    width: int


ABLATIONS: dict[str, Callable[[Size], Size]] = {
    "one head fewer": lambda size: Size(size.n_layers, size.n_heads - 1, size.width),
    "one layer fewer": lambda size: Size(size.n_layers - 1, size.n_heads, size.width),
    "one layer fewer, twice as wide": lambda size: Size(size.n_layers - 1, 2 * size.n_heads, 2 * size.width),
}
"""The paper's: what is taken from the size that a program calls for. The last has twice the heads, too."""


@dataclass(frozen=True)
class RaspRun(Run):
    """A model of one language.

    Attributes:
        language: what it is to compute.
        supervised: whether its heads are told where to look.
        ablation: one of `ABLATIONS`; "" for a model of the full size.
        learning_rate: of the chapter's grid; 0: as of all.
        gamma: of the chapter's grid; 0: as of all.
    """

    language: Language
    supervised: bool
    ablation: str = ""
    learning_rate: float = 0.0
    gamma: float = 0.0
