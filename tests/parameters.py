"""Parameters of the chapters: what the notebooks' own cells say, and the profiles."""

from typing import Any

import yaml

from book.chapters.storing import NOTEBOOKS, all_chapters, defaults_of

CHAPTERS = all_chapters()


def profile(name: str, which: str) -> dict[str, Any]:
    """What a profile changes of them."""
    return yaml.safe_load((NOTEBOOKS / f"profiles/{name}/{which}.yaml").read_text()) or {}


def smallest(name: str, **changes: Any) -> Any:
    """A chapter at its smallest, on the CPU."""
    return CHAPTERS[name].checked(defaults_of(name) | profile(name, "smoke") | {"device": "cpu"} | changes)
