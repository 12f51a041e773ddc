"""How many of several seeds learn, and when: counts with exact intervals, and times that may be censored."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.duration.survfunc import SurvfuncRight, survdiff
from statsmodels.stats.proportion import confint_proportions_2indep

from attnlib.stats.comparisons import corrected
from attnlib.stats.intervals import proportion
from attnlib.stats.seeds import table_over_seeds


def learned_at(curves: pd.DataFrame, threshold: float, by: str = "task") -> pd.DataFrame:
    """When each seed of each task had learned.

    Args:
        curves: columns `by`, `seed`, `step` and `accuracy`.
        threshold: the accuracy that counts as having learned.
        by: the column that tells tasks apart.

    Returns:
        Columns `by`, `seed`, `learned` and `step`: the first at which the accuracy was reached, or, of a seed
        that had not learned by then, the last at which it was looked at: its time is censored there.
    """
    rows = []
    for (task, seed), curve in curves.groupby([by, "seed"], sort=False):
        there = curve.loc[curve["accuracy"] >= threshold, "step"]
        step = there.min() if len(there) else curve["step"].max()
        rows.append({by: task, "seed": seed, "learned": bool(len(there)), "step": int(step)})
    return pd.DataFrame(rows)


def shares_learned(times: pd.DataFrame, budgets: Sequence[int], by: str = "task") -> pd.DataFrame:
    """The share of seeds that had learned within so many steps, with Clopper and Pearson's exact interval.

    Args:
        times: see `learned_at`.
        budgets: steps.
        by: the column that tells tasks apart.

    Returns:
        Columns `by`, `budget`, `value`, `low`, `high`, `n` and `count`. A budget beyond what a task was
        trained for has no row.
    """
    rows = []
    for (task, group), budget in itertools.product(times.groupby(by, sort=False), budgets):
        if not group["learned"].all() and group.loc[~group["learned"], "step"].min() < budget:
            continue
        count = int((group["learned"] & (group["step"] <= budget)).sum())
        share = proportion(count, len(group), method="exact")
        rows.append({by: task, "budget": budget} | share._asdict() | {"count": count})
    return pd.DataFrame(rows, columns=[by, "budget", "value", "low", "high", "n", "count"])


def differences_learned(shares: pd.DataFrame, reference: str, by: str = "task") -> pd.DataFrame:
    """By how much the shares of other tasks differ from that of one, budget by budget.

    The p is Barnard's, two-sided: exact, and unconditional, since how many seeds there are is fixed, and how
    many of them learn is not. (Fisher's test conditions on that number, too, and finds less.)

    Args:
        shares: see `shares_learned`.
        reference: the task that others are compared with.
        by: the column that tells tasks apart.

    Returns:
        Columns `by`, `budget`, `value` (the other's share less that of the reference), `low`, `high`
        (Newcombe's interval), `n` (seeds of both together), `p` and `p_holm`, corrected for all rows.
    """
    rows = []
    for budget, group in shares.groupby("budget"):
        its = group[by] == reference
        if not its.any():
            continue
        (c0,), (n0,), others = group.loc[its, "count"], group.loc[its, "n"], group[~its]
        for task, c1, n1 in zip(others[by], others["count"], others["n"], strict=True):
            low, high = confint_proportions_2indep(c1, n1, c0, n0, compare="diff", method="newcomb")
            # all or none of both: there is nothing to tell apart
            same = c0 + c1 in (0, n0 + n1)
            p = 1.0 if same else stats.barnard_exact([[c1, c0], [n1 - c1, n0 - c0]]).pvalue
            found = {"value": c1 / n1 - c0 / n0, "low": low, "high": high, "n": n0 + n1, "p": p}
            rows.append({by: task, "budget": budget} | found)
    table = pd.DataFrame(rows, columns=[by, "budget", "value", "low", "high", "n", "p"])
    return table.assign(p_holm=corrected(table["p"].to_numpy(float)))


def not_yet_learned(times: pd.DataFrame, by: str = "task") -> pd.DataFrame:
    """Survival curves: the share of seeds that have not learned yet, after every step at which one did.

    Kaplan and Meier's estimate, by statsmodels. All seeds of a task are looked at equally long, so that it is
    the plain share, and its interval Clopper and Pearson's exact one.

    Args:
        times: see `learned_at`.
        by: the column that tells tasks apart.

    Returns:
        Columns `by`, `step`, `value`, `low`, `high` and `n`, from step 0 to the last looked at.

    Raises:
        ValueError: a seed was looked at for less time than another took to learn.
    """
    rows = []
    for task, group in times.groupby(by, sort=False):
        censored = group.loc[~group["learned"], "step"]
        last = int(group["step"].max())
        if len(censored) and censored.min() < last:
            given = sorted(set(censored))
            raise ValueError(f"all seeds of {task!r} should be looked at equally long; got {given}")
        curve = SurvfuncRight(group["step"], group["learned"].astype(int))
        left = {0: 1.0} | dict(zip(map(int, curve.surv_times), curve.surv_prob, strict=True))
        left.setdefault(last, min(left.values()))
        for step, value in left.items():
            share = proportion(round(value * len(group)), len(group), method="exact")
            rows.append({by: task, "step": step} | share._asdict())
    return pd.DataFrame(rows)


def median_steps(times: pd.DataFrame, by: str = "task") -> pd.DataFrame:
    """After how many steps half of the seeds have learned, with its interval; infinite where they never do.

    Source:
        Brookmeyer and Crowley 1982, with the complementary log-log transform: statsmodels' `quantile_ci`.
    """
    rows = []
    for task, group in times.groupby(by, sort=False):
        curve = SurvfuncRight(group["step"], group["learned"].astype(int))
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = curve.quantile_ci(0.5)
            ends = [curve.quantile(0.5), low, high]
        value, low, high = (np.inf if np.isnan(end) else float(end) for end in ends)
        rows.append({by: task, "value": value, "low": low, "high": high, "n": len(group)})
    return pd.DataFrame(rows)


def log_rank(times: pd.DataFrame, tasks: tuple[str, str], by: str = "task") -> float:
    """The p of the log-rank test: do seeds of two tasks learn at the same times?

    It is 1 where there are no times to tell apart: nobody learned, or all did at the same step.
    """
    both = times[times[by].isin(tasks)]
    if not both["learned"].any() or (both["learned"].all() and both["step"].nunique() == 1):
        return 1.0
    return float(survdiff(both["step"], both["learned"].astype(int), both[by])[1])


def curves_over_seeds(
    curves: pd.DataFrame, metrics: Sequence[str], by: Sequence[str] = ("task", "step")
) -> pd.DataFrame:
    """The mean of each metric over seeds at each step, with Student's interval: see `table_over_seeds`.

    Args:
        curves: columns `by`, `seed` and the metrics; a metric that is missing throughout a group has no row.
        metrics: which.
        by: what is not averaged over.
    """
    there = [metric for metric in metrics if metric in curves]
    return table_over_seeds(curves.melt([*by, "seed"], there, "metric"), [*by, "metric"])
