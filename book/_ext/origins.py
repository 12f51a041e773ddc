"""Find the numbers, figures and tables of a page that the build's own run computed.

Recorded numbers do not depend on the parameters of the run; computed ones do. A static analysis reads the
cells of a notebook in order and tracks the names that depend on a parameter, from assignments to calls that
tell numbers or caption figures.
"""

import ast
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attnlib.plots.captions import SAID

THIS_RUN = "(this run)"
"""The end of the caption of a figure or table that the build's own run computed."""

ADDING = {"append", "extend", "update", "add"}
"""Methods that add their argument to their object."""

PARAMETERS = {"parameters", "injected-parameters"}


class Reader(ast.NodeVisitor):
    """Reads cells; `fresh` contains the names that so far depend on a parameter."""

    def __init__(self, fresh: Iterable[str] = ()) -> None:
        self.fresh = set(fresh)
        self.told: list[bool] = []
        self.captioned: list[tuple[str, bool]] = []

    def visit(self, node: ast.AST) -> None:
        """Note which names a statement assigns, and which numbers and captions it makes."""
        match node:
            case ast.Assign(targets=targets, value=value):
                self.bind(targets, self.depends(value))
            case ast.AugAssign(target=target, value=value):
                self.bind([target], self.depends(target) or self.depends(value))
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.For(target=target, iter=value):
                self.bind([target], self.depends(value))
            case ast.FunctionDef(name=name, args=given, body=body):
                inner = Reader(self.fresh - {each.arg for each in given.args})
                self.bind([ast.Name(name, ast.Store())], any(map(inner.depends, body)))
                return
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name.startswith("tell"):
                self.told.append(self.depends(node))
            case ast.Call(func=ast.Attribute(value=ast.Name() as whole, attr=name)) if name in ADDING:
                self.bind([whole], self.depends(whole) or self.depends(node))
            case ast.Call(func=ast.Attribute(value=shown, attr="captioned"), args=[name, *_]):
                called = name.value if isinstance(name, ast.Constant) else ""
                self.captioned.append((str(called), self.depends(shown)))
        self.generic_visit(node)

    def bind(self, targets: Iterable[ast.AST], fresh: bool) -> None:
        """Note an assignment to names; one to a part, as in `a[0] = 1`, never makes the whole less fresh."""
        for name in (each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)):
            if fresh:
                self.fresh.add(name.id)
            elif isinstance(name.ctx, ast.Store):
                self.fresh.discard(name.id)

    def depends(self, node: ast.AST) -> bool:
        """Whether an expression uses a fresh name; `notebook` and `records()` count as the same in all runs.

        `records()` also returns the current run, whose numbers are recognised by their record.
        """
        inner = self
        match node:
            case ast.Name(id=name):
                return name in self.fresh
            case ast.Attribute(attr="notebook") | ast.Call(func=ast.Name(id="records")):
                return False
            case ast.Lambda(args=given):
                inner = Reader(self.fresh - {each.arg for each in given.args})
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                inner = Reader(self.fresh)
                for each in node.generators:
                    inner.bind([each.target], inner.depends(each.iter))
        return any(map(inner.depends, ast.iter_child_nodes(node)))


def read(
    cells: Iterable[dict[str, Any]],
) -> Iterator[tuple[dict[str, Any], list[bool], list[tuple[str, bool]]]]:
    """Yields every code cell, and whether its numbers, figures and tables depend on a parameter.

    The second item has a value for each call that tells numbers, the third a pair for each caption: its name
    and a value. The name is empty if the cell computes it.
    """
    reader = Reader(["globals"])  # a chapter takes its parameters from `globals()`
    for cell in (each for each in cells if each["cell_type"] == "code"):
        reader.told, reader.captioned = [], []
        tree = ast.parse("".join(cell["source"]))
        if PARAMETERS & set(cell["metadata"].get("tags", [])):
            names = (each for each in ast.walk(tree) if isinstance(each, ast.Name))
            reader.fresh |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
        else:
            reader.visit(tree)
        yield cell, reader.told, reader.captioned


def of_this_run(cells: Iterable[dict[str, Any]]) -> set[str]:
    """The names of the numbers, figures and tables of an executed notebook that depend on its parameters."""
    names = set[str]()
    for cell, told, captioned in read(cells):
        of = dict(captioned)
        for output in cell.get("outputs", []):
            glued = output.get("metadata", {}).get("scrapbook")
            if glued and any(told):
                names.add(glued["name"])
            if said := output.get("data", {}).get(SAID):
                name = json.loads("".join(said))["name"]
                if of.get(name, of.get("")):
                    names.add(name)
    return names


def of_page(env: Any) -> set[str]:
    """The names `of_this_run` for the page that Sphinx is reading; cached during that time."""
    if "of this run" not in env.temp_data:
        page = Path(env.doc2path(env.docname))
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"] if page.suffix == ".ipynb" else []
        env.temp_data["of this run"] = of_this_run(cells)
    names: set[str] = env.temp_data["of this run"]
    return names
