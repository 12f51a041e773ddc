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
import inspect
import re
import sys
import sysconfig
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from attnlib.training.key import Unreadable
from attnlib.training.refusing import without_refusals

_LIBRARIES = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_HOUSE = Path(__file__).resolve().parents[1]

Place = tuple[str, str]
"""Where a definition is: its module, and its name there."""


def reached(starts: Iterable[Any], *, refusals: bool = True) -> dict[str, str]:
    """The definitions that functions and classes reach, by module and name: each one's syntax tree as text.

    Args:
        starts: functions and classes; those of libraries reach nothing.
        refusals: whether what only refuses a value counts, and what it reaches: types of fields, the bounds
            of pydantic's `Field`, and its validators that return what they were given. No result comes from
            them. The keys of trained models hold them, so that by default they count.

    Raises:
        Unreadable: there is no source of a reader's own function (one typed at the prompt, say).
    """
    loose: dict[str, str] = {}
    trees = trees_reached(starts, refusals=refusals, loose=loose)
    return loose | {".".join(place): dumped(tree) for place, tree in trees.items()}


def trees_reached(
    starts: Iterable[Any], *, refusals: bool = True, loose: dict[str, str] | None = None
) -> dict[Place, ast.AST]:
    """What `reached` finds, as syntax trees; `loose` takes up what stands in no file, as text."""
    bare = _bare if refusals else _barer
    found: dict[Place, ast.AST] = {}
    waiting: list[Place | Any] = list(starts)
    while waiting:
        next_one = waiting.pop()
        if not isinstance(next_one, tuple):
            home = module_of(next_one)
            if home is None:
                continue
            name = next_one.__qualname__.split(".")[0]
            if name not in _table(home):  # no file, as in a notebook; or a lambda
                waiting += _loose(next_one, {} if loose is None else loose)
                continue
            next_one = home, name
        home, name = next_one
        statement = _table(home).get(name)
        if (home, name) in found or statement is None:
            continue
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            waiting += _imported(home, statement, name)
        else:
            found[home, name] = bare(statement)
            waiting += _used(home, found[home, name], _table(home))
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
    """The definitions of ours that some code names, such as a notebook's: where `reached` may start."""
    body = ast.parse(source).body
    table = dict(_bindings(body))
    found = {name for statement in body for name in _used("__main__", _bare(statement), table)}
    return sorted(name for name in found if name[0] != "__main__")


def module_of(thing: Any) -> str | None:
    """The module of a function or class, if it is ours or the reader's; `None` if a library's."""
    name = getattr(thing, "__module__", None)
    module = sys.modules.get(name or "")
    if name is None or module is None:
        return None
    if name == "__main__":  # a notebook, a prompt, a script
        return name
    file = getattr(module, "__file__", None)
    return name if file and _is_own(Path(file)) else None


def library_of(thing: Any) -> str | None:
    """The library that a function or class is of, if it is not ours or the reader's."""
    return None if module_of(thing) else (getattr(thing, "__module__", None) or "").split(".")[0] or None


def text_of(node: ast.AST) -> str:
    """A syntax tree as text, without docstrings and without what functions say about their types."""
    return dumped(_bare(node))


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
    if file.resolve().is_relative_to(_HOUSE):  # also where it is installed among the libraries
        return True
    return not any(file.resolve().is_relative_to(folder) for folder in _LIBRARIES)


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


def _loose(thing: Any, found: dict[str, str]) -> list[Any]:
    """A function or class with no place in a file: its source as Python has it; returns what it reaches."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError) as error:
        raise Unreadable(f"there is no source of {_called(thing)} that can be read by itself") from error
    text = text_of(tree)
    key = f"{thing.__module__}.{thing.__qualname__}: {text}"
    if key in found:
        return []
    found[key] = text
    around = getattr(thing, "__globals__", None) or vars(sys.modules[thing.__module__])
    onwards: list[Any] = []
    for part in ast.walk(tree):
        dotted = dotted_name(part) if isinstance(part, (ast.Name, ast.Attribute)) else None
        if not dotted or dotted[0] not in around:
            continue
        value = around[dotted[0]]
        for attribute in dotted[1:]:
            if isinstance(value, ModuleType):
                value = getattr(value, attribute, None)
        if isinstance(value, type) or inspect.isfunction(inspect.unwrap(value) if callable(value) else value):
            onwards.append(value)
        elif isinstance(value, (bool, int, float, str, tuple, type(None))):
            found[f"{thing.__module__}.{'.'.join(dotted)}"] = repr(value)
        elif not isinstance(value, ModuleType) and not callable(value):
            raise Unreadable(f"{_called(thing)} uses {dotted[0]}, which is defined outside of it")
    return onwards


def _called(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"
