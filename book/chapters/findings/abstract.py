"""What the book found, in a paragraph: each clause says what its claim's verdict is, with its number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from book.chapters.findings.finding import (
    INCONCLUSIVE,
    NOT_REPRODUCED,
    NOT_RUN,
    REPRODUCED,
    Finding,
    Number,
)

MOST = 120
"""Words."""

OPENING = "This book repeats six attention studies, adding ground truth."

SENTENCES: Mapping[str, Mapping[str, str]] = {
    "used tokens, and raw attention": {
        REPRODUCED: "On the chapters' models, attention rollout finds the tokens used better than raw "
        "attention (lead {}; noise 0, ground truth 1).",
        NOT_REPRODUCED: "On the chapters' models, attention rollout finds the tokens used no better than raw "
        "attention (lead {}; noise 0, ground truth 1).",
        INCONCLUSIVE: "Whether attention rollout finds the tokens used by the chapters' models better than "
        "raw attention is open (lead {}; noise 0, ground truth 1).",
        NOT_RUN: "Attention rollout was not compared with raw attention.",
    },
    "programs: rollout, raw attention": {
        REPRODUCED: "On random programs compiled to transformers, rollout leads by {}.",
        NOT_REPRODUCED: "On random programs compiled to transformers, rollout does not lead either ({}).",
        INCONCLUSIVE: "Whether rollout leads on random programs compiled to transformers is open ({}).",
        NOT_RUN: "No random programs were compiled.",
    },
    "trained: the same order": {
        REPRODUCED: "Trained transformers order methods as compiled ones do (Kendall's tau {}).",
        NOT_REPRODUCED: "Trained transformers order methods unlike compiled ones (Kendall's tau {}).",
        INCONCLUSIVE: "Whether trained transformers order methods as compiled ones do is open "
        "(Kendall's tau {}).",
        NOT_RUN: "No transformer was trained on random programs.",
    },
    "cause, reversal, language model": {
        REPRODUCED: "A language model fails to reverse longer strings because of its attention: redirecting "
        "it gains {}.",
        NOT_REPRODUCED: "A language model does not fail to reverse longer strings because of its attention: "
        "redirecting it gains {}.",
        INCONCLUSIVE: "Whether a language model fails to reverse longer strings because of its attention is "
        "open: redirecting it gains {}.",
        NOT_RUN: "No language model was made to reverse strings.",
    },
    "copying, none learns": {
        REPRODUCED: "Models do not learn to copy if co-occurrence says nothing: after 400 steps {}.",
        NOT_REPRODUCED: "Models learn to copy even if co-occurrence says nothing: after 400 steps {}.",
        INCONCLUSIVE: "Whether models learn to copy if co-occurrence says nothing is open: after 400 "
        "steps {}.",
        NOT_RUN: "Copying without a co-occurrence signal was not run.",
    },
    "standard metric, the same order": {
        REPRODUCED: "The standard faithfulness metric, token masking, ranks methods as ground truth does "
        "(tau {}).",
        NOT_REPRODUCED: "The standard faithfulness metric, token masking, ranks methods unlike ground truth "
        "(tau {}).",
        INCONCLUSIVE: "Whether the standard faithfulness metric, token masking, ranks methods as ground "
        "truth does is open (tau {}).",
        NOT_RUN: "The standard faithfulness metric was not compared with ground truth.",
    },
    "expected and usual": {
        REPRODUCED: "Token replacement raises tau by {}.",
        NOT_REPRODUCED: "Token replacement does not raise tau ({}).",
        INCONCLUSIVE: "Whether token replacement raises tau is open ({}).",
        NOT_RUN: "Other metrics were not run.",
    },
}
"""By the name of a claim and its verdict; in the place of {} stands its number or a clause of it."""


def copying_clause(number: Number) -> str:
    """How many models can copy: "every model copies (0 % [0, 31] fail)"."""
    if number.value in (0, 1):
        who = "every model copies" if number.value == 0 else "no model copies"
    else:
        who = "most models copy" if number.value < 0.5 else "most models do not copy"
    return f"{who} ({number.short} fail)"


def found_in_short(found: Iterable[Finding]) -> list[str]:
    """A sentence for each claim of `SENTENCES`, with its number."""
    by_name = {each.claim.name: each.outcome for each in found}
    said = []
    for name, ways in SENTENCES.items():
        outcome = by_name[name]
        clause = outcome.number.short if outcome.number else ""
        if outcome.number and name == "copying, none learns":
            clause = copying_clause(outcome.number)
        said.append(ways[outcome.verdict].format(clause))
    return said


def abstract(found: Iterable[Finding]) -> str:
    """The paragraph, from what came of all claims."""
    return " ".join([OPENING, *found_in_short(found)])
