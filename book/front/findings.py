"""The claims as tables: a fold per study, a row per claim with the study's number, ours and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import groupby
from pathlib import Path

from book.chapters.findings.claims import STUDIES, findings
from book.chapters.findings.finding import VERDICTS, Finding

FOLD = """\
```{{raw}} html
<details class="claims"{is_open}><summary>{study} {counts}</summary>
```

| claim | the study | ours | verdict |
|---|---|---|---|
{rows}

```{{raw}} html
</details>
```"""


def listed(stage: Path) -> str:
    """The tables of all claims, each linked to its section; the fold of the first study is open."""
    folds = list[str]()
    for study, of_study in groupby(findings(), key=lambda each: each.claim.study):
        claims = list(of_study)
        name = "".join(
            f"<i>{part}</i>" if k % 2 else part for k, part in enumerate(STUDIES[study].split("*"))
        )
        rows, is_open = "\n".join(map(row, claims)), "" if folds else " open"
        folds.append(FOLD.format(is_open=is_open, study=name, counts=counted(claims), rows=rows))
    return "\n\n".join(folds)


def tally(stage: Path) -> str:
    """A line with the number of claims, in total and by verdict."""
    return f"{len(findings())} claims: {counted(findings())}"


def row(finding: Finding) -> str:
    """A table row: a link to the claim, the study's number, our result, and the verdict with its rule."""
    claim, outcome = finding.claim, finding.outcome
    link = f"[{claim.words}](/notebooks/{claim.chapter}.ipynb#{claim.anchor})"
    ours = f"{outcome.result}: **{outcome.number.short}**" if outcome.number else outcome.result
    against = "".join(f"<br>{each}" for each in (outcome.remark, finding.caveat) if each)
    verdict = badge(outcome.verdict, outcome.verdict, claim.rule.replace("`", ""))
    return f"| {link} | {outcome.paper} | {ours} | {verdict}{against} |"


def counted(some: Iterable[Finding]) -> str:
    """The number of findings with each verdict, as badges."""
    verdicts = [each.outcome.verdict for each in some]
    counts = {verdict: verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts}
    return " ".join(badge(verdict, f"{verdict} {count}") for verdict, count in counts.items())


def badge(verdict: str, words: str, title: str = "") -> str:
    """Words in the colour of a verdict."""
    more = f' title="{escape(title)}"' if title else ""
    return f'<span class="verdict {verdict.replace(" ", "-")}"{more}>{words}</span>'
