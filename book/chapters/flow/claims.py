"""The claims of Abnar and Zuidema 2020."""

from __future__ import annotations

from functools import partial

import pandas as pd

from attnlib.stats.seeds import table_over_seeds
from book.chapters.findings.finding import (
    INCONCLUSIVE,
    NOT_REPRODUCED,
    REPRODUCED,
    Claim,
    Outcome,
    fraction,
    number,
    one,
    percent,
    there,
)
from book.chapters.findings.rules import beside
from book.chapters.flow import tables
from book.chapters.flow.measures import FLOW, GRADIENT, OCCLUSION, RAW, ROLLOUT, WITH_CLS, WORDS
from book.chapters.records import paper_figures

TABLES = {OCCLUSION: "Quantifying Attention Flow Table 1", GRADIENT: "Quantifying Attention Flow Table 2"}
"""The paper's tables, by the relevance that agreement is measured with."""

SECTION = "Several seeds and natural sentences"

CORPORA = {"templates": "templates", "linzen": "Wikipedia", "sst": "movie reviews"}


def agrees_better(way: str, data: str, relevance: str, rows: pd.DataFrame) -> Outcome:
    """A method's lead over raw attention in rank correlation: the mean over layers from the second on."""
    rows = tables.recorded(rows)
    there(rows[rows["metric"].eq(tables.ADVANTAGE) & rows["relevance"].eq(relevance)])
    ahead = one(tables.over_layers(rows, relevance), way=way, data=data)
    theirs = published_lead(way, relevance)
    with_cls = one(tables.over_layers(rows, relevance, WITH_CLS), way=way, data=data)
    last = rows["layer"].max()
    models = rows[~rows["untrained"].astype(bool) & ~rows["causal"].astype(bool)]
    agrees = models[models["metric"].eq(tables.AGREEMENT) & models["relevance"].eq(relevance)]
    agrees = agrees[agrees["items"].eq(WORDS) & agrees["data"].eq(data) & agrees["layer"].eq(last)]
    rank = table_over_seeds(agrees, ["way"])
    return Outcome(
        REPRODUCED if ahead.above else NOT_REPRODUCED if ahead.below else INCONCLUSIVE,
        f"Lead in rank correlation, mean over layers {tables.FROM_LAYER} to {last}",
        number(ahead, "seeds", 0, signed=True),
        beside(with_cls, theirs) if data == "linzen" and ahead.above else "",
        f"With all tokens ranked, as published, it is {fraction(with_cls)}; of sentences of the Wikipedia "
        f"the paper has {theirs:.2f}. In the last layer the rank correlation is "
        f"{fraction(one(rank, way=way))}, of raw attention "
        f"{fraction(one(rank, way=RAW))}.{_named(models, way, last) if data == 'templates' else ''}",
        f"{theirs:+.2f} (all tokens ranked)" if data == "linzen" else "",
    )


def published_lead(way: str, relevance: str) -> float:
    """The paper's lead of the method over raw attention: the mean over the same layers."""
    figures = paper_figures().query("table == @TABLES[@relevance]")
    deep = figures[figures["setting"].str.extract(r"(\d+)")[0].astype(int).ge(tables.FROM_LAYER).to_numpy()]
    means = deep.groupby("task")["value"].mean()
    return float(means[way] - means[RAW])


def _named(models: pd.DataFrame, way: str, last: int) -> str:
    """A sentence on how often the subject, which decides the verb's number in templates, is ranked first."""
    names = table_over_seeds(models[models["metric"] == tables.SUBJECT], ["way", "layer"], share=True)
    if names.empty:
        return ""
    found, by_raw = (one(names, way=each, layer=last) for each in (way, RAW))
    return (
        f" The subject, which decides there, is named first in {percent(found)} of the sentences, by raw "
        f"attention in {percent(by_raw)}."
    )


_SENTENCES = {"linzen": "sentences from Wikipedia"}

_TO = {OCCLUSION: "occlusion", GRADIENT: "gradients"}

CLAIMS = tuple(
    Claim(
        "abnar2020quantifying",
        f"{way} and {_TO[relevance]}, {CORPORA[data]}",
        f"On {_SENTENCES.get(data, CORPORA[data])}, {way} agrees with {_TO[relevance]} better than raw "
        "attention does.",
        "quantifying_flow",
        SECTION,
        "As a mean over layers from the second, the rank correlation of words is higher, over seeds, "
        f"corrected for {len(CORPORA)} corpora.",
        partial(agrees_better, way, data, relevance),
    )
    for relevance, corpora in ((OCCLUSION, CORPORA), (GRADIENT, ["linzen"]))
    for way in (ROLLOUT, FLOW)
    for data in corpora
)
