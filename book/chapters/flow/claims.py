"""What became of the claims of Abnar and Zuidema 2020."""

from __future__ import annotations

import pandas as pd

from attnlib.stats.seeds import table_over_seeds
from book.chapters.findings.finding import Answer, Claim, Outcome, crux, how_many, number, one, percent, some
from book.chapters.flow import tables
from book.chapters.flow.layer_agreement import BLANK_OUT, FLOW, RAW, ROLLOUT, WORDS


def agrees_better(way: str) -> Answer:
    """The rule for rollout, or for flow."""

    def answer(rows: pd.DataFrame) -> Outcome:
        """A model shows it if, in every layer from the second, the difference's interval is above 0.

        The claim holds if every model that looks both ways shows it, in part if some do.
        """
        rows = tables.recorded(rows)
        models = rows[~rows["untrained"].astype(bool) & ~rows["causal"].astype(bool)]
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
            how_many(verdicts == "holds"),
            f"In every layer in {(verdicts == 'holds').sum()} of {len(verdicts)} models; in the last, the "
            f"rank correlation is {number(here)}, of raw attention {number(raw)} (Wikipedia, "
            f"{here.n} seeds).",
            f"In some layers in {(verdicts == 'in part').sum()} models. Where the subject that decides is "
            f"known, it is named first in {percent(found)} of the sentences, by raw attention in "
            f"{percent(by_raw)}.",
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
