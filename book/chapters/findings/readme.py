"""The findings for README.md and CITATION.cff, and as a table of all claims."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from textwrap import fill

from book.chapters.findings.abstract import abstract, found_in_short
from book.chapters.findings.claims import STUDIES
from book.chapters.findings.finding import VERDICTS, Finding

BEGIN, END = "<!-- findings: python -m book.chapters.findings --readme -->", "<!-- end of findings -->"
"""The markers before and after the findings in README.md."""

COUNTS = "The table counts the claims of the six studies, and three groups of our own."
"""The sentence before the README's table of studies."""

CITED = "abstract: >-\n"
"""The beginning of the abstract in CITATION.cff; the abstract ends at the next key."""


def table(found: Iterable[Finding]) -> str:
    """A row per claim: the study (in its first row only), claim, verdict, result, rule, and remarks."""
    lines = ["| study | claim | verdict | result | rule | more |", "|---|---|---|---|---|---|"]
    study = ""
    for each in found:
        claim, outcome = each.claim, each.outcome
        begins = STUDIES[claim.study] if claim.study != study else ""
        study = claim.study
        verdict = ", ".join(filter(None, [f"**{outcome.verdict}**", outcome.remark])) + (
            f" [{each.caveat}]" if each.caveat else ""
        )
        rule = f"{claim.rule}{' Committed before the first run.' if claim.before else ''}"
        lines.append(
            f"| {begins} | {_linked(each)} | {verdict} | {outcome.words} | {rule} | {outcome.more} |"
        )
    return "\n".join(lines)


def by_study(found: Iterable[Finding]) -> str:
    """A row per study: how many of its claims have each verdict, and links to the discussions."""
    lines = [f"| study | {' | '.join(VERDICTS)} | account |", "|---|" + "---|" * (len(VERDICTS) + 1)]
    for study, of_study in groupby(found, key=lambda each: each.claim.study):
        claims = list(of_study)
        verdicts = [each.outcome.verdict for each in claims]
        counts = " | ".join(str(verdicts.count(verdict)) for verdict in VERDICTS)
        chapters = dict.fromkeys(each.claim.chapter for each in claims)
        links = ", ".join(f"[{name.replace('_', ' ')}](notebooks/text/{name}.md)" for name in chapters)
        lines.append(f"| {STUDIES[study]} | {counts} | {links} |")
    return "\n".join(lines)


def filled(readme: str, found: Iterable[Finding]) -> str:
    """A README with the abstract's sentences, a line each, and the table of studies between its markers."""
    if (readme.count(BEGIN), readme.count(END)) != (1, 1):
        raise ValueError(f"the README should hold {BEGIN!r} and {END!r}, once each")
    before, rest = readme.split(BEGIN)
    after, found = rest.split(END)[1], list(found)
    listed = "\n".join(f"- {sentence}" for sentence in found_in_short(found))
    return f"{before}{BEGIN}\n{listed}\n\n{COUNTS}\n\n{by_study(found)}\n{END}{after}"


def cited(citation: str, found: Iterable[Finding]) -> str:
    """A CITATION.cff with the abstract under its key."""
    if citation.count(CITED) != 1:
        raise ValueError(f"CITATION.cff should hold {CITED!r}, once")
    before, rest = citation.split(CITED)
    lines = rest.splitlines(keepends=True)
    kept = next(place for place, line in enumerate(lines) if not line.startswith("  "))
    text = fill(abstract(found), 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return f"{before}{CITED}{text}\n{''.join(lines[kept:])}"


def _linked(finding: Finding) -> str:
    claim = finding.claim
    return f"[{claim.words}](notebooks/text/{claim.chapter}.md#{claim.anchor})"
