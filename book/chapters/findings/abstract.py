"""The book's abstract: a paragraph whose clauses state the verdicts of claims, with their numbers."""

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
"""The largest number of words in the abstract."""

OPENING = "This book repeats six attention studies with ground truth."

SENTENCES: Mapping[str, Mapping[str, str]] = {
    "used tokens, and raw attention": {
        REPRODUCED: "Attention rollout beats raw attention at finding the tokens that trained models "
        "use ({}).",
        NOT_REPRODUCED: "Attention rollout does not beat raw attention at finding the tokens that trained "
        "models use ({}).",
        INCONCLUSIVE: "Whether attention rollout beats raw attention at finding the tokens that trained "
        "models use is open ({}).",
        NOT_RUN: "Attention rollout was not compared with raw attention.",
    },
    "programs: rollout, raw attention": {
        REPRODUCED: "In compiled random programs, rollout is better ({}).",
        NOT_REPRODUCED: "In compiled random programs, rollout is not better ({}).",
        INCONCLUSIVE: "In compiled random programs, this is open ({}).",
        NOT_RUN: "No random programs were compiled.",
    },
    "trained: the same order": {
        REPRODUCED: "Trained and compiled transformers favour the same methods (Kendall's tau {}).",
        NOT_REPRODUCED: "Trained and compiled transformers favour different methods (Kendall's tau {}).",
        INCONCLUSIVE: "It is open whether trained and compiled transformers favour the same methods "
        "(Kendall's tau {}).",
        NOT_RUN: "No transformer was trained on random programs.",
    },
    "cause, reversal, language model": {
        REPRODUCED: "Attention makes a language model fail on longer reversals: redirecting "
        "it to the letter to copy gains {}.",
        NOT_REPRODUCED: "Attention does not make a language model fail on longer reversals: redirecting it "
        "changes accuracy by {}.",
        INCONCLUSIVE: "Whether attention makes a language model fail on longer reversals is open: "
        "redirecting it changes accuracy by {}.",
        NOT_RUN: "No language model was made to reverse strings.",
    },
    "copying, none learns": {
        REPRODUCED: "Models do not learn to copy without a co-occurrence signal: after 400 steps {}.",
        NOT_REPRODUCED: "Models learn to copy even without a co-occurrence signal: after 400 steps {}.",
        INCONCLUSIVE: "Whether models learn to copy without a co-occurrence signal is open: after 400 "
        "steps {}.",
        NOT_RUN: "Copying without a co-occurrence signal was not run.",
    },
    "standard metric, the same order": {
        REPRODUCED: "The standard faithfulness metric, masking, ranks methods as ground truth does (tau {}).",
        NOT_REPRODUCED: "The standard faithfulness metric, masking, agrees only partly with ground truth "
        "(tau {}).",
        INCONCLUSIVE: "Whether the standard faithfulness metric, masking, ranks methods as ground "
        "truth does is open (tau {}).",
        NOT_RUN: "The standard faithfulness metric was not compared with ground truth.",
    },
    "metric chosen by ground truth": {
        REPRODUCED: "Replacing one token and measuring log-probability raises this tau by {}.",
        NOT_REPRODUCED: "Replacing one token and measuring log-probability does not raise tau ({}).",
        INCONCLUSIVE: "Whether replacing one token and measuring log-probability raises tau is open ({}).",
        NOT_RUN: "Other metrics were not run.",
    },
}
"""Name of a claim -> verdict -> sentence, in which the claim's number, or a clause with it, replaces {}."""


def copying_clause(number: Number) -> str:
    """A clause on how many models can copy: "all 10 can (failures: 0 % [0, 31])"."""
    if number.value in (0, 1):
        who = f"all {number.n} can" if number.value == 0 else f"none of {number.n} can"
    else:
        who = "most can" if number.value < 0.5 else "most cannot"
    return f"{who} (failures: {number.short})"


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
    """The abstract's paragraph, from the findings of all claims."""
    return " ".join([OPENING, *found_in_short(found)])
