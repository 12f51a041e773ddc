"""The chapter's tables: how many seeds learn, and when; which heads are good, and what predicts it.

Intervals of counts are exact. A seed that has not learned by the last step has a censored time.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import optimize, stats
from statsmodels.duration.survfunc import SurvfuncRight, survdiff
from statsmodels.stats.proportion import confint_proportions_2indep

from attnlib import plots
from attnlib.stats.comparisons import corrected
from attnlib.stats.intervals import Estimate, proportion
from attnlib.stats.seeds import over_seeds, table_over_seeds
from book.chapters.copying.measures import PREFERENCES


def cooccurrence(
    tasks: Mapping[str, int], length: int
) -> tuple[Float[np.ndarray, "input output"], list[str]]:
    """How often a copying task's output contains a symbol, given a symbol of the input; and the rows' names.

    Args:
        tasks: the number of symbols of each task, by its name.
        length: the length of the sequences, all of whose symbols differ.
    """
    often, names, outputs = [], [], range(1, max(tasks.values()) + 1)
    for task, symbols in tasks.items():
        sets = [set(chosen) for chosen in itertools.combinations(range(1, symbols + 1), length)]
        for given in range(1, symbols + 1):
            there = [each for each in sets if given in each]
            often.append([sum(output in each for each in there) / len(there) for output in outputs])
            names.append(f"{task}: {given}".replace(" ", "\xa0"))
    return np.array(often), names


def learned_at(curves: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """The first step with an accuracy of `threshold` by task and seed; the last step if there is none."""
    rows = []
    for (task, seed), curve in curves.groupby(["task", "seed"], sort=False):
        there = curve.loc[curve["accuracy"] >= threshold, "step"]
        step = there.min() if len(there) else curve["step"].max()
        rows.append({"task": task, "seed": seed, "learned": bool(len(there)), "step": int(step)})
    return pd.DataFrame(rows)


def shares_learned(times: pd.DataFrame, budgets: Sequence[int]) -> pd.DataFrame:
    """The share of seeds that learned within each budget, with Clopper and Pearson's exact interval."""
    rows = []
    for (task, group), budget in itertools.product(times.groupby("task", sort=False), budgets):
        if not group["learned"].all() and group.loc[~group["learned"], "step"].min() < budget:
            continue
        count = int((group["learned"] & (group["step"] <= budget)).sum())
        share = proportion(count, len(group), method="exact")
        rows.append({"task": task, "budget": budget} | share._asdict() | {"count": count})
    return pd.DataFrame(rows, columns=["task", "budget", "value", "low", "high", "n", "count"])


def differences_learned(shares: pd.DataFrame, reference: str) -> pd.DataFrame:
    """The shares of other tasks minus that of a reference task, budget by budget.

    The p-value is that of Barnard's unconditional test (two-sided): the number that learn is not fixed.
    """
    rows = []
    for budget, group in shares.groupby("budget"):
        its = group["task"] == reference
        if not its.any():
            continue
        (c0,), (n0,), others = group.loc[its, "count"], group.loc[its, "n"], group[~its]
        for task, c1, n1 in zip(others["task"], others["count"], others["n"], strict=True):
            low, high = confint_proportions_2indep(c1, n1, c0, n0, compare="diff", method="newcomb")
            # all or none of both learned: no difference to test
            same = c0 + c1 in (0, n0 + n1)
            p = 1.0 if same else stats.barnard_exact([[c1, c0], [n1 - c1, n0 - c0]]).pvalue
            found = {"value": c1 / n1 - c0 / n0, "low": low, "high": high, "n": n0 + n1, "p": p}
            rows.append({"task": task, "budget": budget} | found)
    table = pd.DataFrame(rows, columns=["task", "budget", "value", "low", "high", "n", "p"])
    return table.assign(p_holm=corrected(table["p"].to_numpy(float)))


def not_yet_learned(times: pd.DataFrame) -> pd.DataFrame:
    """Kaplan and Meier's share of seeds that have not learned yet, after every step at which one did."""
    rows = []
    for task, group in times.groupby("task", sort=False):
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
            rows.append({"task": task, "step": step} | share._asdict())
    return pd.DataFrame(rows)


def median_steps(times: pd.DataFrame) -> pd.DataFrame:
    """The median number of steps until a seed has learned, with its interval; infinite if half never do.

    Where the share rises from less than half to nearly all in one step, the interval is that step alone: the
    inverted test rejects every other step.

    Source:
        Brookmeyer and Crowley 1982, with the complementary log-log transform: statsmodels' `quantile_ci`.
    """
    rows = []
    for task, group in times.groupby("task", sort=False):
        curve = SurvfuncRight(group["step"], group["learned"].astype(int))
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = curve.quantile_ci(0.5)
            ends = [curve.quantile(0.5), low, high]
        value, low, high = (np.inf if np.isnan(end) else float(end) for end in ends)
        if np.isnan(ends[1:]).all():
            low = high = value
        rows.append({"task": task, "value": value, "low": low, "high": high, "n": len(group)})
    return pd.DataFrame(rows)


def log_rank(times: pd.DataFrame, tasks: tuple[str, str]) -> float:
    """The p-value of the log-rank test of two tasks' learning times; 1 without a difference to test."""
    both = times[times["task"].isin(tasks)]
    if not both["learned"].any() or (both["learned"].all() and both["step"].nunique() == 1):
        return 1.0
    return float(survdiff(both["step"], both["learned"].astype(int), both["task"])[1])


def in_words_by_task(rows: pd.DataFrame, digits: int = 2) -> pd.DataFrame:
    """Numbers with their intervals as texts, a row per `task` and a column per `metric`."""
    named = {str(task): part for task, part in rows.groupby("task", sort=False)}
    return plots.with_intervals(named, digits).T.rename_axis("task")


def shares_by_step(shares: pd.DataFrame) -> pd.DataFrame:
    """The shares of `shares_learned` as texts, a row per task and a column per step."""
    return in_words_by_task(shares.assign(metric="by step " + shares["budget"].astype(str)))


def medians_by_task(times: pd.DataFrame, metric: str = "median step") -> pd.DataFrame:
    """The steps of `median_steps` as texts, a row per task."""
    return in_words_by_task(median_steps(times).assign(metric=metric), digits=0)


def medians_by_start(times: pd.DataFrame, control: str) -> pd.DataFrame:
    """The median steps after every head start, and the log-rank test's p against the models without one."""
    medians = medians_by_task(times, "median step, all counted").rename_axis("start")
    ranks = [float("nan") if task == control else log_rank(times, (control, task)) for task in medians.index]
    return medians.assign(log_rank=ranks)


def dose_table(doses: pd.DataFrame, early: int, budget: int) -> pd.DataFrame:
    """The points of `dose_response` under the page's names; NaN where fewer than half of the seeds learn."""
    said = {
        "name": "symbols",
        "x": f"KTIW signal at step {early}",
        "y": f"learned by step {budget}",
        "median": "half by step",
    }
    ends = {"x_low": "low", "x_high": "high", "y_low": "from", "y_high": "to"}
    return doses.replace(float("inf"), float("nan")).rename(columns=said | ends)


def learned_and_signals(study: pd.DataFrame) -> pd.DataFrame:
    """Recorded shares that learn within 200 steps, and KTIW signals at step 20, of each task of the study."""
    said = {"hint (AUC)": "KTIW signal at step 20 (AUC)", "learned": "seeds that learn within 200 steps"}
    rows = study.query("(metric == 'hint (AUC)' and step == 20) or (metric == 'learned' and budget == 200)")
    rows = rows[~rows["task"].str.contains(", (?:uniform|both|without|no|after)")]
    return rows.replace({"metric": said}).rename(columns={"metric": "number"})


def learned_by_architecture(study: pd.DataFrame) -> pd.DataFrame:
    """Recorded shares that learn the hard and the easy task within 200 steps, by architecture (`built`)."""
    rows = study.query("metric == 'learned' and budget == 200")
    rows = rows[~rows["task"].str.contains("start|steps")]
    parts = rows["task"].str.extract(r"^(?P<task>permutations of 40|40 of 60)(?:, (?P<built>.+))?$")
    parts = parts.fillna({"built": "as in the paper"}).replace("uniform", "uniform attention")
    return rows.assign(**parts).dropna(subset="task")


def curves_over_seeds(curves: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """The mean of each metric over seeds at each step, with the interval of a share (`table_over_seeds`)."""
    there, by = [metric for metric in metrics if metric in curves], ["task", "step"]
    return table_over_seeds(curves.melt([*by, "seed", "n"], there, "metric"), [*by, "metric"], share=True)


GOOD, BAD, NEITHER, OPEN = "good", "bad", "neither", "open"

GOOD_ABOVE, BAD_BELOW = 0.95, 0.6
"""The study's bounds: on the accuracy at any evaluation, and on that at the end (Snell et al. 2021,
section 5.2, and the authors' multihead.py)."""

ORDERS = 3
"""The number of runs that grade a head, which differ only in the order of the data."""


def run_grades(curves: pd.DataFrame) -> pd.DataFrame:
    """The grade of every run: good if ever above `GOOD_ABOVE`, else bad if below `BAD_BELOW` at the end."""
    rows = []
    for (head, order), curve in curves.groupby(["head", "order"]):
        accuracy = curve.sort_values("step")["accuracy"]
        grade = GOOD if (accuracy > GOOD_ABOVE).any() else BAD if accuracy.iloc[-1] < BAD_BELOW else NEITHER
        rows.append({"head": head, "order": order, "grade": grade})
    return pd.DataFrame(rows, columns=["head", "order", "grade"])


def head_grades(runs: pd.DataFrame) -> pd.DataFrame:
    """The grade of every head: that of its runs if all agree (open if fewer than `ORDERS`), else neither."""
    rows = []
    for head, part in runs.groupby("head"):
        found = set(part["grade"])
        grade = found.pop() if len(found) == 1 else NEITHER
        if grade != NEITHER and len(part) < ORDERS:
            grade = OPEN
        rows.append({"head": head, "grade": grade, "runs": len(part)})
    return pd.DataFrame(rows, columns=["head", "grade", "runs"])


def grade_shares(runs: pd.DataFrame, heads: pd.DataFrame) -> pd.DataFrame:
    """The shares of good and bad heads, and of second runs with the same grade as the head's first run.

    Second runs are compared with each other, after good and after bad first runs, since their order of the
    data may be easier for all heads than that of the first runs.
    """
    first, second = (runs[runs["order"] == order].set_index("head")["grade"] for order in (0, 1))
    groups = {"heads": heads["grade"]}
    for grade in (GOOD, BAD):
        groups[f"second runs after a {grade} first"] = second[second.index.isin(first.index[first == grade])]
    rows = []
    for grade, (metric, grades) in itertools.product((GOOD, BAD), groups.items()):
        if len(grades):
            count = int((grades == grade).sum())
            share = proportion(count, len(grades), method="exact")
            rows.append({"metric": metric, "grade": grade} | share._asdict() | {"count": count})
    return pd.DataFrame(rows, columns=["metric", "grade", "value", "low", "high", "n", "count"])


def auc(higher: ArrayLike, lower: ArrayLike) -> Estimate:
    r"""The area under the ROC curve: how often a number of one group exceeds one of the other.

    $$\theta = P(x > y) + \tfrac{1}{2} P(x = y)$$

    The 95 % interval stays between 0 and 1, and is not a point even where the groups do not overlap.

    Source:
        Newcombe 2006, *Confidence intervals for an effect size measure based on the Mann-Whitney statistic.
        Part 2*, method 5.
    """
    x, y = np.asarray(higher, float), np.asarray(lower, float)
    if not len(x) or not len(y) or np.isnan(x).any() or np.isnan(y).any():
        raise ValueError(f"both groups should have numbers, none NaN; got {x.tolist()} and {y.tolist()}")
    value = float((x[:, None] > y).mean() + (x[:, None] == y).mean() / 2)
    z, middle = stats.norm.ppf((1 + 0.95) / 2), (len(x) + len(y)) / 2 - 1

    def beyond(theta: float) -> float:
        spread = 1 + middle * (1 - theta) / (2 - theta) + middle * theta / (1 + theta)
        return (value - theta) ** 2 - z**2 * theta * (1 - theta) * spread / (len(x) * len(y))

    near = 1e-9  # exclude the spurious roots at 0 and 1, where the variance is 0
    low = 0.0 if value == 0 else optimize.brentq(beyond, 0, value * (1 - near))
    high = 1.0 if value == 1 else optimize.brentq(beyond, value + (1 - value) * near, 1)
    return Estimate(value, float(low), float(high), len(x) + len(y))


def predictions(numbers: pd.DataFrame, heads: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """The AUC with which each metric before training separates good heads from bad and from all others."""
    table = numbers.merge(heads, on="head")
    good = table[table["grade"] == GOOD]
    rest = {"bad": table[table["grade"] == BAD], "not good": table[table["grade"] != GOOD]}
    rows = []
    for (against, others), metric in itertools.product(rest.items(), metrics):
        if len(good) and len(others):
            estimate = auc(good[metric], others[metric])._asdict()
            p = float(stats.mannwhitneyu(good[metric], others[metric]).pvalue)
            rows.append({"metric": metric, "against": against} | estimate | {"p": p})
    found = pd.DataFrame(rows, columns=["metric", "against", "value", "low", "high", "n", "p"])
    return found.assign(p_holm=corrected(found["p"].to_numpy(float)))


def pairs_learned(times: pd.DataFrame, budget: int) -> pd.DataFrame:
    """For every pair of kinds of models: the difference of the shares that learn, and the log-rank test."""
    shares = shares_learned(times, [budget])
    kinds, tables = list(dict.fromkeys(shares["task"])), []
    for place, than in enumerate(kinds[:-1]):
        table = differences_learned(shares[shares["task"].isin(kinds[place:])], than)
        table.insert(1, "than", than)
        tables.append(table.assign(log_rank=[log_rank(times, (than, kind)) for kind in table["task"]]))
    if not tables:
        return pd.DataFrame(columns=["task", "than", "value", "low", "high", "n", "p", "p_holm"])
    found = pd.concat(tables, ignore_index=True)
    raised = {f"{name}_holm": corrected(found[name].to_numpy(float)) for name in ("p", "log_rank")}
    return found.assign(**raised)


@dataclass(frozen=True)
class Graded:
    """Graded heads: the learning curves of models with one head, and the grades of runs and heads.

    Attributes:
        curves: columns `head`, `order`, `step`, `n` and `accuracy`.
    """

    curves: pd.DataFrame
    runs: pd.DataFrame
    heads: pd.DataFrame

    def of(self, grade: str) -> list[int]:
        """The heads of a grade."""
        return self.heads.loc[self.heads["grade"] == grade, "head"].tolist()

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each grade."""
        return {grade: len(self.of(grade)) for grade in ("good", "bad", "neither")}

    def __str__(self) -> str:
        """How many there are of each grade, in words."""
        said = ", ".join(f"{count} {grade}" for grade, count in self.counts.items())
        return f"{len(self.heads)} heads drawn: {said}"

    def over_training(self) -> pd.DataFrame:
        """The mean accuracy of the heads of each grade over training, with Student's interval over heads.

        Columns `task` (how many heads, of which grade), `metric`, `step`, `value`, `low`, `high` and `n`. The
        accuracy of a head is the mean of its runs.
        """
        if not len(self.heads):
            return pd.DataFrame()
        means = self.curves.groupby(["head", "step"], as_index=False)[["accuracy", "n"]].mean()
        named = self.heads.assign(
            task=self.heads["grade"].map(lambda grade: f"{len(self.of(grade))} {grade}"),
            place=self.heads["grade"].map({"good": 0, "neither": 1, "bad": 2}),
        )
        rows = means.merge(named, on="head").sort_values(["place", "head", "step"])
        return curves_over_seeds(rows.rename(columns={"head": "seed"}), ["accuracy"])


SECOND = "good, share of second runs after a {} first"
"""The metrics of a record that say whether a head stays good."""

OF_BASES = {
    SECOND.format("good"): "second run good, after a good first one",
    SECOND.format("bad"): "second run good, after a bad first one",
    "AUC of on it, good against bad": "AUC: attention on the symbol",
    "AUC of beyond place, good against bad": "AUC: content-specific attention",
    "learned, several heads, less 4 bad": "learned: 1 good of 4, minus 4 bad",
    "the good head leads": "the good head leads",
}
"""The quantities reported for every base, by the metric of a record."""

AT_SIZE = {
    "good, share of heads": "good heads",
    "bad, share of heads": "bad heads",
    SECOND.format("good"): OF_BASES[SECOND.format("good")],
    SECOND.format("bad"): OF_BASES[SECOND.format("bad")],
    "AUC of beyond place, good against not good": "AUC: good against all others",
}
"""The quantities reported for bases of the study's own size, where hardly any head is bad."""

SIZE = 256
"""Size of the hidden states of the study's own models."""


STAYS_GOOD = "stays good"
"""How much more often a second run is good after a good first one than after a bad one."""

DIFFERENCES = (STAYS_GOOD, OF_BASES["learned, several heads, less 4 bad"])
"""The quantities of `over_bases` that are differences, not shares."""


def of_bases(rows: pd.DataFrame, hidden: int = 32, asked: Mapping[str, str] = OF_BASES) -> pd.DataFrame:
    """The recorded quantities on heads of one size (by default the chapter's own), base by base."""
    rows = rows.reindex(columns=["setting", "task", "metric", *Estimate._fields])
    base = rows["setting"].astype(str).str.extract(rf"hidden {hidden},.*base (\d+)\b")[0]
    kind = rows["task"].isin(["heads", "3 bad, 1 good"])
    found = rows[base.notna() & kind & rows["metric"].isin(asked)].assign(base=base)
    found = found.assign(asked=found["metric"].map(asked)).sort_values("base", kind="stable")
    return found.drop_duplicates(["base", "asked"])[["base", "asked", "value", "low", "high", "n"]]


def over_bases(found: pd.DataFrame) -> pd.DataFrame:
    """Means over bases with Student's interval; each base is a random draw of all weights but the heads'."""
    wide = found.pivot(index="base", columns="asked", values="value").reindex(columns=[*OF_BASES.values()])
    good, bad = (OF_BASES[SECOND.format(first)] for first in ("good", "bad"))
    wide = wide.assign(**{STAYS_GOOD: wide[good] - wide[bad]})
    means = {
        str(name): over_seeds(column.dropna().to_numpy(), share=name not in DIFFERENCES)
        for name, column in wide.items()
        if column.notna().any()
    }
    return pd.DataFrame(means, index=[*Estimate._fields]).T


@dataclass(frozen=True)
class HeadResults:
    """Graded heads, their attention before training, and models with several heads.

    Attributes:
        preferences: see `initial_preference`.
        together: the accuracy of models with several heads: columns `task`, `seed`, `step` and `accuracy`.
        times: when these models learned; see `learned_at`.
        leads: the share of models with one good head in which it leads; see `CopyingHeads.found_by_good`.
        budget: the training steps of these models.
    """

    graded: Graded
    preferences: pd.DataFrame
    together: pd.DataFrame
    times: pd.DataFrame
    leads: Estimate | None
    budget: int

    @cached_property
    def shares(self) -> pd.DataFrame:
        """How many heads are good and bad: see `grade_shares`."""
        return grade_shares(self.graded.runs, self.graded.heads)

    @cached_property
    def predicted(self) -> pd.DataFrame:
        """How well attention before training separates good heads from others: see `predictions`."""
        return predictions(self.preferences, self.graded.heads, PREFERENCES)

    @cached_property
    def learned(self) -> pd.DataFrame:
        """How many models of several heads learn, when, and how they end: a row per kind and metric."""
        if not len(self.times):
            return pd.DataFrame(columns=["task", "metric", "value", "low", "high", "n", "count"])
        last = self.together[self.together["step"] == self.budget]
        tables = {
            "learned": shares_learned(self.times, [self.budget]),
            "median step": median_steps(self.times),
            "accuracy at the end": curves_over_seeds(last, ["accuracy"]),
        }
        named = [table.assign(metric=f"{metric}, several heads") for metric, table in tables.items()]
        return pd.concat(named, ignore_index=True).drop(columns="step")

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The differences between every two kinds of models with several heads: see `pairs_learned`."""
        return pairs_learned(self.times, self.budget) if len(self.times) else pd.DataFrame()

    def rows(self) -> pd.DataFrame:
        """The rows to record, all with intervals; a median that is never reached has no row."""
        share = self.shares["grade"] + ", share of " + self.shares["metric"]
        auc = "AUC of " + self.predicted["metric"] + ", good against " + self.predicted["against"]
        of_heads = (self.shares.assign(metric=share), self.predicted.assign(metric=auc))
        tables = [*(table.assign(task="heads") for table in of_heads), self.learned]
        if len(self.pairs):
            tables.append(self.pairs.assign(metric="learned, several heads, less " + self.pairs["than"]))
        if self.leads:
            leads = {"metric": "the good head leads", "task": "heads"} | self.leads._asdict()
            tables.append(pd.DataFrame([leads]))
        columns = ["metric", "task", "budget", "value", "low", "high", "n", "count", "p", "p_holm"]
        found = pd.concat([table for table in tables if len(table)] or [pd.DataFrame(columns=columns)])
        return found.reindex(columns=columns)[found["value"].abs() < float("inf")].reset_index(drop=True)
