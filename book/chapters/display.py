"""The field's standard terms for names in registries and records, as pages show them.

Recorded strings stay as they are. `display_name` translates one of them into the standard term, and
`display_names` a whole table. A name without a translation stays as it is.
"""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from book.chapters.telling import side_clause

NAMES = {
    "the known answers": "ground truth",
    "known answers, by halves": "ground truth, split halves",
    "chosen": "oracle",
    "chosen, not told R": "selected",
    "the chosen judge": "the oracle metric",
    "expected": "pre-registered",
    "usual": "standard",
    "best here": "best on this page",
    "chosen on": "selection",
    "confirmed on": "confirmation",
    "the truth": "ground truth",
    "the truth, completed": "ground truth, completed",
    "noise alone": "noise",
    "before the truth": "methods above ground truth",
    "tau": "τ",
    "as it was": "not retrained",
    "random places": "retrained, random positions",
    "trained as ever": "ordinary training",
    "trained with keys hidden": "trained with masked keys",
    "gained by keys hidden": "difference",
    "the judge": "the selected metric",
    "tokens that such prompts have": "the vocabulary of the task",
    "even attention": "uniform attention",
    "blank-out": "occlusion",
    "gradient x embedding": "input × gradient",
    "rollout over null": "normalized rollout",
    "sink-free over null": "normalized sink-free rollout",
    "through hops": "multi-hop, without own token",
    "through hops, own token too": "multi-hop",
    "walks": "pointer chasing",
    "yes": "confirmed",
    "no": "refuted",
    "not settled": "inconclusive",
    "protocol": "metric",
    "judge": "metric",
    "came out": "outcome",
    "somers": "Somers' D",
    "ladder": "sanity check",
    "above": "above ground truth",
    "halves": "split halves",
    "known halves": "ground truth, split halves",
    "out": "fails the check",
    "there": "available",
}
"""Recorded name -> the term that pages show."""

PREDICTIONS = {
    "The drop of log p without the first token, replaced, agrees better than today's judge": (
        "Replacing the top token and reading the drop of log p agrees better than the standard metric"
    ),
    "log p is the better reading than p against a foil": (
        "Reading log p is better than reading p relative to that of another answer"
    ),
    "The first token alone tells more than shares of the tokens": (
        "Removing the top token alone tells more than removing shares of the tokens"
    ),
    "So does LDS": "The linear datamodeling score (LDS) tells more than removing shares of the tokens",
    "The judge that masks the first token and reads log p agrees better with the known answers about "
    "models that were trained with keys hidden": (
        "Masking the top token and reading log p agrees better with ground truth in models that were "
        "trained with masked keys"
    ),
    "The confirmed judge agrees better with the place of the needle than the usual one": (
        "The selected metric agrees better with the position of the needle than the standard metric"
    ),
    "It puts fewer measures before the needle": (
        "The selected metric scores fewer methods higher than the needle"
    ),
    "Trained again measure by measure, the truth loses less than random places where symbols are counted": (
        "Where symbols are counted, ROAR loses fewer answers without sources than without random symbols"
    ),
    "Random places, trained once, agree better with the known answers than ROAR does": (
        "The control with random positions agrees better with ground truth than ROAR"
    ),
    "They put fewer measures before the truth than ROAR does": (
        "The control scores fewer methods higher than ground truth than ROAR does"
    ),
    "Weights that were learned in distribution find the sources of longer inputs better than even ones": (
        "Weights that were learned in distribution find the sources of longer inputs better than equal "
        "weights"
    ),
    "Those that were learned from the like find them better": (
        "Weights that were learned on longer inputs find these sources better than weights that were "
        "learned in distribution"
    ),
    "Weights of another seed find them worse than the model's own": (
        "Weights of another seed find these sources worse than the model's own"
    ),
}
"""Prediction as it was committed before its run -> the same in standard terms."""

_UNTRAINED = ", untrained"
_NOISED = re.compile(r"the truth and ([\d.]+) of noise")
_FIRST = re.compile(r"without the first( R| \d+)?(?=, |$)")


def display_name(name: str) -> str:
    """The standard term for a recorded name: "occlusion" for "blank-out"."""
    if " = " in name:
        return " = ".join(map(display_name, name.split(" = ")))
    if name.endswith(_UNTRAINED):
        return display_name(name.removesuffix(_UNTRAINED)) + _UNTRAINED
    if name in PREDICTIONS:
        return PREDICTIONS[name]
    name = _NOISED.sub(r"ground truth, noise \1", NAMES.get(name, name))
    return _FIRST.sub(lambda found: f"top {(found[1] or ' 1').strip().replace('R', 'k')}", name)


def display_names(table: pd.DataFrame) -> pd.DataFrame:
    """The table with `display_name` applied to its columns' names and to all strings in them."""
    said = table.apply(lambda column: column.map(_shown))
    return said.rename(columns=_shown)


def _shown(value: Any) -> Any:
    return display_name(value) if isinstance(value, str) else value


def standing(difference: Any) -> str:
    """A difference in words, by the side of 0 on which its confidence interval lies."""
    words = ("significantly behind", "not significantly different from", "significantly ahead of")
    return side_clause(difference, *words)


def significance(difference: Any) -> str:
    """Whether the confidence interval of a difference excludes 0, in words."""
    return side_clause(difference, "significant", "not significant", "significant")


def tally_clause(outcomes: pd.Series) -> str:
    """The outcomes of predictions in the run of a page as a clause, or that the run decides none of them."""
    yes, no = (int((outcomes == said).sum()) for said in ("yes", "no"))
    if not yes + no:
        return f"This page's run is too small to decide any of the {len(outcomes)}; see the recorded run"
    return f"In this page's run, {yes} of {len(outcomes)} were confirmed and {no} refuted"
