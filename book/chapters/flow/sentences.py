"""Numbers that the sentences of the page on rollout and flow quote.

`tell_recorded` and `tell_exercises` tell recorded numbers; the others tell what this run has computed.
"""

from __future__ import annotations

import pandas as pd

from book.chapters.flow import tables
from book.chapters.flow.measures import (
    DENSE,
    EARLIER,
    FLOW,
    GRADIENT,
    OCCLUSION,
    OVER_NULL,
    RAW,
    ROLLOUT,
    WITH_CLS,
    WORDS,
)
from book.chapters.flow.quantifying_flow import SST, FlowRun
from book.chapters.records import came_with_the_book, one_number, paper_figures
from book.chapters.telling import tell, tell_in_words
from book.chapters.this_run import if_learned

CORPORA = {"linzen": "sentences from Wikipedia", "sst": "movie reviews", "templates": "templates"}


def tell_prediction(sentence: str, run: FlowRun, prediction: int) -> None:
    """Tell what the model of a run predicts for a sentence."""
    classes = ["negative", "positive"] if run.data == SST else ["a singular verb", "a plural verb"]
    tell({"sentence": sentence, "prediction": classes[prediction]})


def tell_correlations(means: pd.DataFrame, run: FlowRun, n_layers: int) -> None:
    """Tell how the methods correlate with occlusion and the gradient in one model and its untrained twin.

    Args:
        means: the table of `tables.by_layer`, of all models.
        run: of the model.
        n_layers: how many layers it has; the methods are those of the last one.
    """
    of_run = means["seed"].eq(run.seed) & means["data"].eq(run.data) & ~means["causal"]
    own = means[of_run & means["items"].eq(WORDS)]
    value = own.set_index(["way", "layer", "relevance", "untrained"])["value"]
    tell({f"last {way}": value[way, n_layers, OCCLUSION, False] for way in (RAW, ROLLOUT, FLOW)})
    for name, relevance in {"": OCCLUSION, ", gradient": GRADIENT}.items():
        tell({f"last rollout untrained{name}": value[ROLLOUT, n_layers, relevance, True]})
    tell({"earlier": value[EARLIER, 0, OCCLUSION, False], "n": own["n"].max()})


def tell_subject(named: pd.DataFrame, right: float) -> None:
    """Tell how often occlusion and the gradient rank the subject first.

    Args:
        named: shares by `way` and `layer`, of models of templates; empty if there are none.
        right: the share of sentences that the first model has right.
    """
    clause = "no model has learned the templates, whose subjects are known"
    if len(named):
        first = named[named["layer"] == 0].set_index("way")["value"]
        clause = (
            f"occlusion ranks the subject first in {100 * first[OCCLUSION]:.0f} % of the sentences, and the "
            f"gradient in {100 * first[GRADIENT]:.0f} %"
        )
    tell({"subject first": if_learned(right, 0.5, clause)})


def tell_recorded(recorded: pd.DataFrame) -> None:
    """Tell what the recorded models show, from the rows of `tables.recorded`."""
    last = recorded["layer"].max()
    tell(corpora_ahead(recorded))
    leads = tables.over_layers(recorded)
    tell_in_words(leads[leads["data"] == "linzen"], "lead {data}, {way}")
    tell(paper_figures().query("task == 'verbs told'"), "theirs {task}", "%")
    subjects = tables.of_record(recorded, tables.SUBJECT, untrained=False, layer=last)
    both_ways, causal = (subjects[subjects["causal"] == causal] for causal in (False, True))
    names = {way: one_number(both_ways, way=way) for way in (RAW, ROLLOUT)}
    tell_in_words(names, "minute names, {}", "%")
    tell_in_words({way: one_number(causal, way=way) for way in (ROLLOUT, OVER_NULL)}, "minute back, {}", "%")
    untrained = tables.of_record(
        recorded, tables.AGREEMENT, untrained=True, causal=True, items=WORDS, relevance=GRADIENT, layer=2
    )
    tell_in_words({way: one_number(untrained, way=way) for way in (ROLLOUT, OVER_NULL)}, "untrained {}")
    dense = tables.of_record(
        recorded, tables.SLIP, data="sst", slip=DENSE, way=FLOW, layer=last, items=WORDS, relevance=OCCLUSION
    )
    tell({f"recorded: dense ranks, flow, {last}, sst": dense["value"].mean()})


def corpora_ahead(recorded: pd.DataFrame) -> dict[str, str | int]:
    """The corpora on which rollout and flow agree better than raw attention, in words, and their numbers."""
    found: dict[str, str | int] = {}
    for way in (ROLLOUT, FLOW):
        leads = tables.over_layers(recorded).query("way == @way")
        found[f"{way} is ahead"] = ahead_clause(leads)
        found[f"over seeds: {way}, corpora"] = len(leads)
        for side in ("above", "below"):
            found[f"over seeds: {way}, corpora {side}"] = int(leads[side].sum())
    return found


def ahead_clause(leads: pd.DataFrame) -> str:
    """Say where a method agrees better with occlusion than raw attention, as the end of a sentence."""
    known = leads["data"].map(lambda data: CORPORA.get(data, data))
    better, worse, unsure = (
        " and on ".join(known[where])
        for where in (leads["above"], leads["below"], ~leads["above"] & ~leads["below"])
    )
    said = [
        better and f"agrees with occlusion better than raw attention does on {better}",
        worse and f"agrees with occlusion less than raw attention does on {worse}",
    ]
    if not better and not worse:
        return "does not agree with occlusion significantly better or less than raw attention does"
    return " and ".join(filter(None, said)) + (
        f"; on {unsure} the difference is not significant" if unsure else ""
    )


def tell_exercises() -> None:
    """Tell what the solutions quote: numbers of the recorded run that their commands make."""
    rows = came_with_the_book("quantifying_flow", corpora=["templates", "linzen", "sst"], seeds=[0, 1, 2])
    trained = {"untrained": False, "causal": False}
    names = tables.of_record(rows, tables.SUBJECT, **trained)
    of_layers = ((RAW, 4), (RAW, 6), (ROLLOUT, 4), (ROLLOUT, 6), (FLOW, 3), (FLOW, 6))
    shares = {(way, layer): one_number(names, way=way, layer=layer) for way, layer in of_layers}
    tell_in_words(shares, "exercise names, {} {}", "%")
    agreement = tables.of_record(rows, tables.AGREEMENT, **trained, relevance=OCCLUSION)
    leads = tables.of_record(rows, tables.ADVANTAGE, **trained, relevance=OCCLUSION, layer=6)
    for items in (WORDS, WITH_CLS):
        of_items = agreement[agreement["data"].eq("linzen") & agreement["items"].eq(items)]
        numbers = {
            "raw attention": one_number(of_items, way=RAW, layer=6),
            "rollout": one_number(of_items, way=ROLLOUT, layer=6),
            "earlier": one_number(of_items, way=EARLIER, layer=0),
            "ahead": one_number(leads, data="linzen", items=items, way=ROLLOUT),
        }
        tell_in_words(numbers, f"exercise {{}}, {items}")
    flow = one_number(leads, data="linzen", items=WITH_CLS, way=FLOW)
    tell_in_words({"ahead linzen, flow, words and CLS": flow})
    reviews = {way: one_number(leads, data="sst", items=WORDS, way=way) for way in (ROLLOUT, FLOW)}
    tell_in_words(reviews, "exercise sst, {}")
