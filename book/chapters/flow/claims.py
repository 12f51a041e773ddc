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
        """By the difference from raw attention in every corpus and layer from the second, over seeds.

        The claim holds if all intervals are above 0, in part if some are and none is below, and does not if
        some are below; else it is not settled. Of models that look both ways.
        """
        rows = tables.recorded(rows)
        models = rows[~rows["untrained"].astype(bool) & ~rows["causal"].astype(bool)]
        ahead = some(tables.over_corpora(rows).query("way == @way"))
        above, below = ahead["low"] > 0, ahead["high"] < 0
        claimed = tables.claimed(rows)
        verdicts = some(claimed[claimed["way"] == way])["verdict"]
        last = rows["layer"].max()
        wikipedia = models[models["metric"].eq(tables.AGREEMENT) & models["relevance"].eq(BLANK_OUT)]
        wikipedia = wikipedia[wikipedia["items"].eq(WORDS) & wikipedia["data"].eq("linzen")]
        rank = table_over_seeds(wikipedia[wikipedia["layer"] == last], ["way"])
        names = table_over_seeds(models[models["metric"] == tables.SUBJECT], ["way", "layer"])
        here, raw = (one(rank, way=each) for each in (way, RAW))
        found, by_raw = (one(names, way=each, layer=last) for each in (way, RAW))
        return Outcome(
            "does not" if below.any() else shown_in(above),
            f"In {len(ahead)} layers of {ahead['data'].nunique()} corpora, that is shown in {above.sum()}, "
            f"the other way round in {below.sum()} (intervals over {here.n} seeds); in the last layer, the "
            f"rank correlation is {number(here)}, of raw attention {number(raw)} (Wikipedia).",
            f"Model by model, in every layer in {(verdicts == 'holds').sum()} of {len(verdicts)}. Where the "
            f"subject that decides is known, it is named first in {percent(found)} of the sentences, by raw "
            f"attention in {percent(by_raw)}.",
            crux("rank correlation in the last layer, against raw attention's", here, raw.value),
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
