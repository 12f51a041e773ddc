"""Which code a run goes through: the functions and classes that it reaches, as syntax trees.

From an object, its definition is looked up in the source of its module; from there, every name that the
definition uses and that is defined in a module of ours, or of the reader's, and so on. Docstrings, comments,
layout and the annotations of functions do not count; on demand, nor does what only refuses (see `reached`).
Libraries are followed no further: their versions stand for them.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attnlib.training.closure import HOUSE, is_library
from book.chapters.records.refusing import without_refusals

_HOUSE = HOUSE / "attnlib"

Place = tuple[str, str]
"""Where a definition is: its module, and its name there."""


def trees_reached(starts: Iterable[Place]) -> dict[Place, ast.AST]:
    """The definitions that some reach, themselves included, as syntax trees.

    What only refuses a value does not count, nor what that reaches: types of fields, the bounds of pydantic's
    `Field`, and its validators that return what they were given. No result comes from them.
    """
    found: dict[Place, ast.AST] = {}
    waiting = list(starts)
    while waiting:
        home, name = waiting.pop()
        statement = _table(home).get(name)
        if (home, name) in found or statement is None:
            continue
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            waiting += _imported(home, statement, name)
        else:
            found[home, name] = _barer(statement)
            waiting += _used_by(home, found[home, name])
    return found


def definition(module: str, dotted: Sequence[str]) -> Place | None:
    """The definition of ours or the reader's that a name ("fit") or a dotted one ("stats.agreement") means.

    `None`: it is a library's, a module, or more than a definition (an attribute of one).
    """
    name, *further = dotted
    statement = _table(module).get(name)
    if not isinstance(statement, (ast.Import, ast.ImportFrom)):
        return (module, name) if statement is not None and not further else None
    places = list(_imported(module, statement, name))
    if further:
        places = [(home, last) for home, last in _in_modules(places, further) if last == further[-1]]
    return next(filter(None, (definition(home, [last]) for home, last in places if last)), None)


def imported_by(module: str, statement: ast.Import | ast.ImportFrom) -> dict[str, Place]:
    """The definitions of ours and the reader's that an import binds, by the name that it gives them."""
    bound = [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    places = {name: next(iter(_imported(module, statement, name)), None) for name in bound}
    found = {name: definition(*place[:1], place[1:]) for name, place in places.items() if place and place[1]}
    return {name: place for name, place in found.items() if place}


def named_in(source: str) -> list[Place]:
    """The definitions of ours that some code names, such as a notebook's: where `trees_reached` may start."""
    body = ast.parse(source).body
    table = dict(_bindings(body))
    found = {name for statement in body for name in _used("__main__", _bare(statement), table)}
    return sorted(name for name in found if name[0] != "__main__")


def dumped(tree: ast.AST) -> str:
    """A syntax tree as text, the same in every version of Python."""
    text = ast.dump(tree)
    return re.sub(r"(, )?\w+=\[\]", "", text).replace("(, ", "(")  # Python 3.13 leaves empty lists out


@functools.cache
def _bare(node: ast.AST) -> ast.AST:
    """The tree without docstrings and types, as another tree."""
    return _Bare().visit(ast.parse(ast.unparse(node)))


@functools.cache
def _barer(node: ast.AST) -> ast.AST:
    """The tree without what only refuses, too."""
    return without_refusals(_Bare().visit(ast.parse(ast.unparse(node))))


class _Bare(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        plain = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if plain else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


@functools.cache
def _is_own(file: Path) -> bool:
    return file.resolve().is_relative_to(_HOUSE) or not is_library(file)  # ours may be among the libraries


def _file(module: str) -> Path | None:
    """The source file of a module that is ours or the reader's."""
    there = sys.modules.get(module)
    name = getattr(there, "__file__", None)
    if there is None and module.split(".")[0] in sys.modules:
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError):
            return None
        name = spec and spec.origin
    return Path(name) if name and name.endswith(".py") and _is_own(Path(name)) else None


def _table(module: str) -> dict[str, ast.stmt]:
    """The statement of a module that binds each of its names; the last one, if there are several."""
    file = _file(module)
    return _parsed(file, file.stat().st_mtime_ns) if file else {}


@functools.cache
def _parsed(file: Path, changed: int) -> dict[str, ast.stmt]:
    return dict(_bindings(ast.parse(file.read_text()).body))


def _bindings(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name, statement
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                yield alias.asname or alias.name.split(".")[0], statement
        elif isinstance(statement, (ast.If, ast.Try, ast.With)):
            inner = [statement.body, getattr(statement, "orelse", [])]
            for part in inner:
                yield from _bindings(part)
        else:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, statement


@functools.cache
def _used_by(module: str, node: ast.AST) -> list[Place]:
    return [*_used(module, node, _table(module))]


def _used(module: str, node: ast.AST, table: Mapping[str, ast.stmt]) -> Iterator[tuple[str, str]]:
    """The definitions of ours and the reader's that a bare definition names; `table` is of its module."""
    for part in ast.walk(node):
        if isinstance(part, (ast.Import, ast.ImportFrom)):  # inside a function
            for alias in part.names:
                yield from _imported(module, part, alias.asname or alias.name.split(".")[0])
        elif isinstance(part, ast.Name) and part.id in table:
            yield module, part.id
        elif isinstance(part, ast.Attribute):
            dotted = dotted_name(part)
            if dotted and isinstance(table.get(dotted[0]), (ast.Import, ast.ImportFrom)):
                yield from _in_modules(_imported(module, table[dotted[0]], dotted[0]), dotted[1:])


def dotted_name(node: ast.expr) -> list[str] | None:
    """The names in `a.b.c`; `None` if it is something else."""
    if isinstance(node, ast.Attribute):
        front = dotted_name(node.value)
        return front and [*front, node.attr]
    return [node.id] if isinstance(node, ast.Name) else None


def _in_modules(places: Iterable[tuple[str, str]], names: list[str]) -> Iterator[tuple[str, str]]:
    """What `module.name` means, where `places` say which module a name is."""
    for home, name in places:
        inner = f"{home}.{name}".strip(".")
        if _file(inner):
            if names[1:] and _file(f"{inner}.{names[0]}"):
                yield from _in_modules([(inner, names[0])], names[1:])
            yield inner, names[0]


def _imported(module: str, statement: ast.stmt, name: str) -> Iterator[tuple[str, str]]:
    """Where a name that a statement imports comes from: (module, name), of ours and the reader's only."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if (alias.asname or alias.name.split(".")[0]) == name:
                front, _, last = (alias.name if alias.asname else name).rpartition(".")
                yield front, last
    elif isinstance(statement, ast.ImportFrom):
        base = statement.module or ""
        if statement.level:
            package = module if (_file(module) or Path()).name == "__init__.py" else module.rpartition(".")[0]
            base = importlib.util.resolve_name("." * statement.level + base, package)
        for alias in statement.names:
            if (alias.asname or alias.name) == name and _file(base):
                yield base, alias.name
