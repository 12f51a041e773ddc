"""Syntax trees without what only refuses a value: no number depends on what is not let in."""

from __future__ import annotations

import ast

BOUNDS = frozenset(
    {"ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern", "strict", "allow_inf_nan"}
)
"""What pydantic's `Field` is told that only refuses."""

VALIDATORS = frozenset({"field_validator", "model_validator"})
"""Pydantic's decorators of methods that refuse; those that change a value are not left out."""


def without_refusals(tree: ast.AST) -> ast.AST:
    """A syntax tree, changed in place, whose classes have no types and bounds of fields, and no refusals.

    Those are validators that only refuse: all that they return is the argument that they were given.
    """
    return _WithoutRefusals().visit(tree)


class _WithoutRefusals(ast.NodeTransformer):
    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [_any_value(each) for each in node.body if not only_refuses(each)]
        return self.generic_visit(node)


def _any_value(statement: ast.stmt) -> ast.stmt:
    """A field without its type and bounds; any other statement of a class as it is."""
    if isinstance(statement, ast.AnnAssign):
        statement.annotation = ast.Constant(None)
        if isinstance(statement.value, ast.Call) and _name(statement.value) == "Field":
            statement.value.keywords = [each for each in statement.value.keywords if each.arg not in BOUNDS]
            if not (statement.value.args or statement.value.keywords):
                statement.value = None
    return statement


def only_refuses(statement: ast.stmt) -> bool:
    """Whether a statement of a class is a validator that gives back what it is given, if anything."""
    if not isinstance(statement, ast.FunctionDef):
        return False
    if not any(_name(each) in VALIDATORS for each in statement.decorator_list):
        return False
    given = [each.arg for each in statement.args.args if each.arg != "cls"][:1]
    returned = [each.value for each in ast.walk(statement) if isinstance(each, ast.Return)]
    return all(isinstance(value, ast.Name) and [value.id] == given for value in returned)


def _name(node: ast.expr) -> str | None:
    """The name of what is called: of `Field(...)`, `pydantic.Field(...)` and the bare `Field`."""
    inner = node.func if isinstance(node, ast.Call) else node
    return inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", None)
