"""A Sphinx extension: a chapter's code is folded unless it teaches, and every fold has a label.

Adjacent folds are joined into one.

Only chapters are folded: pages that open with their findings ("In one minute"), and pages of further
experiments. Pages that show how to do something show their code. The setting `fold_code` in _config.yml
unfolds all code. Cells tagged `teaches` stay open. Outputs stay open, too, unless the cell is tagged
`hide-cell`: then its `code_prompt_show` is the label of the fold.
"""

import json
from typing import Any

from sphinx.application import Sphinx

OF_CHAPTER = (":class: one-minute", "{div} underlined")
"""Text that identifies a chapter, or the page of its further experiments."""

HIDE = "Hide them"
"""The label of an open fold whose label when closed does not begin with "Show"."""

OPEN = {"teaches", "hide-input", "hide-cell", "remove-cell", "remove-input"}
"""Tags of cells whose tags are not changed."""


def folded(cell: dict[str, Any]) -> dict[str, Any]:
    """A code cell with the tags and labels that fold it."""
    metadata = cell["metadata"]
    tags = metadata.get("tags", [])
    if not OPEN & set(tags):
        both = "hide-output" in tags and cell["outputs"]  # one fold in place of two
        others = [tag for tag in tags if tag != "hide-output"]
        metadata["tags"] = [*others, "hide-cell" if both else "hide-input"]
        if both or "parameters" in tags:
            label = "Show the code and its output" if both else "Parameters of this run"
            metadata.setdefault("mystnb", {}).setdefault("code_prompt_show", label)
    labels = _labels(cell)
    if "code_prompt_show" in labels:
        shown = labels["code_prompt_show"]
        hide = shown.replace("Show ", "Hide ", 1) if shown.startswith("Show ") else HIDE
        labels.setdefault("code_prompt_hide", hide)
    return cell


def joined(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cells in fewer folds: a folded cell without label and output is joined to a folded cell after it."""
    kept: list[dict[str, Any]] = []
    for cell in cells:
        if kept and _folds(cell) and _folds(kept[-1]) and not kept[-1]["outputs"] and not _labels(kept[-1]):
            cell = cell | {"source": "\n\n".join("".join(each["source"]) for each in (kept.pop(), cell))}
        kept.append(cell)
    return kept


def _folds(cell: dict[str, Any]) -> bool:
    """Whether the page shows the cell in a fold; a cell of the chapter's other page is removed."""
    tags = set(cell["metadata"].get("tags", []))
    return bool({"hide-input", "hide-cell"} & tags) and "remove-cell" not in tags


def _labels(cell: dict[str, Any]) -> dict[str, str]:
    return cell["metadata"].get("mystnb", {})


def fold(app: Sphinx, document: str, source: list[str]) -> None:
    """Fold a chapter as Sphinx reads it; the notebook itself stays as it is."""
    chapter = app.env.doc2path(document).endswith(".ipynb") and any(sign in source[0] for sign in OF_CHAPTER)
    if not app.config.fold_code or not chapter:
        return
    notebook = json.loads(source[0])
    cells = [folded(cell) if cell["cell_type"] == "code" else cell for cell in notebook["cells"]]
    notebook["cells"] = joined(cells)
    source[0] = json.dumps(notebook)


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.add_config_value("fold_code", True, "env", [bool])
    app.connect("source-read", fold)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
