"""Numbers that the sentences of the page on faithfulness metrics quote.

`tell_predictions` and `tell_blind_spot` tell the results of this run; the others tell recorded numbers.
The page calls `UNTOLD` the selected metric, `CHOSEN` the oracle metric, and `TODAY` the standard metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from jaxtyping import Bool, Float
from torch import Tensor

from attnlib.stats.intervals import Estimate
from book.chapters.attribution_benchmark.claims import MARGIN
from book.chapters.attribution_benchmark.settings import were_told
from book.chapters.attribution_benchmark.tables import first_elsewhere
from book.chapters.display import display_name, significance, tally_clause
from book.chapters.faithfulness_metrics.claims import ENOUGH
from book.chapters.faithfulness_metrics.further import carry, needles, roar
from book.chapters.faithfulness_metrics.further.tables import BEFORE, TAU
from book.chapters.faithfulness_metrics.measures import BESIDE, PLAUSIBILITY, RUNGS, estimate
from book.chapters.faithfulness_metrics.predictions import (
    CHOOSING,
    EXPECTED,
    MASKING,
    PREDICTIONS,
    TODAY,
    recorded_prediction_table,
)
from book.chapters.faithfulness_metrics.tables import (
    ALL,
    ALONE,
    CHOSEN,
    FEW,
    GAINED,
    KNOWN,
    PART,
    ROLLOUT,
    UNTOLD,
    Kept,
    ahead_of_usual,
    are_free,
    beside_the_first,
    did_not_choose,
)
from book.chapters.records import one_number
from book.chapters.records.numbers import NOT_RUN, in_words
from book.chapters.telling import side_clause, tell, tell_in_words

LEAST = 0.6
"""The target: the lower confidence limit of a metric's tau has to be above this value."""

Number = Mapping[Any, Any] | pd.Series | None
"""A number with its interval; None if it was not run."""


# ---- the recorded runs -------------------------------------------------------------------------------


def tell_recorded(kept: Kept) -> None:
    """Tell what the recorded runs show about metrics and methods."""
    metrics = {name: kept.metrics.get(name, NOT_RUN) for name in (CHOSEN, UNTOLD)}
    tell({name: display_name(metric) for name, metric in metrics.items()}, "{} is")
    confirmed = {
        f"tau {name}, confirmed": one_number(kept.halves, judge=name, settings="confirmed on")
        for name in metrics
    }
    tell_in_words(confirmed)
    outcomes = recorded_prediction_table(kept.rows, ALL, MARGIN)
    tell({"all": len(outcomes), **{name: _count(outcomes, name) for name in ("yes", "no")}}, "came out: {}")
    _tell_target(kept)
    _tell_agreement(kept)
    _tell_above_truth(kept)
    _tell_first_methods(kept)
    _tell_rollout(kept)
    _tell_retrained(kept)
    by_truth = kept.signs[kept.signs["by"] == KNOWN]
    tell({"signed measures": kept.signs["method"].nunique(), "signs gained": gains_clause(by_truth)})


def _tell_target(kept: Kept) -> None:
    """Tell the target, how many metrics there are, and their highest lower limit of tau."""
    taus = kept.taus()
    highest = taus["low"].max()
    tell({"": ENOUGH, ", low": LEAST, ", metrics": len(taus), ", highest low": highest}, "aim{}")


def _tell_agreement(kept: Kept) -> None:
    """Tell the tau of the selected and of the standard metric, and of the steps between them."""
    taus = kept.by_setting_of("tau")
    settings = taus["setting"]
    groups = {
        "free": are_free(settings),
        "not selecting": did_not_choose(settings),
        "every": settings.notna(),
    }
    for name, metric in _selected_and_standard(kept).items():
        own = taus["protocol"].eq(metric)
        means = {group: _mean(taus[own & some]) for group, some in groups.items()}
        of_record = {"all": _of_all(kept, "tau", metric), "alone": _of_all(kept, ALONE, metric)}
        tell_in_words(means | of_record, f"tau {name}, {{}}")
    steps = ("comprehensiveness, mask, log p", "comprehensiveness, replace, log p")
    tell_in_words({step: _of_all(kept, "tau", step) for step in steps}, "tau {}")
    tell({"settings asked": settings.nunique(), "usual, halves": _value(_of_all(kept, "halves", TODAY))})
    if {UNTOLD, "usual"} <= set(kept.metrics):
        leads = {lead["settings"]: lead for lead in ahead_of_usual(kept).to_dict("records")}
        _tell_differences(leads, "ahead, {}", "significance, {}")


def _tell_above_truth(kept: Kept) -> None:
    """Tell the share of methods above ground truth: with random ties, and with the best order of ties."""
    metrics = _selected_and_standard(kept)
    tell_in_words({name: _of_all(kept, "above", each) for name, each in metrics.items()}, "above {}", "%")
    selected, standard = (_mean(kept.before[kept.before["protocol"].eq(each)]) for each in metrics.values())
    tell_in_words({"chosen": selected, "usual": standard}, "before {}", "%")
    words = [f"{verb} the standard metric" for verb in ("is passed by", "is undecided for", "speaks against")]
    tell({"before usual, said": side_clause(standard, *words, bound=FEW, lacking="was not run")})


def _tell_first_methods(kept: Kept) -> None:
    """Tell the first methods by the oracle metric, by the selected metric and by ground truth."""
    places = {"best": (CHOSEN, 2), "best untold": (UNTOLD, 1), "best known": (KNOWN, 3)}
    rankings = {name: kept.rankings.get(name, pd.DataFrame({"method": []})) for name, _ in places.values()}
    for called, (name, n) in places.items():
        methods = [*rankings[name]["method"].map(display_name), *[NOT_RUN] * n]
        tell(dict(enumerate(methods[:n], 1)), f"{called} {{}}")
    best = rankings[CHOSEN]
    tell_in_words({"score best 1": best.iloc[0] if len(best) else None})


def _tell_rollout(kept: Kept) -> None:
    """Tell rollout's place by the oracle metric, the leads over it, and where the metric fails."""
    nothing = pd.DataFrame(columns=["setting", "method", "value"])
    places = beside_the_first(kept.measured.get(CHOSEN, nothing)).dropna(subset="value")
    rollout = one_number(places, settings="all", place=ROLLOUT)
    tell_in_words({"measured all: rollout": rollout})
    for end in ("rank_low", "rank_high"):
        tell({f"measured all: {end}, rollout": _value(rollout, end)})
    leads = {
        (settings, place): one_number(places, settings=settings, place=place)
        for settings, place in (("all", "ahead of the second"), ("free", "ahead of rollout"))
    }
    _tell_differences(leads, "measured {}: {}", "significance {}: {}")
    by_truth = kept.measured.get(KNOWN, nothing)
    lead = first_elsewhere(by_truth[~were_told(by_truth["setting"])], ROLLOUT)
    _tell_differences({"known lead": _if_run(lead)}, "{}", "{}, said")
    tell({"oracle fails": "; ".join(kept.failed.get(CHOSEN, [])) or "no setting"})


def _tell_retrained(kept: Kept) -> None:
    """Tell how much tau metrics gain if the models are trained with masked keys."""
    gains = kept.retrained[kept.retrained["settings"] == GAINED]
    metrics = {"masking": MASKING, "usual": TODAY, "replacing": EXPECTED}
    found = {name: one_number(gains, protocol=metric) for name, metric in metrics.items()}
    _tell_differences(found, "gained, {}", "significance, {}")


def gains_clause(gains: pd.DataFrame) -> str:
    """List the methods that gain significantly, with their gains: "AttnLRP 0.20; occlusion 0.10"."""
    significant = gains[gains["low"] > 0].to_dict("records")
    said = [f"{display_name(each['method'])} {in_words(each).brief}" for each in significant]
    return "; ".join(said) or "none"


def tell_exercises(kept: Kept) -> None:
    """Tell the numbers that the solutions quote."""
    for name, metric in {"usual": TODAY, "expected": EXPECTED}.items():
        tau = one_number(kept.rows, run="reverse, compiled", metric=f"tau: {metric}")
        tell({f"exercise reverse, {name}": _value(tau)})
    readouts = {
        readout: _of_all(kept, "tau", f"without the first, replace, {readout}")
        for readout in ("p", "margin", "log p")
    }
    tell_in_words(readouts, "exercise read, {}")
    perturbations = {how: _of_all(kept, "tau", f"comprehensiveness, {how}, p") for how in ("mask", "delete")}
    tell_in_words(perturbations, "exercise {}")
    deleting = _of_all(kept, "expected", PREDICTIONS[-1].words)
    _tell_differences({"exercise delete or mask": deleting}, "{}", "{}, significance")
    shares = {
        form: _value(_of_all(kept, "above", f"{form}, replace, log p"))
        for form in ("without the first", "comprehensiveness", "deletion")
    }
    tell(shares, "exercise above, {}", "%")


# ---- recorded further experiments --------------------------------------------------------------------


def tell_later(later: Kept, ahead: pd.DataFrame) -> None:
    """Tell what the later run shows.

    Args:
        later: the numbers of that run.
        ahead: how much more tau each later metric has than the selected one.
    """
    rule = later.metrics.get(UNTOLD, NOT_RUN)
    taus = {"expected": EXPECTED, "usual": TODAY, "untold, tau": rule}
    tell_in_words({name: _of_all(later, "tau", metric) for name, metric in taus.items()}, "later {}")
    changes = {
        name: one_number(later.rows, metric=f"{PART} apart: {kind}; {EXPECTED}")
        for name, kind in {"wrongly": "answered wrongly", "far": "out of distribution"}.items()
    }
    tell_in_words(changes, "later {}")
    by_standard = later.rankings.get("usual", pd.DataFrame())
    favoured = {method: one_number(by_standard, method=method) for method in ("KernelSHAP", "ContextCite")}
    tell_in_words(favoured, "later usual {}")
    check = later.rows["metric"].eq(f"ladder: {EXPECTED}") & later.rows["run"].isin(CHOOSING)
    tell({"later untold": display_name(rule), "later ladder": later.rows.loc[check, "value"].mean()})
    tell({"judges asked": len(ahead), "judges behind": int((ahead["high"] < 0).sum())})


def tell_needles(agreement: pd.DataFrame, methods: pd.DataFrame, outcomes: pd.DataFrame) -> None:
    """Tell what metrics and methods do on the language model, from the tables of `recorded_tables`."""
    metrics = {"expected": EXPECTED, "usual": TODAY}
    for kind, setting in {"fact": needles.FACT, "name": needles.NAME}.items():
        taus, shares = (
            {
                name: one_number(agreement, setting=setting, judge=metric, number=number)
                for name, metric in metrics.items()
            }
            for number in (TAU, BEFORE)
        )
        tell_in_words(taus, f"needle tau {kind} {{}}")
        tell({f"needle prompts {kind}": _value(taus["usual"], "n")})
        tell({name: _value(share) for name, share in shares.items()}, f"needle before {kind} {{}}", "%")
        for of, prediction in zip(("tau", "before"), needles.PREDICTED, strict=True):
            outcome = one_number(outcomes, setting=setting, prediction=prediction.words)
            words = NOT_RUN if outcome is None else display_name(outcome["came out"])
            tell({f"needle hope {kind} {of}": words})
    of_facts = methods[(methods["setting"] == needles.FACT) & ~methods["method"].isin(BESIDE)]
    found = {name: one_number(of_facts, judge=PLAUSIBILITY, method=name) for name in ("AttnLRP", ROLLOUT)}
    tell_in_words(found, "needle found fact {}")
    scores = of_facts.loc[of_facts["judge"] == EXPECTED, "value"]
    tell({"needle nothing fact": int((scores == 0).sum()), "needle measures": len(scores)})


def tell_roar(agreement: pd.DataFrame, lost: pd.DataFrame, outcomes: pd.DataFrame) -> None:
    """Tell how ROAR and its control order methods, from the tables of `recorded_tables`."""
    hist = "hist, supervised"
    for name, setting in {"hist": hist, "reverse": "reverse"}.items():
        taus = {
            judge: one_number(agreement, setting=setting, judge=judge, number=TAU)
            for judge in (roar.ROAR, roar.RANDOM)
        }
        tell_in_words(taus, f"roar tau {name} {{}}")
    shares = {
        of: _value(one_number(lost, setting=hist, judge=roar.ROAR, method=rung))
        for of, rung in {"truth": RUNGS[0], "noise": RUNGS[-1]}.items()
    }
    tell(shares, "roar lost hist {} ROAR", "%")
    tell({"roar questions": roar.QUESTIONS, "roar models": agreement["n"].max()})
    tell({"roar expected": len(outcomes), "roar came out": _count(outcomes, "yes")})


def tell_carried(methods: pd.DataFrame, outcomes: pd.DataFrame) -> None:
    """Tell how learned weights of heads carry over.

    Args:
        methods: average precision by `setting` and `method`.
        outcomes: the results of the predictions, over settings.
    """
    differences = {
        name: one_number(outcomes, prediction=prediction.words)
        for name, prediction in zip(("near", "like", "other"), carry.PREDICTED, strict=True)
    }
    _tell_differences(differences, "carry {}", "carry significance {}")
    tell({"carry expected": len(carry.PREDICTED), "carry came out": _count(outcomes, "yes")})
    learned = [carry.LIKE, carry.NEAR, carry.OTHER]
    wide = methods.pivot(index="setting", columns="method", values="value").reindex(
        columns=[carry.LEADER, *learned]
    )
    leads = wide[carry.LEADER] > wide[learned].max(axis=1)
    tell({"carry settings": len(wide), "carry leader": int(leads.sum())})


# ---- this run ----------------------------------------------------------------------------------------


def tell_predictions(outcomes: pd.DataFrame) -> None:
    """Tell how many predictions were confirmed and refuted in this run."""
    tell({"predictions here": tally_clause(outcomes["came out"])})


def tell_blind_spot(
    shares: Float[Tensor, "method token"], sources: Bool[Tensor, " token"], n_blind: int = 5
) -> None:
    """Tell the largest share that a source gets from the first methods, which follow only values."""
    tell({"blind": float(shares[:n_blind, sources].max())})


# ---- numbers of a record -----------------------------------------------------------------------------


def _selected_and_standard(kept: Kept) -> dict[str, str]:
    return {UNTOLD: kept.metrics.get(UNTOLD, NOT_RUN), "usual": TODAY}


def _of_all(kept: Kept, what: str, of: str) -> pd.Series | None:
    """A number over all settings of the run, of a metric or prediction."""
    return one_number(kept.rows, run=ALL, metric=f"{what}: {of}")


def _mean(rows: pd.DataFrame) -> dict[str, Any] | None:
    """The mean over settings with its interval."""
    return _if_run(estimate(rows["value"]))


def _if_run(number: Estimate) -> dict[str, Any] | None:
    return number._asdict() if number.n else None


def _value(number: Number, column: str = "value") -> Any:
    return None if number is None else number[column]


def _count(outcomes: pd.DataFrame, outcome: str) -> int:
    return int(outcomes["came out"].eq(outcome).sum())


def _tell_differences(differences: Mapping[Any, Number], name: str, said: str) -> None:
    """Tell differences under one name, and whether they are significant under another."""
    tell_in_words(differences, name)
    tell({key: significance(difference) for key, difference in differences.items()}, said)
