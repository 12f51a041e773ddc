"""What no chapter can be run with, and how it says what is wrong with its parameters.

No number depends on what is refused: records do not count the code in this file.
"""

from __future__ import annotations

import ast
import difflib
import json
import math
import re
import reprlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.utils import HFValidationError, validate_repo_id
from pydantic import BaseModel, ValidationError

LARGEST_COUNT = 10_000_000
"""Of steps, samples, sizes: a hundred times what the largest profile asks for."""

LARGEST_SEED = 2**63 - 1
"""What random generators and tables take."""

LARGEST_NUMBER = float(torch.finfo(torch.float32).max)
"""What weights and losses can hold."""

LONGEST_TEXT = 1000
"""Characters of a name or a sample; a prompt may have `LONGEST_PROMPT`."""

LONGEST_PROMPT = 1_000_000

LONGEST_LIST = 10_000

DEEPEST = 8  # lists in lists

WITHOUT_ATTENTION = frozenset({"falcon_mamba", "mamba", "mamba2", "rwkv", "xlstm"})
"""Architectures of causal language models, by their names at Hugging Face, that form no attention."""

_SHOWN = 200  # characters of a value in a message

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHOWN


class ParameterError(ValueError):
    """A chapter was started with parameters that it cannot run with."""


def refusal(cls: type[BaseModel], error: ValidationError, cells: Sequence[str] = ()) -> ParameterError:
    """One message that names every problem that pydantic found; `cells`: see `words_of`."""
    problems = [_explain(cls, problem, cells) for problem in error.errors()]
    return ParameterError("\n  - ".join(["this chapter cannot run with these parameters:", *problems]))


def refuse_unsound(values: Mapping[str, Any]) -> None:
    """Refuse what is beyond any chapter: endless numbers, texts that no file can hold, a GPU where none is.

    Args:
        values: parameters, not checked yet.

    Raises:
        ValueError: names every one of them, a line each.
    """
    problems = [words for name, value in values.items() for words in _unsound(name, value)]
    if values.get("device") == "cuda" and not torch.cuda.is_available():
        problems.append("device should be auto or cpu here, where torch finds no GPU; got 'cuda'")
    if problems:
        raise ValueError("\n  - ".join(problems))


def _unsound(name: str, value: Any, depth: int = 0) -> Iterator[str]:
    problem = None
    if isinstance(value, str):
        longest = LONGEST_PROMPT if name == "prompt" else LONGEST_TEXT
        if len(value) > longest:
            problem = f"should have at most {longest:,} characters; got {len(value):,}"
        elif "\0" in value:
            problem = "should hold no null character"
        elif any("\ud800" <= character <= "\udfff" for character in value):
            problem = "should hold whole characters, no half of one (a surrogate)"
    elif isinstance(value, float) and not abs(value) <= LARGEST_NUMBER:
        problem = (
            f"should be a number up to {LARGEST_NUMBER:.2g}" if math.isfinite(value) else "should be finite"
        )
    elif isinstance(value, int) and not isinstance(value, bool):
        seed = "seed" in name
        if seed and not 0 <= value <= LARGEST_SEED:
            problem = "should be from 0 to 2^63 - 1"
        elif not seed and abs(value) > LARGEST_COUNT:
            problem = f"should be at most {LARGEST_COUNT:,}"
    elif isinstance(value, (list, tuple, set, dict)):
        if depth == DEEPEST or len(value) > LONGEST_LIST:
            problem = f"should have at most {LONGEST_LIST:,} entries, and no more than {DEEPEST} levels"
        else:
            inner = [*value, *value.values()] if isinstance(value, dict) else value
            for each in inner:
                yield from _unsound(name, each, depth + 1)
    if problem:
        yield f"{name} {problem}" + ("" if "got" in problem else f"; got {shown(value)}")


def refuse_model_name(name: str, parameter: str = "model", known: Collection[str] = ()) -> None:
    """Refuse what can be no pretrained model, and one that is here whose architecture has no attention.

    Args:
        name: a folder, a name on the hub (`owner/model`, `owner/model@revision`), or a known one.
        parameter: what it was given as.
        known: further names.

    Raises:
        ValueError: says what is allowed.
    """
    if name in known:
        return
    folder = Path(name).expanduser()
    config = folder / "config.json" if name and folder.is_dir() else None
    if config is None:
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


def refuse_data_folder(name: str) -> bool:
    """Refuse what can be no folder of data, there already or yet to be made.

    Args:
        name: of the folder; "": none.

    Returns:
        Whether it is there, with something in it.

    Raises:
        ValueError: says what is allowed.
    """
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
    """The type of a model, as its `config.json` says; loading tells what is wrong with a file."""
    try:
        return json.loads(config.read_bytes())["model_type"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def shown(value: Any) -> str:
    """A value in a message: no longer than a reader wants to see, and in characters that can be seen."""
    text = _SHORT.repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _visible(text: str) -> str:
    """A text whose characters can all be seen, but for line breaks: none turns the line around, say."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


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
        return f"there is no parameter {shown(name)}; {hint}"
    if problem["type"] == "missing":
        return f"{name} is missing: give it a value in the parameters cell"
    reason = _visible(problem["msg"].removeprefix("Value error, ").replace("Input should", "should", 1))
    reason = reason.replace("a valid boolean", "True or False")
    if problem["type"] == "list_type" and isinstance(problem["input"], str):
        reason += f""", as in -y '{name}: [a, b]' or -p {name} '["a", "b"]'"""
    if not name or "got" in reason:  # a check of ours, whose message says it all
        return reason
    return f"{name}: {reason}; got {shown(problem['input'])}" + f" ({name} is {words})" * bool(words)
