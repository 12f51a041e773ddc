"""A bundler for the front ends of explorers, whose sources lie in the folder ``front``.

A page opened from disk cannot import one module from another. So the files of ``front`` name what they need
by ``import { name } from "./file.js";`` and ``import "./file.css";``, and all files that an explorer imports,
directly or not, are joined to one script and one style sheet: each file once, after those that it imports.
Two more files are generated from `attnlib.colours`: ``colours.js`` exports ``COLOURS`` and ``INKS``;
``colours.css`` has the single colours of each theme as custom properties.
"""

import json
import re
from pathlib import Path
from typing import Any

from attnlib.colours import INKS, THEMES

FRONT = Path(__file__).parent / "front"
IMPORT = re.compile(r'^import (?:\{([\w\s,]+)\} from )?"\./([^"]+)";\n', re.MULTILINE)
HEADER = re.compile(r"\A(?://.*\n)+\n")  # for editors of the file; left out of pages to keep them small
EXPORT = re.compile(r"^export (?=(?:const|(?:async )?function|class) (\w+))", re.MULTILINE)


def front_end(explorer: str, folder: Path = FRONT) -> tuple[str, str]:
    """The script and the style sheet of an explorer: its file in the folder, joined with all its imports."""
    found: dict[str, str] = {}
    _find(explorer, folder, found)
    script = "\n".join(text for name, text in found.items() if name.endswith(".js"))
    return script, "\n".join(text for name, text in found.items() if name.endswith(".css"))


def _find(name: str, folder: Path, found: dict[str, str]) -> None:
    """Adds a file to ``found``, after all that it imports; its header, imports and exports are removed."""
    made = {"colours.js": _script, "colours.css": _style}
    text = made[name]() if name in made else (folder / name).read_text(encoding="utf-8")
    for _, other in IMPORT.findall(text):
        if other not in found:
            _find(other, folder, found)
    found[name] = EXPORT.sub("", IMPORT.sub("", HEADER.sub("", text)))


def _script() -> str:
    return f"export const COLOURS = {json.dumps(THEMES)};\nexport const INKS = {json.dumps(INKS)};\n"


def _style() -> str:
    def rule(place: str, theme: dict[str, Any]) -> str:
        values = "; ".join(f"--{name}: {value}" for name, value in theme.items() if isinstance(value, str))
        return f"{place} {{ {values}; }}\n"

    return rule(".attnx", THEMES["light"]) + rule('.attnx[data-mode="dark"]', THEMES["dark"])
