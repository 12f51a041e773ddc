"""The findings as a list in the page: a heading per study, and under it a line per claim with its verdict."""

from itertools import groupby
from pathlib import Path

from book.findings import STUDIES, Finding, findings


def listed(stage: Path) -> str:
    """Every claim with its verdict, what came out, and a link to the account."""
    studies = groupby(findings(), key=lambda each: each.claim.study)
    return "\n\n".join(f"{_heading(study)}\n\n" + "\n\n".join(map(line, found)) for study, found in studies)


def line(finding: Finding) -> str:
    """A finding: its verdict as a badge, the claim as the link, and what came out."""
    claim, outcome = finding.claim, finding.outcome
    verdict = outcome.verdict.replace(" ", "-")
    badge = f'<span class="verdict">{outcome.verdict}</span>'
    link = f"[{claim.words}](/notebooks/{claim.chapter}.ipynb#{claim.anchor})"
    told = " ".join(filter(None, [outcome.found, finding.caveat and f"({finding.caveat})"]))
    return (
        f"::::{{container}} finding {verdict}\n{badge}\n\n:::{{container}} claim\n{link}\n\n{told}\n:::\n::::"
    )


def _heading(study: str) -> str:
    return f":::{{container}} study\n{STUDIES[study]}\n:::"
