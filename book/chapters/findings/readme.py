"""The findings as the README has them: a table in Markdown, between two markers."""

from collections.abc import Iterable

from book.chapters.findings.claims import STUDIES
from book.chapters.findings.finding import Finding

BEGIN, END = "<!-- findings: python -m book.chapters.findings --readme -->", "<!-- end of findings -->"
"""What stands before the table, and behind it."""


def table(found: Iterable[Finding], whole: bool = False) -> str:
    """A row per finding: the study where it begins, the claim with a link, the verdict, and what came out.

    Args:
        found: the findings.
        whole: with what else is to be known of each.
    """
    lines, study = ["| study | claim | verdict | here |", "|---|---|---|---|"], ""
    for each in found:
        claim = each.claim
        begins = STUDIES[claim.study] if claim.study != study else ""
        study = claim.study
        link = f"[{claim.words}](notebooks/text/{claim.chapter}.md#{claim.anchor})"
        verdict = f"**{each.outcome.verdict}**" + (f" [{each.caveat}]" if each.caveat else "")
        told = f"{each.outcome.found} {each.outcome.more if whole else ''}".strip()
        lines.append(f"| {begins} | {link} | {verdict} | {told} |")
    return "\n".join(lines)


def filled(readme: str, found: str) -> str:
    """A README with this table between its markers.

    Raises:
        ValueError: a marker is missing, or stands there twice.
    """
    if (readme.count(BEGIN), readme.count(END)) != (1, 1):
        raise ValueError(f"the README should hold {BEGIN!r} and {END!r}, once each")
    before, rest = readme.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{found}\n{END}{after}"
