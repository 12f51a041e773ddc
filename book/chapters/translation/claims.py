"""What became of the claim of Snell et al. 2021 about translation."""

from book.chapters.classification.claims import PREDICTS, TABLE, relevance_predicts
from book.chapters.findings.finding import Claim

CLAIMS = (
    Claim(
        "snell2021approximating",
        f"{PREDICTS}, in translation.",
        "translation_dynamics",
        "Paper vs here",
        relevance_predicts(f"{TABLE}, translation", "target tokens"),
    ),
)
