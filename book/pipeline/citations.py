"""Citations as links, for JupyterLab, which knows nothing of a bibliography.

`` {cite}`linzen2016assessing` `` is handed out as a link to the paper by author and year. Its title holds the
role, so that what is saved is the book's own again.
"""

import functools
import re
from pathlib import Path

from pybtex.database import Entry, parse_file

from book._ext.author_year import AuthorYearLabels

BIBLIOGRAPHY = Path(__file__).parents[1] / "references.bib"
ROLE = re.compile(r"\{(cite(?::[pt])?)\}`([\w, -]+)`")
LINK = re.compile(r"\[[^\]]+\]\(\S+ \"(cite(?::[pt])?) ([\w, -]+)\"\)")


@functools.cache
def bibliography() -> dict[str, tuple[str, Entry]]:
    """Every entry with its label, by its key."""
    entries = parse_file(BIBLIOGRAPHY).entries
    labels = AuthorYearLabels().format_labels(list(entries.values()))
    return {key: (label, entry) for (key, entry), label in zip(entries.items(), labels, strict=True)}


def linked(text: str) -> str:
    """The text with links in place of citations; those of keys that are not in the bibliography stay."""
    return ROLE.sub(_link, text)


def cited(text: str) -> str:
    """The text with the book's own citations again."""
    return LINK.sub(lambda link: f"{{{link[1]}}}`{link[2]}`", text)


def _link(role: re.Match[str]) -> str:
    known = bibliography()
    keys = [key.strip() for key in role[2].split(",")]
    if not set(keys) <= set(known):
        return role[0]
    labels = [known[key][0] for key in keys]
    if role[1] == "cite:t":  # part of the sentence: Linzen et al. (2016)
        said = " and ".join(re.sub(r" (\S+)$", r" (\1)", label) for label in labels)
    else:
        said = f"({'; '.join(labels)})"
    return f'[{said}]({known[keys[0]][1].fields["url"]} "{role[1]} {role[2]}")'
