"""What became of the question that none of the studies could ask: which measure tells?"""

from __future__ import annotations

import pandas as pd

from book.chapters.findings.finding import Answer, Claim, Outcome, crux, number, one, partly, some
from book.chapters.tells.method_tables import over_settings
from book.chapters.tells.tables import ahead_of, first_elsewhere, of_record, told_or_not, widest

ROLLOUT, UNTRAINED, LAST = "rollout", "rollout, untrained", "raw attention, last layer"


def tells(question: str) -> Answer:
    """The rule for plausibility (the algorithm's tokens), or for faithfulness (the model's)."""

    def answer(rows: pd.DataFrame) -> Outcome:
        """By the mean over settings of normalised numbers, with intervals over settings: 0 is chance, 1 best.

        Settings are those whose heads nobody told where the sources are. The claim holds if rollout may be
        the first of all measures (the interval of its rank begins at 1), in part if it is ahead, setting by
        setting, of rollout of the same models untrained, and does not if it is behind; else it is not
        settled.
        """
        tables, _ = of_record(widest(rows))
        told, free = told_or_not(some(tables.get(question, pd.DataFrame())))
        ranking = over_settings(some(free))
        whole = some(ranking[ranking["rank"].notna()])
        first, rollout, last = (one(whole, method=name) for name in (whole["method"].iloc[0], ROLLOUT, LAST))
        learned = ahead_of(free, ROLLOUT, UNTRAINED)
        verdict = "holds" if rollout.rank_low == 1 else partly(learned.low, learned.high)
        return Outcome(
            verdict,
            f"{number(rollout)} of the way from chance (0) to perfect (1) in models whose heads nobody told "
            f"where to look; the highest of all, {first.method}, gets {number(first)}; "
            f"intervals over n = {first.settings} settings.",
            "Setting by setting, the measure that the other settings put first is "
            f"{number(first_elsewhere(free, ROLLOUT))} ahead of rollout, and rollout gets {number(learned)} "
            f"more than in untrained models; attention of the last layer alone gets {last.value:.2f}. Where "
            "heads are a program's, or were told, rollout gets "
            f"{number(one(over_settings(some(told)), method=ROLLOUT))} (n = {told['setting'].nunique()}).",
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
