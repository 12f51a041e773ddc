"""A program over symbols, run in the page: its values, the sources of an output, and attention scores."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import traitlets

from attnlib.checks import check_between
from attnlib.widgets.encoding import deflate
from attnlib.widgets.explorer import Explorer, Item
from attnlib.widgets.front_end import front_end
from attnlib.widgets.naming import counted, named

LETTERS = "abcdefgh"
"""The symbols, as a reader types them."""


@dataclass(frozen=True)
class ShownProgram(Item):
    """A program, an input and the position whose output is explained.

    Attributes:
        alphabet: the number of symbols.
        output: the index of the variable that is predicted.
        variables: a description of each variable, with only the shapes of its relation, mask and table.
        cells: the size in bytes of all relations, masks and tables before compression.
    """

    label: str
    alphabet: int
    length: int
    causal: bool
    layers: int
    output: int
    query: int
    text: str
    variables: tuple[dict[str, Any], ...]
    cells: int
    packed: bytes

    @classmethod
    def of(cls, label: str, *, program: Any, text: str, query: int) -> "ShownProgram":
        """Checks and packs the parts of an item, which `ProgramExplorer` describes."""
        check_input(text, program.alphabet, program.length)
        check_between(1, program.length, query=query)
        used, lines, told, cells = program.used(), iter(program.lines()), [], []
        for number, each in enumerate(program.variables):
            matrices = {"relation": each.relation, "allowed": each.allowed, "table": each.table}
            cells += [matrix.astype(np.uint8).ravel() for matrix in matrices.values() if matrix is not None]
            told.append(
                {
                    "line": next(lines) if number in used else "",
                    "operation": each.operation,
                    "size": each.size,
                    "layer": each.layer,
                    "arguments": list(each.arguments),
                    "pick": each.pick,
                }
                | {name: list(one.shape) for name, one in matrices.items() if one is not None}
            )
        every = np.concatenate(cells)
        sizes = program.alphabet, program.length, program.causal, program.n_layers, program.output
        return cls(label, *sizes, query, text, tuple(told), len(every), deflate(every))


class ProgramExplorer(Explorer):
    """A program that a reader runs: change a symbol, and all values that depend on it change.

    At the top are the lines of the program with their values at every position of the input. The values on
    the trace of the chosen output are outlined. Below are the tokens that the output **reads** and those that
    **cause** it, and the scores of rollout, mean attention and the last layer's attention in the transformer
    that the program is compiled to, without disguise. The page computes everything itself, without a kernel.

    Args:
        programs: ``{label: {"program": ..., "text": "abca", "query": 4}}``. A program is an
            `attnlib.benchmarking.programs.Program` of at most eight symbols; text is an input, a letter per
            symbol without the start token; query is a position from 1 on.
        title: a line of text above the picture.
        item: index of the program shown first.
        text: the input shown first; "" for the program's own.
        query: the position whose output is explained first; -1 for the program's own.

    Raises:
        ValueError: an input that is not of its program, or a position that is not in it; the message names
            the program.
        traitlets.TraitError: a program, an input or a position that does not exist.

    Example:
        >>> from attnlib.benchmarking.population import draw
        >>> ProgramExplorer({"program 7": {"program": draw(7), "text": "abcabcabcab", "query": 3}})
        ProgramExplorer: 1 program
    """

    _esm, _css = front_end("program_explorer.js")

    text = traitlets.Unicode(help="The input, a letter per symbol; '' for the program's own.").tag(
        sync=True, addressed=True
    )
    query = traitlets.Int(-1, help="The position asked about; -1 for the program's own.").tag(
        sync=True, addressed=True
    )

    def __init__(
        self,
        programs: Mapping[str, Mapping[str, Any]],
        title: str = "",
        *,
        item: int = 0,
        text: str = "",
        query: int = -1,
    ) -> None:
        super().__init__(title=title)
        self._show(named(ShownProgram.of, "program", programs), item)
        self.text, self.query = text, query

    @traitlets.validate("text")
    def _an_input(self, proposal: dict[str, Any]) -> str:
        text = str(proposal["value"])
        if text and self.items:
            try:
                check_input(text, self._shown["alphabet"], self._shown["length"])
            except ValueError as error:
                raise traitlets.TraitError(str(error)) from None
        return text

    def _places_within(self) -> dict[str, tuple[int, str]]:
        return {"query": (self._shown["length"] + 1, "the program's own")}

    def _sizes(self) -> str:
        return counted(len(self.items), "program")


def check_input(text: str, alphabet: int, length: int) -> None:
    """Raise a ValueError unless the text is `length` letters of the first `alphabet` of `LETTERS`."""
    letters = LETTERS[:alphabet]
    if not re.fullmatch(f"[{letters}]{{{length}}}", text):
        raise ValueError(f"text must be {length} of the letters {', '.join(letters)}; got {text!r}.")
