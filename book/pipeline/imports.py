"""Find the modules of `attnlib` and `book` that some code imports, directly or not, without running it."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import decode_source, resolve_name
from pathlib import Path
from typing import NamedTuple

HOUSE = Path(__file__).resolve().parents[2]
"""The folder that contains the packages: the clone, or the folder of installed packages."""

PACKAGES = ("attnlib", "book")


class Import(NamedTuple):
    """An import of `name` from `module` (of all if ""), or only of the attributes `asked` of that name."""

    module: str
    name: str = ""
    asked: tuple[str, ...] = ()


def modules_reached(starts: Iterable[str] = (), source: str = "", house: Path = HOUSE) -> dict[str, Path]:
    """The modules of `PACKAGES` that some modules, or a source text, import directly or not, and their files.

    Imports inside functions count; imports under `if TYPE_CHECKING` do not. A package's `__init__` is not
    followed as a whole. Of the names that it imports from elsewhere, also under `if TYPE_CHECKING` (its lazy
    names), only used ones are followed. The `__init__` itself counts if it defines a used name, or if all of
    the package is used.
    """
    found: dict[str, Path] = {}
    waiting = [Import(start) for start in starts] + list(_imports(source, ""))
    seen = set[Import]()
    while waiting:
        one = waiting.pop()
        inner = f"{one.module}.{one.name}" if one.name else one.module
        if one in seen:
            continue
        seen.add(one)
        file, inner_file = file_of(one.module, house), file_of(inner, house)
        elsewhere: list[Import] = []  # imports that give the package this name
        if one.name and file and _is_package(file):
            own = _of_file(file, one.module, file.stat().st_mtime_ns)
            taken = [each._replace(asked=one.asked) for each in own if each.name == one.name]
            elsewhere = [each for each in taken if each != one]
        waiting += elsewhere
        if inner_file and one.asked and _is_package(inner_file):
            waiting += [Import(inner, name) for name in one.asked]
        elif inner_file:
            if inner not in found:
                found[inner] = inner_file
                waiting += _of_file(inner_file, inner, inner_file.stat().st_mtime_ns)
        elif file and not elsewhere:
            waiting.append(Import(one.module))
    return dict(sorted(found.items()))


def file_of(module: str, house: Path = HOUSE) -> Path | None:
    """The file of a module or package; `None` if it is not in one of `PACKAGES`."""
    names = module.split(".")
    if names[0] not in PACKAGES:
        return None
    stem = house.joinpath(*names)
    return next((file for file in (stem.with_suffix(".py"), stem / "__init__.py") if file.is_file()), None)


def _is_package(file: Path) -> bool:
    return file.stem == "__init__"


@functools.cache
def _of_file(file: Path, module: str, changed: int) -> tuple[Import, ...]:
    if _is_package(file):
        return tuple(_imports(decode_source(file.read_bytes()), module, typed=True))
    return tuple(_imports(decode_source(file.read_bytes()), module.rpartition(".")[0]))


def _imports(text: str, package: str, typed: bool = False) -> Iterator[Import]:
    """The imports of a source text; `typed` includes those under `if TYPE_CHECKING` (lazy names)."""
    bound: list[tuple[str, Import]] = []
    asked: dict[str, set[str]] = {}
    uses = Counter[str]()  # uses of a name, other than as `name.attribute`
    for node in ast.walk(ast.parse(text)) if typed else _run(ast.parse(text)):
        if isinstance(node, ast.Import):
            bound += [(alias.asname or alias.name, Import(alias.name)) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            place = (
                resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module
            )
            bound += [(alias.asname or alias.name, Import(place or "", alias.name)) for alias in node.names]
        elif isinstance(node, ast.Name):
            uses[node.id] += 1
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            asked.setdefault(node.value.id, set()).add(node.attr)
            uses[node.value.id] -= 1
    for name, one in bound:
        yield one if uses[name] else one._replace(asked=tuple(sorted(asked.get(name, ()))))


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree without those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if not (
            isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        ):
            yield node
            yield from _run(node)
