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

OPENING = "This book repeats six studies of attention, adding models with ground truth."

SENTENCES: Mapping[str, Mapping[str, str]] = {
    "used tokens, and raw attention": {
        REPRODUCED: "Rollout shows what a model uses better than raw attention: its lead is {} of the "
        "way from noise to ground truth.",
        NOT_REPRODUCED: "Rollout shows what a model uses no better than raw attention: its lead is {} "
        "of the way from noise to ground truth.",
        INCONCLUSIVE: "Whether rollout shows what a model uses better than raw attention stays open: "
        "its lead is {} of the way from noise to ground truth.",
        NOT_RUN: "Rollout was not compared with raw attention.",
    },
    "cause, reversal, language model": {
        REPRODUCED: "Misplaced attention keeps a language model from reversing longer strings: moved to the "
        "right symbol, it raises accuracy by {}.",
        NOT_REPRODUCED: "Misplaced attention does not keep a language model from reversing longer strings: "
        "moved to the right symbol, it changes accuracy by {}.",
        INCONCLUSIVE: "Whether misplaced attention keeps a language model from reversing longer strings "
        "stays open: moved to the right symbol, it changes accuracy by {}.",
        NOT_RUN: "No language model was made to reverse strings.",
    },
    "cause, successor": {
        REPRODUCED: "It also keeps models from counting on ({}).",
        NOT_REPRODUCED: "It does not keep models from counting on ({}).",
        INCONCLUSIVE: "Whether it keeps models from counting on stays open ({}).",
        NOT_RUN: "Counting on was not run.",
    },
    "copying, none learns": {
        REPRODUCED: "Attention without an early co-occurrence signal does not learn: after 400 steps {}.",
        NOT_REPRODUCED: "Attention without an early co-occurrence signal learns late: after 400 steps {}.",
        INCONCLUSIVE: "Whether attention without an early co-occurrence signal can learn stays open: after "
        "400 steps {}.",
        NOT_RUN: "Copying without a co-occurrence signal was not run.",
    },
    "standard metric, the same order": {
        REPRODUCED: "The standard faithfulness metric ranks methods as ground truth does (Kendall's tau {}).",
        NOT_REPRODUCED: "The standard faithfulness metric ranks methods otherwise than ground truth does "
        "(Kendall's tau {}).",
        INCONCLUSIVE: "Whether the standard faithfulness metric ranks methods as ground truth does stays "
        "open (Kendall's tau {}).",
        NOT_RUN: "The standard faithfulness metric was not compared with ground truth.",
    },
    "expected and usual": {
        REPRODUCED: "Replacing tokens and reading log p raises tau by {}.",
        NOT_REPRODUCED: "Replacing tokens and reading log p does not raise tau (by {}).",
        INCONCLUSIVE: "Whether replacing tokens and reading log p raises tau stays open (by {}).",
        NOT_RUN: "Other metrics were not run.",
    },
}
"""By the name of a claim and its verdict; in the place of {} stands its number or a clause of it."""


def copying_clause(number: Number) -> str:
    """How many models can copy: "every model copies (0 % [0, 31] fail)".

    Args:
        number: the share of models that fail.
    """
    if number.value in (0, 1):
        who = "every model copies" if number.value == 0 else "no model copies"
    else:
        who = "most models copy" if number.value < 0.5 else "most models do not copy"
    return f"{who} ({number.short} fail)"


def abstract(found: Iterable[Finding]) -> str:
    """The paragraph, from what came of all claims."""
    by_name = {each.claim.name: each.outcome for each in found}
    said = [OPENING]
    for name, ways in SENTENCES.items():
        outcome = by_name[name]
        clause = outcome.number.short if outcome.number else ""
        if outcome.number and name == "copying, none learns":
            clause = copying_clause(outcome.number)
        said.append(ways[outcome.verdict].format(clause))
    return " ".join(said)
