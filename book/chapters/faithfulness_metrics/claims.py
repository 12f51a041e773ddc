"""Claims on faithfulness metrics, and on rollout, for models with ground truth."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from attnlib.stats import over_seeds
from book.chapters.attribution_benchmark.claims import (
    LAST,
    MARGIN,
    as_much_as_any,
    more_than_raw_attention,
    where_told,
)
from book.chapters.attribution_benchmark.settings import were_told
from book.chapters.display import display_name
from book.chapters.faithfulness_metrics.measures import estimate
from book.chapters.faithfulness_metrics.predictions import PREDICTIONS, TODAY
from book.chapters.faithfulness_metrics.tables import (
    ALL,
    CHOSEN,
    FEW,
    FREE,
    KNOWN,
    ROLLOUT,
    UNTOLD,
    Kept,
    ahead_of_usual,
    are_free,
    did_not_choose,
    pooled,
    widest,
)
from book.chapters.findings.finding import Claim, NotRunError, Outcome, fraction, number, one, percent, there
from book.chapters.findings.rules import above, ahead, negated

ENOUGH = 0.7
"""Kendall's tau above which a metric is said to rank measures as the ground truth does."""


def truth_comes_first(rows: pd.DataFrame) -> Outcome:
    """The share of measures that the standard metric ranks before the ground truth, over settings."""
    kept = _kept(rows)
    complete = len(kept.before) > 0
    by_setting = kept.before if complete else kept.by_setting_of("above")
    usual, others = (by_setting[by_setting["protocol"].eq(each)] for each in (TODAY, kept.metrics[UNTOLD]))
    before, other = estimate(there(usual)["value"]), estimate(others["value"])
    free = usual.loc[~were_told(usual["setting"]), "value"]
    ties = "Ties of the ground truth count in its favour" if complete else "A coin breaks its ties"
    return Outcome(
        above(negated(before), -FEW),
        "Methods that it ranks before the ground truth",
        number(before, "settings", FEW, unit="%"),
        more=f"In the {len(free)} settings without supervised heads, {percent(estimate(free))}. "
        f"*{kept.metrics[UNTOLD]}* has {percent(other)}. {ties}.",
    )


def ranks_as_the_known_answers(rows: pd.DataFrame) -> Outcome:
    """Kendall's tau of the rankings by the standard metric and by ground truth, the mean over settings."""
    kept = _kept(rows)
    taus = kept.by_setting_of("tau")
    usual = estimate(there(taus[taus["protocol"].eq(TODAY)])["value"])
    others = taus[taus["protocol"].eq(kept.metrics[UNTOLD]) & did_not_choose(taus["setting"])]
    other = estimate(others["value"])
    return Outcome(
        above(usual, ENOUGH),
        "Kendall's tau of both rankings",
        number(usual, "settings", ENOUGH),
        more=f"In the {other.n} settings that it was not chosen by, that of *{kept.metrics[UNTOLD]}* is "
        f"{fraction(other)}.",
    )


def chosen_is_better(rows: pd.DataFrame) -> Outcome:
    """The gain in tau of the selected metric, in settings without supervised heads that did not choose it."""
    kept = _kept(rows)
    lead, everywhere = (one(ahead_of_usual(kept), settings=name) for name in (FREE, "all"))
    return Outcome(
        ahead(lead, MARGIN),
        "Gain in Kendall's tau with the ground truth",
        number(lead, "settings", 0, signed=True),
        more=f"Over all {everywhere.n} settings, those that chose it among them, it is "
        f"{fraction(everywhere)}. It was chosen after a look at eight settings.",
    )


def came_out(words: str, rows: pd.DataFrame) -> Outcome:
    """The gain in tau of one metric over another, paired by setting, for the prediction `words`."""
    found = one(widest(there(rows)), run=ALL, metric=f"expected: {words}")
    return Outcome(
        ahead(found, MARGIN),
        "Gain in Kendall's tau with the ground truth",
        number(found, "settings", 0, signed=True),
    )


def finds_what_is_needed(rows: pd.DataFrame) -> Outcome:
    """Rollout's plausibility without supervised heads, on correctly answered questions in distribution."""
    told, free = _by_known_answers(rows)
    rollout = _of(free, ROLLOUT)
    best = there(free).groupby("method")["value"].mean().idxmax()
    return Outcome(
        above(rollout),
        "Score, from 0 (chance) to 1 (perfect)",
        number(rollout, "settings", 0),
        more=f"The highest, {best}, gets {fraction(_of(free, str(best)))}, attention of the last layer "
        f"{fraction(_of(free, LAST))}.{where_told(told, partial(_of, method=ROLLOUT), 'rollout gets')} "
        "These are questions that are answered rightly and in distribution: a model that does not run "
        "the algorithm cannot be found to.",
    )


def finds_more_than_raw_attention(rows: pd.DataFrame) -> Outcome:
    """The lead in plausibility of rollout over the last layer's attention, on the same questions."""
    return more_than_raw_attention(*_by_known_answers(rows))


def finds_as_much_as_any(rows: pd.DataFrame) -> Outcome:
    """The lead in plausibility over rollout of the measure that the other settings rank first."""
    _, free = _by_known_answers(rows)
    return as_much_as_any(free)


def used_more_than_raw_attention(rows: pd.DataFrame) -> Outcome:
    """The lead of rollout over the last layer's attention by the chosen metric, where the metric works."""
    free, out = _by_the_metric(rows)
    found = more_than_raw_attention(free[:0], free)
    return found._replace(result="Lead, on a scale from noise (0) to the ground truth (1)", more=out)


def used_as_much_as_any(rows: pd.DataFrame) -> Outcome:
    """The lead over rollout, by the same metric, of the measure that the other settings rank first."""
    free, out = _by_the_metric(rows)
    gets = f"Rollout gets {fraction(_of(free, ROLLOUT))} of the way from noise to the ground truth. {out}"
    return as_much_as_any(free)._replace(more=gets)


def _kept(rows: pd.DataFrame) -> Kept:
    kept = pooled(there(rows))
    if not kept.metrics:
        raise NotRunError
    return kept


def _by_known_answers(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Plausibility by setting and measure: settings with compiled or supervised heads, and the others."""
    measured = there(_kept(rows).measured[KNOWN])
    told = were_told(measured["setting"])
    return measured[told], there(measured[~told])


def _by_the_metric(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Measures' numbers by the chosen metric in free settings where it works, and a note on its failures."""
    kept = _kept(rows)
    measured = there(kept.measured.get(CHOSEN, pd.DataFrame()))
    fails = kept.failed[CHOSEN]
    out = (
        f"The metric fails where it ranks methods far before the ground truth: {'; '.join(fails)}."
        if fails
        else ""
    )
    return there(measured[are_free(measured["setting"])]), out


def _of(measured: pd.DataFrame, method: str) -> Any:
    values = measured.loc[measured["method"].eq(method), "value"]
    return over_seeds(there(values.to_frame())["value"].to_numpy(float))


AGREES, MEASURES, OUT = (
    *("Which metric agrees with ground truth?", "Which methods are most faithful?", "Predictions vs results"),
)
NOBODY = "In settings without supervised heads, of questions answered rightly and in distribution"
CHOSEN_WORKS = (
    "In settings that neither chose the metric nor have supervised heads, and in which it puts nothing far "
    "before the ground truth"
)
LESS = f"it is not reproduced if less than {MARGIN:g} of the way"

CLAIMS = tuple(
    Claim("all", name, words, "faithfulness_metrics", section, rule, answer)
    for name, words, section, rule, answer in (
        (
            "needed tokens",
            "In models without supervised heads, rollout finds the tokens that an algorithm needs better "
            "than chance.",
            MEASURES,
            f"{NOBODY}, rollout finds more than chance.",
            finds_what_is_needed,
        ),
        (
            "needed tokens, and raw attention",
            "Rollout finds the tokens that an algorithm needs better than raw attention does.",
            MEASURES,
            f"{NOBODY}, rollout is ahead of attention of the last layer; {LESS} from chance to perfect.",
            finds_more_than_raw_attention,
        ),
        (
            "needed tokens, and the best",
            "Rollout finds the tokens that an algorithm needs as well as any other method does.",
            MEASURES,
            f"{NOBODY}, the method that other settings rank first is less than {MARGIN:g} of the way ahead; "
            "it is not reproduced if it is ahead.",
            finds_as_much_as_any,
        ),
        (
            "used tokens, and raw attention",
            "Rollout finds the tokens that a model uses better than raw attention does.",
            MEASURES,
            f"{CHOSEN_WORKS}, rollout is ahead of attention of the last layer; {LESS} from noise to the "
            "truth.",
            used_more_than_raw_attention,
        ),
        (
            "used tokens, and the best",
            "Rollout finds the tokens that a model uses as well as any other method does.",
            MEASURES,
            f"{CHOSEN_WORKS}, the method that other settings rank first is less than {MARGIN:g} of the way "
            "ahead; it is not reproduced if it is ahead.",
            used_as_much_as_any,
        ),
        (
            "standard metric, ground truth first",
            "The standard faithfulness metric, which masks tokens, ranks ground truth above all methods.",
            AGREES,
            f"Over settings, it ranks fewer than {100 * FEW:.0f} % of the methods before the ground truth.",
            truth_comes_first,
        ),
        (
            "standard metric, the same order",
            "The standard faithfulness metric ranks attribution methods as ground truth does.",
            AGREES,
            f"Over settings, Kendall's tau of both rankings is above {ENOUGH:g}.",
            ranks_as_the_known_answers,
        ),
        (
            "metric chosen by ground truth",
            "A metric selected by ground truth ranks methods better than the standard one, in settings not "
            "used for selection.",
            AGREES,
            "In settings that neither chose it nor have supervised heads, it has more tau; it is not "
            f"reproduced if less than {MARGIN:g}.",
            chosen_is_better,
        ),
    )
)

PREDICTED = tuple(
    Claim(
        "book",
        name,
        f"{display_name(each.words)}.",
        "faithfulness_metrics",
        OUT,
        "Over settings, the first has more tau with the ground truth; it is not reproduced if less than "
        f"{MARGIN:g} (a margin that was named later).",
        partial(came_out, each.words),
        before=True,
    )
    for name, each in zip(
        (
            "expected and usual",
            "replace or mask",
            "replace or random",
            "log p or p",
            "first or shares",
            "LDS or shares",
            "delete or mask",
        ),
        PREDICTIONS,
        strict=True,
    )
)
