"""The front end of an explorer: what its script imports from the folder ``front``, put together.

A module in a page without a server cannot import its neighbour. So every file of ``front`` says by
``import { name } from "./file.js";`` and ``import "./file.css";`` what it needs, and what an explorer reaches
is joined to one script and one style sheet, each file once and behind those that it imports. Two more files
are made of `attnlib.colours`: ``colours.js`` exports ``COLOURS`` and ``INKS``; ``colours.css`` has the single
colours of each theme as custom properties.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from attnlib.colours import INKS, THEMES

FRONT = Path(__file__).parent / "front"
IMPORT = re.compile(r'^import (?:\{([\w\s,]+)\} from )?"\./([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|(?:async )?function|class) (\w+))", re.MULTILINE)
DEFINED = re.compile(r"^(?:const|let|(?:async )?function|class) (\w+)", re.MULTILINE)


def front_end(explorer: str, folder: Path = FRONT) -> tuple[str, str]:
    """The script and the style sheet of an explorer.

    Args:
        explorer: its file in the folder, which ends with the line ``export default { render };``.
        folder: where it and what it imports are.

    Raises:
        ValueError: a file is not there, imports itself by way of others, imports what is not exported or in
            another way than above; or two files define the same name, which joined would be one.
    """
    found: dict[str, str] = {}
    _find(explorer, (), folder, found)
    scripts = {name: EXPORT.sub("", text) for name, text in found.items() if name.endswith(".js")}
    defined = Counter(name for text in scripts.values() for name in DEFINED.findall(text))
    if twice := [name for name, count in defined.items() if count > 1]:
        raise ValueError(
            f"more than one of {', '.join(scripts)} defines {', '.join(twice)}: rename all but one"
        )
    return "\n".join(scripts.values()), "\n".join(found[name] for name in found if name not in scripts)


def _find(name: str, importers: tuple[str, ...], folder: Path, found: dict[str, str]) -> None:
    """Puts a file into ``found``, without its imports, behind all that it imports."""
    chain = (*importers, name)
    if name in importers:
        raise ValueError(f"{' imports '.join(chain)}")
    if name in found:
        return
    made, path = {"colours.js": _script, "colours.css": _style}, folder / name
    if name not in made and not path.is_file():
        raise ValueError(f"{' imports '.join(chain)}, which is not in {folder.name}")
    text = made[name]() if name in made else path.read_text(encoding="utf-8")
    for names, other in IMPORT.findall(text):
        _find(other, chain, folder, found)
        if missing := set(re.findall(r"\w+", names)) - set(EXPORT.findall(found[other])):
            raise ValueError(f"{name} imports {', '.join(sorted(missing))}, which {other} does not export")
    found[name] = IMPORT.sub("", text)
    if other_way := re.search(r"^\s*import\b.*", found[name], re.MULTILINE):
        raise ValueError(f'{name} holds {other_way[0].strip()!r}; write import {{ name }} from "./file.js";')


def _script() -> str:
    return f"export const COLOURS = {json.dumps(THEMES)};\nexport const INKS = {json.dumps(INKS)};\n"


def _style() -> str:
    def rule(place: str, theme: dict[str, Any]) -> str:
        values = "; ".join(f"--{name}: {value}" for name, value in theme.items() if isinstance(value, str))
        return f"{place} {{ {values}; }}\n"

    return rule(".attnx", THEMES["light"]) + rule('.attnx[data-mode="dark"]', THEMES["dark"])
