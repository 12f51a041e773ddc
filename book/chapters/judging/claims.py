"""What is claimed of tests of faithfulness, and of rollout by the chosen one."""

from __future__ import annotations

import pandas as pd

from book.chapters.findings.finding import Claim, Outcome, crux, number, one, partly, some
from book.chapters.judging.predictions import CHOOSING, HEADS_TOLD, TODAY
from book.chapters.judging.tables import (
    ALL,
    CHOSEN,
    FREE,
    ROLLOUT,
    UNTOLD,
    ahead_of_usual,
    beside_the_first,
    of_record,
    widest,
)

ENOUGH = 0.7
"""A tau with the known answers from which on a judge is said to rank measures as they do."""


def usual_judge(rows: pd.DataFrame) -> Outcome:
    """By tau with the known answers, the mean over settings with its interval over them.

    The claim holds if the interval is above 0.7, in part if it is above 0, and does not if it is below;
    else it is not settled.
    """
    kept = of_record(widest(some(rows)))
    usual = one(kept.rows, run=ALL, metric=f"tau: {TODAY}")
    other = one(kept.halves, judge=UNTOLD, settings="confirmed on")
    ahead, free = (one(ahead_of_usual(kept), settings=name) for name in ("confirmed on", FREE))
    return Outcome(
        "holds" if usual.low > ENOUGH else partly(usual.low, usual.high),
        f"Its ranking and that by the known answers agree with a tau of {number(usual)}, interval over "
        f"n = {usual.n} settings; 1 is the same order, 0 none.",
        f"In the n = {other.n} settings that it was not chosen by, that of *{kept.judges[UNTOLD]}* is "
        f"{number(other)}, setting by setting {number(ahead)} more; in the {free.n} of these whose heads "
        f"nobody told where to look, {number(free)} more. It was chosen after a look at eight settings.",
        crux("tau with the known answers, against 0.7", usual, ENOUGH),
    )


def rollout_by_the_judge(rows: pd.DataFrame) -> Outcome:
    """By the mean over settings, with intervals over them, from noise (0) to the truth itself (1).

    The claim holds if rollout may be the first of all measures (the interval of its rank begins at 1), in
    part if its mean is shown to be above 0, and does not if it is below; else it is not settled.
    """
    measured = some(of_record(widest(some(rows))).measured.get(CHOSEN, pd.DataFrame()))
    places = beside_the_first(measured)
    first, rollout, ahead = (one(places, settings="all", place=place) for place in _PLACES)
    first_free, rollout_free, ahead_free = (one(places, settings="free", place=place) for place in _PLACES)
    return Outcome(
        "holds" if rollout.rank_low == 1 else partly(rollout.low, rollout.high),
        f"{number(rollout)} of the way from noise (0) to the truth itself (1), where the best measure, "
        f"{first.method}, gets {number(first)}; intervals over n = {first.n:.0f} settings.",
        f"Setting by setting, the measure that the other settings put first is {number(ahead)} ahead of "
        f"rollout. Of all these settings {len(CHOOSING)} chose the judge, and in {HEADS_TOLD} heads are a "
        f"program's, or were told where to look; in the {rollout_free.n:.0f} that are neither, rollout gets "
        f"{number(rollout_free)}, {first_free.method}, the first, {number(first_free)}, and that lead is "
        f"{number(ahead_free)}.",
        crux(f"from noise to the truth, against {first.method}", rollout, first.value),
    )


_PLACES = "the first", ROLLOUT, f"ahead of {ROLLOUT}"


CLAIMS = (
    Claim(
        "all",
        "The usual test of faithfulness, which masks tokens, says which measure is right.",
        "judging_measures",
        "Which judge agrees with the known answers?",
        usual_judge,
    ),
    Claim(
        "all",
        "Rollout finds the tokens that the model uses, by the test that was chosen by known answers.",
        "judging_measures",
        "Which measure is the most faithful?",
        rollout_by_the_judge,
    ),
)
