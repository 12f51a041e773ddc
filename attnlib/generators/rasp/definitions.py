"""The RASP languages, each as a few comparisons of numbers (Weiss, Goldberg and Yahav 2021, section 5).

The table `LANGUAGES` is the only place where a language is described: its classes, its output,
the attention of the heads that a RASP program for it would have, and the depth the paper gave it.
"""

from __future__ import annotations

import operator
import runpy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from attnlib.checks import check
from attnlib.generators.base import Head
from attnlib.generators.rasp import dyck
from attnlib.generators.rasp.sequences import Sequences, select

Symbol = str | int
"""An output symbol: a character, or a count."""

NON_TOKEN = "§"
"""What `sort_by_freq` writes where there is nothing left to write."""

HIGHEST_COUNT = 10
"""The largest count that `hist` and `hist2` write; they write it for larger counts too."""

Outputs = Callable[[Sequences], Int64[Tensor, "batch position"]]
Select = Callable[[Sequences], Bool[Tensor, "batch query key"]]


@dataclass(frozen=True)
class Pattern:
    """Where one head of a RASP program looks.

    Attributes:
        select: query x key, True where the query looks at the key; beginning-of-sequence not counted.
        sees_bos: whether, in a language with a beginning-of-sequence token, every query looks there too.
    """

    select: Select
    sees_bos: bool = True


@dataclass(frozen=True)
class Definition:
    """A language before its alphabet is chosen.

    Attributes:
        name: what it is called.
        summary: one line that says what stands at each output position.
        outputs: computes the output at every position, as an index into `classes`.
        classes: the output symbols, as a function of the alphabet.
        heads: the attention pattern of each head whose algorithm is known.
        symbols: the alphabet, where the language has one of its own (the Dyck languages).
        sample: draws symbols [batch position] of given lengths; uniform unless the language says otherwise.
        paper_size: layers and heads of the model in the paper's Table 1, if the table has the language.
        size_without_bos: layers and heads without a beginning-of-sequence token, if they differ.
    """

    name: str
    summary: str
    outputs: Outputs
    classes: Callable[[str], tuple[Symbol, ...]] = tuple
    heads: dict[Head, Pattern] = field(default_factory=dict)
    symbols: str | None = None
    sample: Callable[[np.random.Generator, np.ndarray, int], np.ndarray] = dyck.random_symbols
    paper_size: tuple[int, int] | None = None
    size_without_bos: tuple[int, int] | None = None

    def __reduce__(self) -> Any:
        """Pickle a known language by its name: most hold lambdas, which cannot be pickled."""
        return (_known, (self.name,)) if LANGUAGES.get(self.name) is self else super().__reduce__()


def _counts(_: str) -> tuple[Symbol, ...]:
    return tuple(range(HIGHEST_COUNT + 1))


def _reversed(s: Sequences) -> Int64[Tensor, "batch position"]:
    mirrored = (s.lengths[:, None] - 1 - s.positions).clamp(min=0)
    return s.symbols.gather(1, mirrored)


def _by_frequency(s: Sequences) -> tuple[Tensor, Tensor]:
    """Sort keys of `sort_by_freq`: first occurrences before repeats, and frequent symbols before rare."""
    return (~s.is_first).long(), -s.count


def _sorted_by_frequency(s: Sequences) -> Int64[Tensor, "batch position"]:
    ordered = s.symbols.gather(1, s.order_by(*_by_frequency(s)))
    n_distinct = s.is_first.sum(1, keepdim=True)
    return torch.where(s.positions < n_distinct, ordered, len(s.code_points))


def _symbols_with_this_count(s: Sequences) -> Int64[Tensor, "batch position"]:
    counts = s.tally[:, :-1]  # without padding
    n_symbols = torch.zeros(len(s), s.symbols.shape[1] + 1, dtype=torch.int64, device=counts.device)
    n_symbols.scatter_add_(1, counts, torch.ones_like(counts))
    return n_symbols.gather(1, s.count)


def _same_symbol(s: Sequences) -> Bool[Tensor, "batch query key"]:
    return select(s.symbols, s.symbols)


def _same_symbol_before(s: Sequences) -> Bool[Tensor, "batch query key"]:
    return _same_symbol(s) & select(s.positions, s.positions, operator.lt)


def _first_of_each_symbol_with_this_count(s: Sequences) -> Bool[Tensor, "batch query key"]:
    return select(torch.where(s.is_first, s.count, -1), s.count)


REVERSE = Definition(
    name="reverse",
    summary="the sequence from its end to its beginning",
    outputs=_reversed,
    # As in hist, the original gives no target; these are the heads of the paper's own RASP program: one looks
    # everywhere, and its share of the first token tells the length; one looks at the mirrored place.
    heads={
        (0, 0): Pattern(lambda s: s.real[:, None, :] & s.real[:, :, None]),
        (1, 0): Pattern(lambda s: select(s.positions, s.lengths[:, None] - 1 - s.positions), sees_bos=False),
    },
    paper_size=(2, 1),
)
HIST = Definition(
    name="hist",
    summary=f"how often this symbol occurs in the sequence, at most {HIGHEST_COUNT}",
    outputs=lambda s: s.count.clamp(max=HIGHEST_COUNT),
    classes=_counts,
    # The original gives hist no target; this is the one head of the paper's own RASP program for it, which
    # needs the beginning-of-sequence token to turn "what share of this head's mass" into a count.
    heads={(0, 0): Pattern(_same_symbol)},
    paper_size=(1, 1),
    size_without_bos=(1, 2),
)
HIST2 = Definition(
    name="hist2",
    summary=f"how many different symbols occur as often as this one, at most {HIGHEST_COUNT}",
    outputs=lambda s: _symbols_with_this_count(s).clamp(max=HIGHEST_COUNT),
    classes=_counts,
    heads={
        (0, 0): Pattern(_same_symbol),
        (0, 1): Pattern(_same_symbol_before),
        (1, 0): Pattern(_first_of_each_symbol_with_this_count),
    },
    paper_size=(2, 2),
)
SORT = Definition(
    name="sort",
    summary="the symbols in order of their code points",
    outputs=lambda s: s.symbols.gather(1, s.order_by(s.codes)),
    heads={
        (0, 0): Pattern(lambda s: select(rank := s.rank_by(s.codes), rank, operator.lt)),
        (1, 0): Pattern(lambda s: select(s.rank_by(s.codes), s.positions), sees_bos=False),
    },
    paper_size=(2, 1),
)
SORT_BY_FREQ = Definition(
    name="sort_by_freq",
    summary=f"each symbol once, the most frequent first, then {NON_TOKEN}",
    outputs=_sorted_by_frequency,
    classes=lambda alphabet: (*alphabet, NON_TOKEN),
    heads={
        (0, 0): Pattern(_same_symbol),
        (0, 1): Pattern(_same_symbol_before),
        (1, 0): Pattern(lambda s: select(rank := s.rank_by(*_by_frequency(s)), rank, operator.lt)),
        # as in the original, half of this head's attention is on BOS; the last head of `sort` ignores BOS
        (2, 0): Pattern(lambda s: select(s.rank_by(*_by_frequency(s)), s.positions)),
    },
    paper_size=(3, 2),
)


def _dyck(n_pairs: int) -> Definition:
    return Definition(
        name=f"dyck{n_pairs}_ptf",
        summary="P: the brackets so far can still be closed; T: they are closed; F: they never will be",
        outputs=dyck.classify,
        classes=lambda _: ("P", "T", "F"),
        symbols="".join(dyck.PAIRS[:n_pairs]) + dyck.NEUTRAL,
        sample=dyck.sample,
        paper_size={1: (2, 1), 2: (3, 1)}.get(n_pairs),
    )


LANGUAGES: dict[str, Definition] = {
    definition.name: definition
    for definition in [REVERSE, HIST, HIST2, SORT, SORT_BY_FREQ, *map(_dyck, range(1, len(dyck.PAIRS) + 1))]
}
"""Every language of the original, by name."""


def _known(name: str) -> Definition:
    return LANGUAGES[name]


# ---- languages of a reader's own, from a Python file ------------------------------------------------------


@dataclass(frozen=True)
class FromFile(Definition):
    """A language defined in a Python file; other processes load it from that file."""

    file: str = ""

    def __reduce__(self) -> Any:
        """Pickle the language by its file and name."""
        return _read, (self.file, self.name)


def definitions_in(file: Path) -> dict[str, Definition]:
    """The languages that a Python file defines, by their names.

    The file is run, as `python file` would: name only files that you trust.

    Args:
        file: a file with one or more `Definition` objects at its top level, under any variable names.

    Example of such a file::

        from attnlib.generators import rasp

        first = rasp.Definition("first", "the first symbol", lambda s: s.symbols[:, :1].expand_as(s.symbols))
    """
    check(file.is_file(), "language_file must be a Python file that defines a language", str(file))
    try:
        values = runpy.run_path(str(file)).values()
    except Exception as error:
        raise ValueError(
            f"language_file {file} fails when it is run: {type(error).__name__}: {error}"
        ) from error
    found = list({id(value): value for value in values if isinstance(value, Definition)}.values())
    found = [value for value in found if LANGUAGES.get(value.name) is not value]  # those it imports
    check(found, f"language_file {file} must define a rasp.Definition at its top level", found)
    names = [definition.name for definition in found]
    for name in names:
        own = name.isidentifier() and name not in LANGUAGES and names.count(name) == 1
        check(own, f"language_file {file} must name each language by letters, digits and _, anew", name)
    where = str(file.resolve())
    return {definition.name: FromFile(**vars(definition), file=where) for definition in found}


def _read(file: str, name: str) -> Definition:
    return definitions_in(Path(file))[name]
