"""What the code behind a chapter's numbers says, wherever it stands and whatever it is called."""

from __future__ import annotations

import ast
import copy
import functools
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from book.chapters.records.definitions import (
    Place,
    definition,
    dotted_name,
    dumped,
    imported_by,
    named_in,
    trees_reached,
)

ROOT = Path(__file__).parents[3]
"""The folder of the whole project."""

_SHOWING = re.compile(  # no number depends on them,
    r"attnlib\.(colours|models\.stored|plots|widgets)\.|book\.(sealing|chapters\.(records|telling|trying|readings|\w+\.figures))\."
)

_AROUND = re.compile(  # nor on these; but some do on what they call
    r"attnlib\.training\.cache\.|book\.chapters\.(refusals\.|CHAPTERS$)"
)

_ROUNDS = 8  # definitions that differ only in what they call over more than so many calls do not occur


@functools.cache
def code_hash(notebook: str) -> str:
    """A hash of the code that a chapter's numbers come from: of what it says, not of where it stands.

    Those are the definitions that the notebook's cells name, and those that they reach, less

    * what only shows numbers, and what only that reaches (an explorer knows of every task);
    * what only refuses parameters, and what only that reaches: types, ranges, checks and their messages (see
      `book.chapters.records.definitions.trees_reached`);
    * where trained models are kept (but what trains them counts);
    * which chapters there are: a new one moves no number of another.

    Each is a syntax tree without docstrings and types, in which what is defined here has no name: neither
    the definition itself, nor what it refers to, which is told by what *that* says (see `sayings`). So a
    module that is split, moved or renamed changes nothing, nor does a function; a changed constant does. The
    cells themselves are in no hash: what they record is made by functions.
    """
    path = ROOT / "notebooks" / f"{notebook}.ipynb"
    cells = json.loads(path.read_text())["cells"] if path.exists() else []
    source = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    starts = [place for place in named_in(source) if not _SHOWING.match(".".join(place))]
    trees = trees_reached(starts)
    names = {place: ".".join(place) for place in trees}
    counted = {
        place: tree
        for place, tree in trees.items()
        if not _SHOWING.match(names[place]) and not _AROUND.match(names[place])
    }
    return hashlib.sha256("\n".join(sayings(counted)).encode()).hexdigest()[:16]


def sayings(trees: dict[Place, ast.AST]) -> list[str]:
    r"""What definitions say, each once, in an order that does not depend on their names.

    With $t_d$ the text of definition $d$ in which every reference to another is left blank, and $r_d$ the
    list of what these refer to, the label of $d$ is $\ell^0_d = t_d$ and, eight times,
    $\ell^{k+1}_d = \mathrm{SHA256}(t_d, \ell^k_{r_d})$ (the colours of Weisfeiler and Lehman, 1968).
    References that lead out of `trees` stay blank.
    """
    blank = {}
    for place, tree in trees.items():
        text, meant = _blanked(*place, tree)
        blank[place] = text, [other for other in meant if other in trees]
    labels = {place: text for place, (text, _) in blank.items()}
    for _ in range(_ROUNDS):
        labels = {
            place: hashlib.sha256(repr([text, *(labels[other] for other in meant)]).encode()).hexdigest()
            for place, (text, meant) in blank.items()
        }
    return sorted(set(labels.values()))


@functools.cache  # chapters share most of what they reach
def _blanked(home: str, name: str, tree: ast.AST) -> tuple[str, list[Place]]:
    """A definition's text in which all that is ours has no name, and what stood there, in order."""
    blanker = _Blanker(home, name)
    return dumped(blanker.visit(copy.deepcopy(tree))), blanker.meant


class _Blanker(ast.NodeTransformer):
    """Leaves every name of a definition of ours blank, and remembers in `meant` which one it was."""

    def __init__(self, home: str, name: str) -> None:
        self.home, self.name = home, name
        self.meant: list[Place] = []
        self.inside: dict[str, Place] = {}  # what was imported within the definition

    def _blank(self, place: Place) -> ast.Name:
        self.meant.append(place)
        return ast.Name("", ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.AST:
        place = self.inside.get(node.id) or definition(self.home, [node.id])
        return self._blank(place) if place else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.value = self.visit(node.value)
        names = dotted_name(node)
        place = definition(self.home, names) if names else None
        return self._blank(place) if place else node

    def _visit_import(self, node: ast.Import | ast.ImportFrom) -> ast.AST | None:
        ours = imported_by(self.home, node)
        self.inside |= ours
        node.names = [alias for alias in node.names if (alias.asname or alias.name.split(".")[0]) not in ours]
        return node if node.names else None

    visit_Import = visit_ImportFrom = _visit_import

    def _visit_definition(self, node: Any) -> ast.AST:
        if node.name == self.name:
            node.name = ""
        return self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _visit_definition
