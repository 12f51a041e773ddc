"""The parameters of each chapter: checked in its first second, before anything is trained.

A chapter's parameters cell holds plain typed values. `Params.from_notebook(globals())` reads them, together
with whatever papermill injected, and stops with one message that names every problem: what was given, what
was allowed, and, for a misspelt name, what may have been meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

_IPYTHONS_OWN = {"In", "Out"}  # plain values that IPython itself puts beside the parameters


P = TypeVar("P", bound="Params")


class ParameterError(ValueError):
    """A chapter was started with parameters that it cannot run with."""


class Params(BaseModel):
    """Parameters of a chapter: a name, a type, a range and a line of help each.

    A subclass declares no defaults: they stand in the notebook's parameters cell, once, where a reader
    looks for them and papermill changes them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def from_notebook(cls: type[P], names: Mapping[str, Any]) -> P:
        """The parameters among a notebook's global names.

        Args:
            names: the notebook's `globals()`, taken right after its parameters cell.

        Raises:
            ParameterError: for unknown names, missing names, wrong types, values out of range and
                combinations that are impossible.
        """
        # When a reader runs the cell again, what later cells defined is there too, and none of our business.
        again = any(isinstance(value, cls) for value in names.values())
        plain = (bool, int, float, str, list, tuple, dict, type(None))

        def may_be_parameter(name: str, value: Any) -> bool:
            return isinstance(value, plain) and not name.startswith("_") and name not in _IPYTHONS_OWN

        return cls.checked(
            {
                name: value
                for name, value in names.items()
                if name in cls.model_fields or (may_be_parameter(name, value) and not again)
            }
        )

    @classmethod
    def checked(cls: type[P], values: Mapping[str, Any]) -> P:
        """The parameters in `values`; see `from_notebook` for the errors."""
        try:
            return cls(**values)
        except ValidationError as error:
            problems = [_explain(cls, problem) for problem in error.errors()]
        # outside the except block, so that pydantic's own traceback does not bury the message
        raise ParameterError("\n  - ".join(["this chapter cannot run with these parameters:", *problems]))

    @classmethod
    def help(cls) -> dict[str, str]:
        """The line of help of each parameter."""
        return {name: field.description or "" for name, field in cls.model_fields.items()}


def _explain(cls: type[Params], problem: Any) -> str:
    """One problem that pydantic found, in the words of this book."""
    name = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        close = difflib.get_close_matches(name, cls.model_fields, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(cls.model_fields)}"
        return f"there is no parameter {name!r}; {hint}"
    if problem["type"] == "missing":
        return f"{name} is missing: {cls.help()[name]}"
    reason = problem["msg"].removeprefix("Value error, ").replace("Input should", "should", 1)
    if not name or "got" in reason:  # a check of ours, whose message says it all
        return reason
    return f"{name}: {reason}; got {problem['input']!r} ({name} is {cls.help()[str(problem['loc'][0])]})"
