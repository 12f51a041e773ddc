"""What the studies claimed, and what came out: read from `results/`, put into words, judged by rules.

`python -m book.findings` prints it; `--readme` writes it into README.md; the book's first page shows it.
"""

import functools

from . import rasp, reasoning, rollout, tells, words
from .finding import VERDICTS, Claim, Finding, find

STUDIES = {
    "weiss2021thinking": "Weiss, Goldberg and Yahav 2021, *Thinking Like Transformers*",
    "rollout": "Attention rollout for language models that write",
    "abnar2020quantifying": "Abnar and Zuidema 2020, *Quantifying Attention Flow in Transformers*",
    "spiegel2025attend": "Spiegel et al. 2025, *Attend or Perish*",
    "lens": "*Attention Lens*, a repository without a paper",
    "snell2021approximating": "Snell et al. 2021, *Approximating How Single Head Attention Learns*",
    "all": "All of them, together",
}
"""What is called a study here, in the order of the chapters."""

CLAIMS = (*rasp.CLAIMS, *rollout.CLAIMS, *reasoning.CLAIMS, *words.CLAIMS, *tells.CLAIMS)
"""What is judged, in the same order."""


@functools.cache
def findings() -> tuple[Finding, ...]:
    """Every claim with its verdict, from the records that there are now."""
    return tuple(find(claim) for claim in CLAIMS)


__all__ = ["CLAIMS", "STUDIES", "VERDICTS", "Claim", "Finding", "findings"]
