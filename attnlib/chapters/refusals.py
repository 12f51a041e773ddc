"""How a chapter says what is wrong with its parameters."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError


class ParameterError(ValueError):
    """A chapter was started with parameters that it cannot run with."""


def refusal(cls: type[BaseModel], error: ValidationError, cells: Sequence[str] = ()) -> ParameterError:
    """One message that names every problem that pydantic found; `cells`: see `words_of`."""
    problems = [_explain(cls, problem, cells) for problem in error.errors()]
    return ParameterError("\n  - ".join(["this chapter cannot run with these parameters:", *problems]))


def words_of(cells: Sequence[str]) -> dict[str, str]:
    """What each parameter is, from the comments of a parameters cell: `steps: int = 10  # training steps`."""
    words = {}
    for cell in cells:
        lines = cell.splitlines()
        try:
            statements = ast.parse(cell).body
        except SyntaxError:  # a cell of IPython's own commands
            continue
        for statement in statements:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                rest = lines[(statement.end_lineno or 1) - 1].encode()[statement.end_col_offset or 0 :]
                words[statement.target.id] = rest.decode().strip("# ")
    return words


def _explain(cls: type[BaseModel], problem: Any, cells: Sequence[str]) -> str:
    """One problem that pydantic found, in the words of this book."""
    name = ".".join(map(str, problem["loc"]))
    words = words_of(cells).get(str(problem["loc"][0])) if problem["loc"] else None
    if problem["type"] == "extra_forbidden":
        close = difflib.get_close_matches(name, cls.model_fields, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(cls.model_fields)}"
        return f"there is no parameter {name!r}; {hint}"
    if problem["type"] == "missing":
        return f"{name} is missing: give it a value in the parameters cell"
    reason = problem["msg"].removeprefix("Value error, ").replace("Input should", "should", 1)
    if not name or "got" in reason:  # a check of ours, whose message says it all
        return reason
    return f"{name}: {reason}; got {problem['input']!r}" + f" ({name} is {words})" * bool(words)
