"""The findings as a list in the page: a heading per study, and under it a line per claim with its verdict."""

from itertools import groupby
from pathlib import Path

from book.chapters.findings.claims import STUDIES, findings
from book.chapters.findings.finding import VERDICTS, Finding, slug

HEADING = "What was claimed, and what came out"
"""Under which they stand in the first page."""

FINDING = """\
::::{{container}} finding {name}
{badge}

:::{{container}} claim
{link}

{told}
:::
::::"""


def listed(stage: Path) -> str:
    """Every claim with its verdict, what came out, and a link to the account."""
    studies = groupby(findings(), key=lambda each: each.claim.study)
    return "\n\n".join(f"{_heading(study)}\n\n" + "\n\n".join(map(line, found)) for study, found in studies)


def tally(stage: Path) -> str:
    """In a line: how many claims there are, and what became of how many."""
    verdicts = [each.outcome.verdict for each in findings()]
    counts = {verdict: verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts}
    badges = " ".join(
        f'<span class="{_name(verdict)}"><span class="verdict">{verdict} {count}</span></span>'
        for verdict, count in counts.items()
    )
    return f"Of [{len(verdicts)} claims](/index.md#{slug(HEADING)}): {badges}"


def line(finding: Finding) -> str:
    """A finding: its verdict as a badge, the claim as the link, and what came out."""
    claim, outcome = finding.claim, finding.outcome
    badge = f'<span class="verdict">{outcome.verdict}</span>'
    link = f"[{claim.words}](/notebooks/{claim.chapter}.ipynb#{claim.anchor})"
    told = " ".join(filter(None, [outcome.found, finding.caveat and f"({finding.caveat})"]))
    return FINDING.format(name=_name(outcome.verdict), badge=badge, link=link, told=told)


def _name(verdict: str) -> str:
    return verdict.replace(" ", "-")


def _heading(study: str) -> str:
    return f":::{{container}} study\n{STUDIES[study]}\n:::"
