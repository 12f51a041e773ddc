"""Every claim of the book, and its finding."""

import functools

from book.chapters.attribution_benchmark import claims as tells
from book.chapters.classification import claims as classification
from book.chapters.copying import claims as copying
from book.chapters.faithfulness_metrics import claims as judging
from book.chapters.findings.finding import Finding, find
from book.chapters.flow import claims as flow
from book.chapters.generative import claims as generative
from book.chapters.lens import claims as lens
from book.chapters.programs import claims as programs
from book.chapters.rasp import claims as rasp
from book.chapters.reasoning import claims as reasoning
from book.chapters.translation import claims as translation

STUDIES = {
    "weiss2021thinking": "Weiss et al. 2021, *Thinking Like Transformers*",
    "rollout": "*Attention Rollout* for generated text, by AtMan's authors",
    "abnar2020quantifying": "Abnar and Zuidema 2020, *Quantifying Attention Flow in Transformers*",
    "spiegel2025attend": "Spiegel et al. 2025, *Attend or Perish*",
    "lens": "*Attention Lens*, a repository",
    "snell2021approximating": "Snell et al. 2021, *Approximating How Single Head Attention Learns*",
    "all": "Our claims about methods and metrics, tested on ground truth",
    "book": "Our predictions about faithfulness metrics, made before the first run",
    "programs": "Our predictions about random programs, made before drawing them",
}
"""Key -> title of the studies, and of our own groups of claims, in the order of the chapters."""

CLAIMS = (
    *rasp.CLAIMS,
    *generative.CLAIMS,
    *flow.CLAIMS,
    *reasoning.CLAIMS,
    *lens.CLAIMS,
    *classification.CLAIMS,
    *translation.CLAIMS,
    *copying.CLAIMS,
    *judging.CLAIMS,
    *tells.CLAIMS,
    *judging.PREDICTED,
    *programs.CLAIMS,
)
"""All claims, in the same order."""


@functools.cache
def findings() -> tuple[Finding, ...]:
    """Every claim with its verdict, from the records that there are now."""
    return tuple(find(claim) for claim in CLAIMS)
