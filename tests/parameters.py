"""Parameters of the chapters: what the notebooks' own cells say, and the profiles."""

import ast
from pathlib import Path
from typing import Any

import papermill
import yaml

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def quick(name: str) -> dict[str, Any]:
    """The defaults of a chapter's parameters cell, which the `quick` profile runs with."""
    found = papermill.inspect_notebook(NOTEBOOKS / f"{name}.ipynb")
    return {key: ast.literal_eval(parameter["default"]) for key, parameter in found.items()}


def profile(name: str, which: str) -> dict[str, Any]:
    """What a profile changes of them."""
    return yaml.safe_load((NOTEBOOKS / f"profiles/{name}/{which}.yaml").read_text()) or {}
