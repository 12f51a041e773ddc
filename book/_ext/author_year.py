"""A Sphinx extension: the list of references by author and year, as the text cites them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pybtex.database import Entry
from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style as Unsorted
from pybtex.style.labels import BaseLabelStyle
from sphinx.application import Sphinx


class AuthorYearLabels(BaseLabelStyle):
    """Labels such as "Abnar and Zuidema 2020"; a letter after the year distinguishes equal labels."""

    def format_labels(self, sorted_entries: Sequence[Entry]) -> Iterator[str]:
        """One label per entry, in their order."""
        labels = [f"{_names(entry)} {entry.fields.get('year', 'n.d.')}" for entry in sorted_entries]
        shared, seen = Counter(labels), Counter[str]()
        for label in labels:
            yield label + (chr(ord("a") + seen[label]) if shared[label] > 1 else "")
            seen[label] += 1


class AuthorYear(Unsorted):
    """Entries as the style "unsrt" writes them, sorted by author, year and title."""

    name = "author_year"
    default_label_style = AuthorYearLabels
    default_sorting_style = "author_year_title"


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    register_plugin("pybtex.style.formatting", AuthorYear.name, AuthorYear)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _names(entry: Entry) -> str:
    """The last names of one author or two, or of the first of more; of editors where there is no author."""
    people = entry.persons.get("author") or entry.persons.get("editor") or []
    last = [" ".join([*each.prelast_names, *each.last_names]).strip("{}") for each in people]
    if not last:
        return str(entry.fields.get("title", entry.key))
    return f"{last[0]} et al." if len(last) > 2 else " and ".join(last)
