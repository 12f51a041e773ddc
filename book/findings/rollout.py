"""What became of the claims about rollout: of language models that write, and of Abnar and Zuidema 2020."""

from __future__ import annotations

import pandas as pd

from attnlib.chapters import quantifying_tables as tables
from attnlib.measures.layer_agreement import BLANK_OUT, FLOW, RAW, ROLLOUT, WORDS
from attnlib.measures.needle import MEAN_ROLLOUT
from attnlib.stats.seeds import table_over_seeds

from .finding import Answer, Claim, Outcome, against, how_many, number, one, percent, some

NEEDLE = "needle in top 5 of the facts, filtered: "
"""The test of rollout: is a token of the right fact among the five of all facts that it ranks highest, once
the study's uninformative tokens are filtered out?"""


def shows_sources(rows: pd.DataFrame) -> Outcome:
    """It does if the interval of the share of needles found is above a blind draw.

    Rollout is read as the study reads it: the mean over layers, of tokens that pass its filter; the draw is
    of the same tokens.
    """
    rollout, last, mean, chance = (
        one(rows, metric=NEEDLE + way) for way in (MEAN_ROLLOUT, "rollout", "mean attention", "chance")
    )
    sink = rows[rows["metric"].str.fullmatch(r"trained, first token, layer \d+")]
    middle = one(rows, metric=f"trained, first token, layer {(len(sink) + 1) // 2}")
    even = one(rows, metric=middle.metric.replace("trained", "uniform"))
    return Outcome(
        against(rollout.low, rollout.high, chance.value),
        f"Where one fact among others holds the answer, a token of it is in the top 5 of rollout, read as in "
        f"the study (mean over layers, filtered), in {percent(rollout)} of {rollout.n} items; by chance in "
        f"{100 * chance.value:.0f} %.",
        f"By rollout's last layer, in {percent(last)}; by plain mean attention, in {percent(mean)}. Half-way "
        f"through the layers {middle.value:.2f} of rollout is on the first token; of attention that looks "
        f"everywhere equally, {even.value:.2f}.",
    )


def agrees_better(way: str) -> Answer:
    """The rule for rollout, or for flow."""

    def answer(rows: pd.DataFrame) -> Outcome:
        """A model shows it if, in every layer from the second, the difference's interval is above 0.

        The claim holds if every model that looks both ways shows it, in part if some do.
        """
        rows = tables.recorded(rows)
        models = rows[~rows["untrained"].astype(bool) & ~rows["causal"].astype(bool)]
        better = models[models["metric"] == tables.ADVANTAGE]
        better = better[better["relevance"].eq(BLANK_OUT) & better["items"].eq(WORDS) & better["way"].eq(way)]
        verdicts = tables.verdicts(some(better))["verdict"]
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
        )

    return answer


CLAIMS = (
    Claim(
        "rollout",
        "The product of attention over layers shows which prompt tokens a generated token drew on.",
        "generative_rollout",
        "Does it find the needle?",
        shows_sources,
    ),
    *(
        Claim(
            "abnar2020quantifying",
            f"From the second layer on, {way} agrees with blank-out better than raw attention does.",
            "quantifying_flow",
            "Three seeds, and sentences that people wrote",
            agrees_better(way),
        )
        for way in (ROLLOUT, FLOW)
    ),
)
