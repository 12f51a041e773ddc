"""Which numbers of a page are of the run that a build made of it: those that depend on the run's parameters.

A recorded number is the same whatever the parameters are. So the cells of a notebook are read in their order,
and what depends on a parameter is followed by name: whatever is assigned it, and whatever is told of it.
"""

import ast
from collections.abc import Iterable
from typing import Any

TELLING = {"tell", "tell_in_words"}
PARAMETERS = {"parameters", "injected-parameters"}


class Reader(ast.NodeVisitor):
    """Reads cells; `fresh` are the names, so far, of what depends on a parameter."""

    def __init__(self, fresh: Iterable[str] = ()) -> None:
        self.fresh = set(fresh)
        self.told: list[bool] = []

    def visit(self, node: ast.AST) -> None:
        """Note what a statement assigns, and what it tells."""
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
            case ast.Call(func=ast.Name(id=name)) if name in TELLING:
                self.told.append(self.depends(node))
        self.generic_visit(node)

    def bind(self, targets: Iterable[ast.AST], fresh: bool) -> None:
        """Names that are assigned something; what is put into a part, as `a[0]`, makes no whole older."""
        for name in (each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)):
            if fresh:
                self.fresh.add(name.id)
            elif isinstance(name.ctx, ast.Store):
                self.fresh.discard(name.id)

    def depends(self, node: ast.AST) -> bool:
        """Whether an expression uses a fresh name; `notebook` and `records` count as the same in all runs.

        `records` also gives the run that is under way: a number of it tells so by its own record.
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


def told_by_cells(cells: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], list[bool]]]:
    """Every cell that tells numbers, and whether those of each call depend on a parameter."""
    reader, found = Reader(["globals"]), []  # from where a chapter takes its parameters
    for cell in (each for each in cells if each["cell_type"] == "code"):
        reader.told = []
        tree = ast.parse("".join(cell["source"]))
        if PARAMETERS & set(cell["metadata"].get("tags", [])):
            names = (each for each in ast.walk(tree) if isinstance(each, ast.Name))
            reader.fresh |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
        else:
            reader.visit(tree)
        found += [(cell, reader.told)] if reader.told else []
    return found


def of_this_run(cells: Iterable[dict[str, Any]]) -> set[str]:
    """The names of the numbers that depend on the parameters of an executed notebook."""
    outputs = (output for cell, told in told_by_cells(cells) if any(told) for output in cell["outputs"])
    glued = (output.get("metadata", {}).get("scrapbook") for output in outputs)
    return {each["name"] for each in glued if each}
