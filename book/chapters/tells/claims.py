"""What became of the question that none of the studies could ask: which measure tells?"""

from __future__ import annotations

import pandas as pd

from book.chapters.findings.finding import Answer, Claim, Outcome, crux, number, one, some
from book.chapters.tells.tables import of_record, widest

ROLLOUT, UNTRAINED, LAST = "rollout", "rollout, untrained", "raw attention, last layer"


def tells(question: str) -> Answer:
    """The rule for plausibility (the algorithm's tokens), or for faithfulness (the model's)."""

    def answer(rows: pd.DataFrame) -> Outcome:
        """By the mean over settings of normalised numbers, with intervals over settings: 0 is chance, 1 best.

        The claim holds if rollout may be the first of all measures (the interval of its rank begins at 1),
        in part if its interval is above that of the same models untrained, and else does not.
        """
        _, rankings = of_record(widest(rows))
        ranking = some(rankings.get(question, pd.DataFrame()))
        whole = some(ranking[ranking["rank"].notna()])
        first, rollout, untrained, last = (
            one(whole, method=name) for name in (whole["method"].iloc[0], ROLLOUT, UNTRAINED, LAST)
        )
        ahead = rollout.low > untrained.high
        verdict = "holds" if rollout.rank_low == 1 else "in part" if ahead else "does not"
        return Outcome(
            verdict,
            f"{number(rollout)} of the way from chance (0) to perfect (1), where the best measure, "
            f"{first.method}, gets {number(first)}; intervals over n = {first.settings} settings.",
            f"Attention of the last layer alone gets {last.value:.2f}, rollout of untrained models "
            f"{untrained.value:.2f}.",
            crux(f"from chance to perfect, against {first.method}", rollout, first.value),
        )

    return answer


CLAIMS = tuple(
    Claim(
        "all",
        f"Rollout finds the tokens that {who}.",
        "where_attention_tells",
        "Three models of every setting",
        tells(question),
    )
    for question, who in (
        ("plausibility", "the algorithm needs"),
        ("faithfulness", "the model misses when they are masked"),
    )
)
