"""What became of the claims of Abnar and Zuidema 2020."""

from __future__ import annotations

import pandas as pd

from attnlib.stats.seeds import table_over_seeds
from book.chapters.findings.finding import Answer, Claim, Outcome, crux, number, one, percent, shown_in, some
from book.chapters.flow import tables
from book.chapters.flow.layer_agreement import BLANK_OUT, FLOW, RAW, ROLLOUT, WORDS


def agrees_better(way: str) -> Answer:
    """The rule for rollout, or for flow."""

    def answer(rows: pd.DataFrame) -> Outcome:
        """By how far it is ahead of raw attention in every corpus, as a mean over layers from the second.

        The claim holds if that is shown to be above 0 in all corpora, in part if in some and to be below in
        none, and does not if it is shown to be below in some; else it is not settled. Shown is what the
        interval over seeds says, and p corrected for the corpora. Of models that look both ways.
        """
        rows = tables.recorded(rows)
        models = rows[~rows["untrained"].astype(bool) & ~rows["causal"].astype(bool)]
        ahead, layers, claimed = (
            some(table[table["way"] == way])
            for table in (tables.over_layers(rows), tables.over_corpora(rows), tables.claimed(rows))
        )
        least, last = one(ahead.nsmallest(1, "value")), rows["layer"].max()
        wikipedia = models[models["metric"].eq(tables.AGREEMENT) & models["relevance"].eq(BLANK_OUT)]
        wikipedia = wikipedia[wikipedia["items"].eq(WORDS) & wikipedia["data"].eq("linzen")]
        rank = table_over_seeds(wikipedia[wikipedia["layer"] == last], ["way"])
        names = table_over_seeds(models[models["metric"] == tables.SUBJECT], ["way", "layer"])
        here, raw = (one(rank, way=each) for each in (way, RAW))
        found, by_raw = (one(names, way=each, layer=last) for each in (way, RAW))
        return Outcome(
            "does not" if ahead["below"].any() else shown_in(ahead["above"]),
            f"As a mean over layers {tables.FROM_LAYER} to {last}, that is shown in {ahead['above'].sum()} "
            f"of {len(ahead)} corpora, the other way round in {ahead['below'].sum()} (over {here.n} seeds, "
            f"corrected by Holm's method); in the last layer, the rank correlation is {number(here)}, of raw "
            f"attention {number(raw)} (Wikipedia).",
            f"Layer by layer, not corrected, it is {layers['above'].sum()} of {len(layers)}, the other way "
            f"round {layers['below'].sum()}; model by model, every layer in "
            f"{(claimed['verdict'] == 'holds').sum()} of {len(claimed)}. Where the subject that decides is "
            f"known, it is named first in {percent(found)} of the sentences, by raw attention in "
            f"{percent(by_raw)}.",
            crux(f"ahead of raw attention in rank correlation on {least.data}, against 0", least, 0.0),
        )

    return answer


CLAIMS = tuple(
    Claim(
        "abnar2020quantifying",
        f"From the second layer on, {way} agrees with blank-out better than raw attention does.",
        "quantifying_flow",
        "Three seeds, and sentences that people wrote",
        agrees_better(way),
    )
    for way in (ROLLOUT, FLOW)
)
