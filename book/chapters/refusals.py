"""Checks of parameters that several chapters share, and the error messages about parameters.

No result depends on the refusals: records do not include the code in this file.
"""

from __future__ import annotations

import json
import os
import re
import reprlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache
from huggingface_hub.utils import HFValidationError, validate_repo_id
from pydantic import BaseModel, ValidationError

from attnlib.checks import hint
from attnlib.models.pretrained import check_model_folder
from attnlib.places import expanded

WITHOUT_ATTENTION = frozenset({"falcon_mamba", "mamba", "mamba2", "rwkv", "xlstm"})
"""Architectures of causal language models, by their names at Hugging Face, that form no attention."""

REFUSED = "this chapter cannot run with these parameters:"

MOST_PROBLEMS = 10
"""The most problems that one message lists."""

_SHOWN = 200  # characters of a value in a message

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHOWN


class ParameterError(ValueError):
    """A chapter was started with parameters that it cannot run with."""


def refusal(cls: type[BaseModel], error: ValidationError) -> ParameterError:
    """One message that names the problems that pydantic found."""
    problems = [_explain(cls, problem) for problem in error.errors()]
    more = [f"... and {len(problems) - MOST_PROBLEMS} more"] if len(problems) > MOST_PROBLEMS else []
    said = [REFUSED, *problems[:MOST_PROBLEMS], *more]
    return ParameterError("\n  - ".join(said))


def refuse_model_name(name: str, parameter: str = "model", known: Collection[str] = ()) -> None:
    """Refuse a name that no pretrained model can have, and a local or cached model without attention."""
    if name in known:
        return
    folder = expanded(name)
    config = folder / "config.json" if name and folder.is_dir() else None
    if config is not None:
        check_model_folder(name)
    else:
        repository, _, revision = name.partition("@")
        try:
            validate_repo_id(repository)
        except HFValidationError:
            also = "".join(f", {each!r}" for each in known)
            raise ValueError(
                f"{parameter} should be a folder that is there, or a name on the Hugging Face hub "
                f"(owner/model or owner/model@revision){also}; got {shown(name)}"
            ) from None
        kept = try_to_load_from_cache(repository, "config.json", revision=revision or None)
        config = Path(kept) if isinstance(kept, str) else None
    if config is not None and (kind := _type_in(config)) in WITHOUT_ATTENTION:
        raise ValueError(f"{parameter} should be a model with attention; got {shown(name)}, of type {kind}")


def refuse_same_names(runs: Iterable[Any]) -> None:
    """Refuse runs that share a name: tables would count one model twice."""
    names = [run.name for run in runs]
    if twice := [name for place, name in enumerate(names) if name in names[:place]]:
        raise ValueError(
            f"every model should have a name of its own; got two called {shown(twice[0])}: leave out a value "
            "that is given twice, or nearly"
        )


def refuse_scores_folder(name: str) -> None:
    """Refuse a path that cannot be a folder to write to; "" stands for no folder."""
    place = Path(name)
    there = next(each for each in (place, *place.parents) if each.exists())
    if name and not (there.is_dir() and os.access(there, os.W_OK)):
        raise ValueError(
            f"scores_folder should be a folder that can be written to, there or yet to be made; got "
            f"{shown(name)}, and {there} is " + ("not to be written to" if there.is_dir() else "a file")
        )


def refuse_data_folder(name: str) -> bool:
    """Refuse a path that is no folder and cannot become one; return whether it is a folder with files."""
    if not name:
        return False
    folder = Path(name)
    new = folder.parent.is_dir() and not folder.exists() and re.fullmatch(r"[\w .-]+", folder.name)
    if not (folder.is_dir() or new):
        raise ValueError(
            "data_folder should be a folder, or a new one in a folder that is there, named in letters, "
            f"digits, blanks, - and .; got {shown(name)}"
        )
    return folder.is_dir() and any(folder.iterdir())


def _type_in(config: Path) -> str | None:
    """The type of a model in its `config.json`; `None` if the file is damaged, which loading reports."""
    try:
        return json.loads(config.read_bytes())["model_type"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def shown(value: Any) -> str:
    """A value as text for a message, shortened to `_SHOWN` characters."""
    text = _SHORT.repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _visible(text: str) -> str:
    """The text with all non-printable characters but line breaks escaped (such as text direction marks)."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _explain(cls: type[BaseModel], problem: Any) -> str:
    """One problem that pydantic found, in the words of this book."""
    name = _visible(
        ".".join(shown(part) if len(str(part)) > _SHOWN else str(part) for part in problem["loc"])
    )
    if problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1:
        meant = hint(name, cls.model_fields) or f"; there are {', '.join(cls.model_fields)}"
        return f"there is no parameter {shown(problem['loc'][0])}{meant}"
    if problem["type"] == "missing" and len(problem["loc"]) == 1:
        return f"{name} is missing: give it a value in the parameters cell"
    reason = _visible(problem["msg"].removeprefix("Value error, ").replace("Input should", "should", 1))
    reason = reason.replace("a valid boolean", "True or False").replace("Extra inputs are", "is", 1)
    if problem["type"] == "list_type" and isinstance(problem["input"], str):
        reason += f""", as in -y '{name}: [a, b]' or -p {name} '["a", "b"]'"""
    if name and "got" not in reason:  # for a combination, pydantic's input is all parameters
        reason += f"; got {shown(problem['input'])}"
    named = not name or reason.startswith(str(problem["loc"][0]))  # our checks may name the parameter
    return reason if named else f"{name}: {reason}"
