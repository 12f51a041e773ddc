"""Citations as links, for JupyterLab, which knows nothing of a bibliography.

When a chapter is opened, `` {cite}`linzen2016assessing` `` becomes a link to the paper by author and year.
The link's title holds the role, so that saving restores it. If a reader's own link looks like this, one blank
is added to its title and removed on saving, so that `cited` inverts `linked` for every text.
"""

import functools
import re
from pathlib import Path

from pybtex.database import Entry, parse_file

from book._ext.author_year import AuthorYearLabels

BIBLIOGRAPHY = Path(__file__).parents[1] / "references.bib"
ROLE = r"\{(?P<role>cite(?::[pt])?)\}`(?P<keys>[\w, -]+)`"
LINK = (
    r"(?P<link>\[[^\[\]]+\]\((?P<url>[^\s()\[\]]+) \")"
    r"(?P<blanks> *)(?P<said>(?P<as>cite(?::[pt])?) (?P<of>[\w, -]+)\"\))"
)


@functools.cache
def bibliography() -> dict[str, tuple[str, Entry]]:
    """Every entry of the bibliography with its label, by its key."""
    entries = parse_file(BIBLIOGRAPHY).entries
    labels = AuthorYearLabels().format_labels(list(entries.values()))
    return {key: (label, entry) for (key, entry), label in zip(entries.items(), labels, strict=True)}


def linked(text: str) -> str:
    """The text with links in place of citations; citations of unknown keys stay."""
    return re.sub(f"{ROLE}|{LINK}", _link, text)


def cited(text: str) -> str:
    """The text with citations in place of these links: the inverse of `linked`."""
    return re.sub(LINK, _role, text)


def _link(found: re.Match[str]) -> str:
    if found["link"]:
        return f"{found['link']} {found['blanks']}{found['said']}"
    known, keys = bibliography(), _keys(found["keys"])
    if not set(keys) <= set(known):
        return found[0]
    labels = [known[key][0] for key in keys]
    if found["role"] == "cite:t":  # part of the sentence: Linzen et al. (2016)
        said = " and ".join(re.sub(r" (\S+)$", r" (\1)", label) for label in labels)
    else:
        said = f"({'; '.join(labels)})"
    return f'[{said}]({_address(keys)} "{found["role"]} {found["keys"]}")'


def _role(found: re.Match[str]) -> str:
    if found["blanks"]:
        return f"{found['link']}{found['blanks'][1:]}{found['said']}"
    keys = _keys(found["of"])
    ours = set(keys) <= set(bibliography()) and found["url"] == _address(keys)
    return f"{{{found['as']}}}`{found['of']}`" if ours else found[0]


def _keys(text: str) -> list[str]:
    return [key.strip() for key in text.split(",")]


def _address(keys: list[str]) -> str:
    return bibliography()[keys[0]][1].fields["url"]
