"""Tables of the chapter `faithfulness_metrics`, and the rows that a run records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from attnlib.stats.intervals import NOTHING, Estimate
from attnlib.stats.seeds import over_seeds
from book.chapters.attribution_benchmark import tables as benchmark_tables
from book.chapters.attribution_benchmark.settings import FURTHER, were_told
from book.chapters.attribution_benchmark.tables import ahead_of, first_elsewhere
from book.chapters.faithfulness_metrics.measures import (
    LEARNED,
    PLAUSIBILITY,
    Rated,
    difference,
    estimate,
    measures_by,
    over_settings,
)
from book.chapters.faithfulness_metrics.perturbation import SOFT, Case
from book.chapters.faithfulness_metrics.predictions import (
    CONFIRMING,
    EXPECTED,
    GROUPS,
    LADDER,
    MASKING,
    RECORDED_CHOICE,
    RECORDED_SETTINGS,
    TODAY,
    chosen,
    halves,
)
from book.chapters.later import MEASURES as LATER

COLUMNS = ("tau", "somers", "ladder", "above", "before", "halves", "known halves")
"""The columns of `measures.agreement` with a protocol's numbers in a setting."""

ESTIMATE = Estimate._fields
"""The columns of a number with its interval."""

FEW = 0.1
"""The largest share of methods above ground truth with which ground truth is said to come first."""

ALL = "all settings"

CHOSEN, UNTOLD = "chosen", "chosen, not told R"
"""The text's names of the metric that the rule selects, of all metrics and of those that do not know R."""

TOLD = "without the first R"
"""The form that knows the number R of sources, which is unknown without ground truth."""

ALONE = "tau without measures that do the same"
"""The name of recorded rows that leave out the measures of `SHARED`."""

NEEDS = {
    "nothing but the prompt": ("mask", "delete"),
    "tokens that such prompts have": ("random",),
    "other prompts of the same form": ("replace",),
    "a counterfactual of each prompt": ("resample",),
}
"""The data that a user has -> the operators that need these data."""

USED = "to be used with "
"""The beginning of rows with the metric that the rule selects among those whose data a user has."""

KNOWN = "the known answers"
"""The recorded name of the ground truth, in place of a protocol, if measures are ranked by plausibility."""

AS_EVER, HIDDEN, GAINED = "trained as ever", "trained with keys hidden", "gained by keys hidden"
"""The names of rows about models that were trained in two ways, and of their difference."""

SIGN, NO_SIGN = "with their sign", "gained without sign"
"""The names of rows about signed measures, and of the gain of their absolute values."""

SHARED = {
    "mask": ("blank-out", "AtMan", "attention knockout", "ContextCite", "KernelSHAP", LEARNED),
    "resample": ("activation patching", "attribution patching"),
    "replace": ("activation patching", "attribution patching", "ReAGent"),
}
"""Operator -> measures with the same perturbation, which a protocol with that operator may favour."""

ROLLOUT = "rollout"

LEADER = "AttnLRP"
"""The measure that the recorded run ranks first."""

AHEAD = {"judges": "protocol", f"measures by {KNOWN}": "method", "measures by the judge": "method"}
"""The tables of `later_against` -> the column that names their rows."""


def same_as_a_metric(metrics: Mapping[str, str]) -> list[str]:
    """The measures with the same perturbation as one of these protocols; see `SHARED`."""
    operators = {each for each in SHARED for metric in metrics.values() if f", {each}, " in metric}
    return sorted({measure for operator in operators for measure in SHARED[operator]})


def case_table(cases: Mapping[tuple[str, int], Case]) -> pd.DataFrame:
    """A row per setting: the number of models, questions per model, candidates and sources per question."""
    rows = [
        {
            "setting": setting,
            "models": 1,
            "questions": len(case.questions),
            "candidates": case.candidates.sum(1).mean(),
            "sources": case.truth.sum(1).mean(),
        }
        for (setting, _), case in cases.items()
    ]
    groups = pd.DataFrame(rows).groupby("setting", sort=False)
    return groups.mean().assign(models=groups.size()).reset_index()


def named_metrics(table: pd.DataFrame) -> dict[str, str]:
    """The protocols that the text names, by these names; the best protocol if the table has none of them."""
    untold = table[~table["protocol"].str.startswith(TOLD)]
    choice = (
        (RECORDED_CHOICE, EXPECTED)
        if table["setting"].isin(FURTHER).all()
        else (chosen(table), chosen(untold))
    )
    found = {CHOSEN: choice[0], UNTOLD: choice[1], "expected": EXPECTED, "usual": TODAY}
    asked = set(table["protocol"])
    named = {name: metric for name, metric in found.items() if metric is not None and metric in asked}
    return named or {"best here": str(over_settings(table)["protocol"].iloc[0])}


def protocol_table(table: pd.DataFrame) -> pd.DataFrame:
    """A row per protocol, the best first: means over settings, and tau's interval over settings."""
    others = table.groupby("protocol", sort=False)[list(COLUMNS[1:])].mean().reset_index()
    return over_settings(table).merge(others, on="protocol").assign(out=lambda rows: rows["ladder"] < LADDER)


def grid(table: pd.DataFrame) -> pd.DataFrame:
    """Mean tau over settings: a row per form, a column per operator and reading."""
    means = over_settings(table[~table["protocol"].isin(SOFT)])
    parts = means["protocol"].str.rsplit(", ", n=2, expand=True)
    means = means.assign(form=parts[0], operator=parts[1], reading=parts[2])
    return means.pivot_table(index="form", columns=["operator", "reading"], values="value", sort=False)


def by_setting(table: pd.DataFrame) -> pd.DataFrame:
    """Tau of the protocols that the text names, and of plausibility by split halves, a row per setting."""
    wide = table.pivot(index="setting", columns="protocol", values="tau").loc[table["setting"].unique()]
    found = pd.DataFrame({names: wide[metric] for metric, names in _all_names(named_metrics(table)).items()})
    known = table.drop_duplicates("setting").set_index("setting")["known halves"]
    return found.assign(**{"known answers, by halves": known}).reset_index()


def decision_table(table: pd.DataFrame) -> pd.DataFrame:
    """The metric to use with given data: the rule's selection among protocols that do not know R."""
    rows = []
    operators = table["protocol"].str.rsplit(", ", n=2).str[1]
    for there, among in NEEDS.items():
        some = table[operators.isin(among) & ~table["protocol"].str.startswith(TOLD)]
        metric = chosen(some)
        confirmed = some[some["setting"].isin(CONFIRMING) & (some["protocol"] == metric)]
        if len(confirmed):
            rows.append((there, metric, *estimate(confirmed["tau"])))
    return pd.DataFrame(rows, columns=["there", "protocol", *ESTIMATE])


def retrained_table(table: pd.DataFrame, again: pd.DataFrame) -> pd.DataFrame:
    """Tau on models trained as usual and with hidden keys, in the same settings, and the difference."""
    wide = [each.pivot(index="setting", columns="protocol", values="tau") for each in (table, again)]
    rows = []
    for protocol in [name for name in (TODAY, MASKING, EXPECTED) if all(name in each for each in wide)]:
        hidden = wide[1][protocol]
        before = wide[0][protocol].reindex(hidden.index)
        numbers = {AS_EVER: estimate(before), HIDDEN: estimate(hidden), GAINED: difference(hidden - before)}
        rows += [(protocol, name, *found) for name, found in numbers.items()]
    return pd.DataFrame(rows, columns=["protocol", "settings", *ESTIMATE])


def apart_table(table: pd.DataFrame, apart: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The gain in tau on each kind of questions over right answers in distribution (column `usual`)."""
    rows = []
    for kind, there in apart.items():
        for protocol, part in there.groupby("protocol", sort=False):
            both = part.merge(table[["setting", "protocol", "tau"]], on=["setting", "protocol"])
            gained = difference(both["tau_x"] - both["tau_y"])
            rows.append((kind, protocol, both["tau_y"].mean(), *gained))
    return pd.DataFrame(rows, columns=["kind", "protocol", "usual", *ESTIMATE])


def against(numbers: pd.DataFrame, first: str, others: Iterable[str]) -> pd.DataFrame:
    """The leads of `others` over `first`, paired by setting: see `ahead_of`."""
    wide = numbers.pivot(index="setting", columns="method", values="value")
    rows = [
        (name, wide[[first, name]].dropna()[first].mean(), *ahead_of(numbers, name, first))
        for name in others
        if {first, name} <= set(wide)
    ]
    return pd.DataFrame(rows, columns=["method", "usual", *ESTIMATE])


def later_against(rated: Sequence[Rated], table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Metrics added after the recorded run against `EXPECTED`, and measures added since against `LEADER`."""
    taus = table[["setting", "protocol", "tau"]].set_axis(["setting", "method", "value"], axis=1)
    metrics = sorted(name for name in set(taus["method"]) if name.startswith("MAS, ") or name in SOFT)
    found = [against(taus, EXPECTED, metrics).rename(columns={"method": "protocol"})]
    for protocol in (PLAUSIBILITY, EXPECTED):
        asked = [each for each in rated if protocol in each.numbers]
        found.append(against(measures_by(asked, protocol), LEADER, (*LATER, LEARNED)))
    return {about: each for about, each in zip(AHEAD, found, strict=True) if len(each)}


def later_methods(ahead: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The lead of each later method over `LEADER`, by ground truth and by a metric, in one table."""
    by = {about: about.removeprefix("measures by ") for about, of in AHEAD.items() if of == "method"}
    return pd.concat([ahead[about].assign(by=name) for about, name in by.items()])


def sign_table(rated: Iterable[Rated], unsigned: Iterable[Rated], by: Mapping[str, str]) -> pd.DataFrame:
    """The gain of signed measures if the absolute value of their scores is used."""
    rows = []
    for name, protocol in by.items():
        both = measures_by(rated, protocol).merge(
            measures_by(unsigned, protocol), on=["setting", "method"], suffixes=("", "_unsigned")
        )
        for method, part in both.groupby("method", sort=False):
            gained = over_seeds((part["value_unsigned"] - part["value"]).to_numpy(float))
            rows.append((method, name, part["value"].mean(), *gained))
    return pd.DataFrame(rows, columns=["method", "by", "signed", *ESTIMATE])


def recorded(
    table: pd.DataFrame,
    apart: pd.DataFrame,
    measured: Mapping[str, pd.DataFrame],
    predictions: pd.DataFrame,
    signs: pd.DataFrame,
    again: pd.DataFrame,
    more: Mapping[str, pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """The rows to record of a run, one per number."""
    named = named_metrics(table)
    means = pd.concat(
        [over_settings(table, what).assign(run=ALL, what=what) for what in COLUMNS], ignore_index=True
    )
    groups = halves(table, [*dict.fromkeys(named.values())])
    groups = groups[groups["settings"] != "all"].rename(columns={"settings": "run"}).assign(what="tau")
    names = pd.DataFrame(
        [(ALL, f"{name} is", metric, 1.0, 1) for name, metric in named.items()],
        columns=["run", "what", "protocol", "value", "n"],
    )
    long = table.melt(["setting", "protocol"], COLUMNS, "what", "value").rename(columns={"setting": "run"})
    long = long[long["protocol"].isin(named.values()) | long["what"].eq("tau")].assign(n=1)
    alone = over_settings(apart).assign(run=ALL, what=ALONE)
    alone = alone[alone["protocol"].isin(named.values())]
    best = [
        each.assign(what=f"{protocol} ranks", protocol=each["method"])
        for protocol, there in measured.items()
        for each in (
            ranked(there, protocol).assign(run=ALL, n=lambda means: means["settings"]),
            there.assign(run=there["setting"], n=1),
        )
    ]
    came = predictions.assign(run=ALL, what="expected", protocol=predictions["prediction"])
    gained = signs.assign(run=ALL, what=NO_SIGN + ", by " + signs["by"], protocol=signs["method"])
    signed = gained.assign(what=SIGN + ", by " + signs["by"], value=signs["signed"], low=None, high=None)
    ways = retrained_table(table, again)
    hidden = again[again["protocol"].isin(ways["protocol"])]
    hidden = hidden.assign(run=hidden["setting"], what=HIDDEN, value=hidden["tau"], n=1)
    ways = ways.assign(run=ALL, what=ways["settings"])
    decided = decision_table(table)
    decided = decided.assign(run=ALL, what=USED + decided["there"])
    parts = [
        names,
        means,
        groups,
        long,
        alone,
        *best,
        came,
        signed,
        gained,
        ways,
        hidden,
        decided,
        part_rows(more or {}),
    ]
    rows = pd.concat([part for part in parts if len(part)], ignore_index=True).dropna(subset="value")
    rows = rows.assign(metric=rows["what"] + ": " + rows["protocol"], n=rows["n"].astype(int))
    return rows[["run", "metric", *ESTIMATE]]


def ranked(measured: pd.DataFrame, by: str) -> pd.DataFrame:
    """Methods in the order of their mean over settings, by `KNOWN` or by a metric, which has no upper end."""
    return benchmark_tables.over_settings(measured, 1.0 if by == KNOWN else math.inf)


PART = "part"
"""The beginning of rows about further experiments."""


def part_rows(more: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The tables of further experiments as rows to record, one per number."""
    tables = []
    for part, table in more.items():
        texts = [name for name in table if name not in ("usual", "value", "low", "high", "n")]
        of: Any = table[texts].agg("; ".join, axis=1) if len(table) else []
        rows = table.assign(run=ALL, what=f"{PART} {part}", protocol=of)
        tables.append(rows)
        if "usual" in table:
            usual = rows.assign(what=f"{PART} {part}, usual", value=table["usual"], low=None, high=None)
            tables.append(usual)
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


FAR = 1.25
"""A measure's number (noise alone is 0, the truth 1) from which on a metric has failed in a setting. Slightly
above 1 is legitimate: a measure may rank the strongest source first, but the truth does not rank sources."""


def works(measured: pd.DataFrame) -> pd.Series:
    """Whether each row is of a setting in which the metric gives no measure `FAR` or more."""
    return measured.groupby("setting")["value"].transform("max") < FAR


FREE = "confirmed on, heads not told"
"""The settings that did not select the metric, and whose heads are neither compiled nor supervised."""


def are_free(settings: pd.Series) -> pd.Series:
    """Whether settings belong to the group `FREE`."""
    return did_not_choose(settings) & ~were_told(settings)


def did_not_choose(settings: pd.Series) -> pd.Series:
    """Whether settings had no part in the selection of the metric."""
    return settings.isin([*CONFIRMING, *FURTHER])


def ahead_of_usual(kept: Kept) -> pd.DataFrame:
    """The gain in tau of the metric `UNTOLD` over the standard metric, the mean over groups of settings."""
    tau = kept.rows[kept.rows["what"] == "tau"].pivot(index="run", columns="protocol", values="value")
    tau = tau.loc[~tau.index.isin([*GROUPS, ALL])]
    ahead = tau[kept.metrics[UNTOLD]] - tau[kept.metrics["usual"]]
    names = ahead.index.to_series()
    some = {"confirmed on": did_not_choose(names), FREE: are_free(names), "all": names.notna()}
    rows = [(name, *difference(ahead[those])) for name, those in some.items()]
    return pd.DataFrame(rows, columns=["settings", *ESTIMATE])


def beside_the_first(measured: pd.DataFrame) -> pd.DataFrame:
    """The first and second measure and rollout by the chosen metric, and the leads over the latter two."""
    rows = []
    for name, part in {"all": measured, "free": measured[are_free(measured["setting"])]}.items():
        ranking = ranked(part, CHOSEN).rename(columns={"settings": "n"})
        whole = ranking[ranking["rank"].notna()].set_index("method")
        first, second = [*whole.index, "not run", "not run"][:2]
        for place, of in {"the first": first, "the second": second, ROLLOUT: ROLLOUT}.items():
            rows.append(
                {
                    "settings": name,
                    "place": place,
                    "method": of,
                    **whole.reindex([of]).fillna({"n": 0}).iloc[0],
                }
            )
        ahead = {
            "the second": ahead_of(part, first, second) if second in whole.index else NOTHING,
            ROLLOUT: first_elsewhere(part, ROLLOUT) if ROLLOUT in whole.index else NOTHING,
        }
        rows += [
            {"settings": name, "place": f"ahead of {of}", **each._asdict()} for of, each in ahead.items()
        ]
    return pd.DataFrame(rows, columns=["settings", "place", "method", *ESTIMATE, "rank_low", "rank_high"])


class Kept(NamedTuple):
    """The results in a record; `signs`, `retrained` and `decision` are from `sign_table` and its like.

    Attributes:
        metrics: the protocols that the text names, by these names.
        halves: their tau, as from `predictions.halves`; the column `judge` has the text's name of the metric.
        by_setting: their tau by setting; a protocol with several names has one column under all of them.
        rankings: the rankings of measures, by the text's name of the metric, or `KNOWN`; a measure has a
            `rank` if all settings have it.
        measured: every measure's number in every setting, by the same names; empty in older records, which
            lack these numbers.
        before: the share of methods that a protocol ranks before ground truth with its best completion; empty
            in older records, which lack it.
        failed: the settings in which a metric gives a method `FAR` or more, by the same names as `measured`.
    """

    rows: pd.DataFrame
    metrics: dict[str, str]
    halves: pd.DataFrame
    by_setting: pd.DataFrame
    rankings: dict[str, pd.DataFrame]
    measured: dict[str, pd.DataFrame]
    signs: pd.DataFrame
    retrained: pd.DataFrame
    decision: pd.DataFrame
    before: pd.DataFrame
    failed: dict[str, list[str]]

    def by_setting_of(self, what: str) -> pd.DataFrame:
        """One of `COLUMNS`, a row per setting and protocol: columns `setting`, `protocol` and `value`."""
        return _by_setting(self.rows, what)

    def taus(self) -> pd.DataFrame:
        """Tau of every metric, the mean over all settings, the highest first."""
        found = self.rows[self.rows["run"].eq(ALL) & self.rows["what"].eq("tau")]
        return found.sort_values("value", ascending=False)[["protocol", *ESTIMATE]]


def widest(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the chapter's record with the most settings and, among these, the most numbers."""
    if rows.empty:
        return rows
    sizes = rows.groupby("record")["run"].agg(["nunique", "size"])
    return rows[rows["record"] == sizes.sort_values(["nunique", "size"]).index[-1]]


def with_further(first: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one record, and those of `FURTHER` settings from the record with most of these."""
    others = rows[rows["run"].isin(FURTHER) & ~rows["run"].isin(first["run"])]
    return pd.concat([first, widest(others)], ignore_index=True)


def with_best_truth(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the records that give ground truth its best completion in most settings; see `measures`."""
    if rows.empty:
        return rows
    most = rows["run"].eq(ALL) & (rows["n"] > len(RECORDED_SETTINGS) / 2)
    whole = rows["metric"].eq(f"before: {TODAY}") & most
    return rows[rows["record"].isin(rows.loc[whole, "record"])]


def of_record(rows: pd.DataFrame) -> Kept:
    """The inverse of `recorded`: the results in the rows of one record; all empty if there is none."""
    rows = rows.reindex(columns=["run", "metric", *ESTIMATE])
    what, _, of = (rows["metric"].map(lambda name, i=i: name.partition(": ")[i]) for i in range(3))
    rows = rows.assign(run=rows["run"].astype(str), what=what.astype(str), protocol=of.astype(str))
    named = rows[rows["what"].str.endswith(" is")]
    metrics = dict(zip(named["what"].str.removesuffix(" is"), named["protocol"], strict=True))
    tau = rows[(rows["what"] == "tau") & rows["protocol"].isin(metrics.values())]
    groups = tau["run"].isin(GROUPS)
    names = _all_names(metrics)
    settings = tau[~groups & (tau["run"] != ALL)].assign(judge=lambda some: some["protocol"].map(names))
    whole = rows[rows["run"] == ALL]
    called = {KNOWN: KNOWN} | metrics
    ways = whole[whole["what"].isin([AS_EVER, HIDDEN, GAINED])].assign(settings=lambda some: some["what"])
    used = whole[whole["what"].str.startswith(USED)]
    used = used.assign(there=used["what"].str.removeprefix(USED))
    return Kept(
        rows,
        metrics,
        called_as(metrics, tau[groups].rename(columns={"run": "settings"})),
        settings.pivot(index="run", columns="judge", values="value")
        .reindex(columns=[*names.values()])
        .reset_index(names="setting"),
        {name: _ranking(whole, protocol) for name, protocol in called.items()},
        {name: _measured(rows, protocol) for name, protocol in called.items()},
        _signs(whole),
        ways[["protocol", "settings", *ESTIMATE]].reset_index(drop=True),
        used[["there", "protocol", *ESTIMATE]].reset_index(drop=True),
        _by_setting(rows, "before"),
        {},
    )


def pooled(rows: pd.DataFrame) -> Kept:
    """The results of all records: of the widest, and of the one with most `FURTHER` settings.

    Metrics' numbers of methods are from records that give ground truth its best completion, if there are such
    records, and without settings in which a metric `failed`.
    """
    if rows.empty:
        return of_record(rows)
    kept = of_record(with_further(widest(rows), rows))
    complete = with_best_truth(rows)
    best = kept if complete.empty else of_record(with_further(widest(complete), rows))
    measured, failed = {KNOWN: kept.measured[KNOWN]}, {}
    for name, protocol in kept.metrics.items():
        each = _measured(best.rows, protocol)
        well = works(each)
        measured[name], failed[name] = each[well], list(each.loc[~well, "setting"].unique())
    rankings = {
        name: ranked(each, name).rename(columns={"settings": "n"})[[*RANKED]]
        for name, each in measured.items()
        if len(each)
    }
    return kept._replace(
        measured=measured,
        rankings=kept.rankings | rankings,
        before=best.before if len(complete) else best.before[:0],
        failed=failed,
    )


RANKED = ("method", "value", "low", "high", "n", "rank")
"""The columns of a ranking of a `Kept`."""


def _by_setting(rows: pd.DataFrame, what: str) -> pd.DataFrame:
    found = rows[rows["what"].eq(what) & ~rows["run"].isin([ALL, *GROUPS])]
    return found.rename(columns={"run": "setting"})[["setting", "protocol", "value"]]


def _ranking(rows: pd.DataFrame, protocol: str) -> pd.DataFrame:
    found = rows[rows["what"] == f"{protocol} ranks"].rename(columns={"protocol": "method"})
    everywhere = found["n"] == found["n"].max()
    found = found.assign(rank=found["value"].where(everywhere).rank(ascending=False, method="first"))
    return found[[*RANKED]].reset_index(drop=True)


def _measured(rows: pd.DataFrame, protocol: str) -> pd.DataFrame:
    found = rows[(rows["what"] == f"{protocol} ranks") & (rows["run"] != ALL)]
    found = found.rename(columns={"run": "setting", "protocol": "method"})
    return found[["setting", "method", "value"]].reset_index(drop=True)


def _signs(rows: pd.DataFrame) -> pd.DataFrame:
    start = f"{NO_SIGN}, by "
    gained = rows[rows["what"].str.startswith(start)]
    gained = gained.assign(by=gained["what"].str.removeprefix(start), method=gained["protocol"])
    signed = rows[rows["what"].str.startswith(f"{SIGN}, by ")].rename(columns={"protocol": "method"})
    signed = signed.assign(by=signed["what"].str.removeprefix(f"{SIGN}, by "), signed=signed["value"])
    found = gained.merge(signed[["method", "by", "signed"]], on=["method", "by"])
    return found[["method", "by", "signed", *ESTIMATE]]


def called_as(metrics: Mapping[str, str], rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of each protocol, repeated for every name of it in the text (column `judge`), in its order."""
    return pd.concat(
        [rows[rows["protocol"] == protocol].assign(judge=name) for name, protocol in metrics.items()]
        or [rows.assign(judge=[])],
        ignore_index=True,
    )


def each_once(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `called_as` without repetition: a protocol with several names has them all in `judge`."""
    metrics = dict(zip(rows["judge"], rows["protocol"], strict=True))
    once = rows.assign(judge=rows["protocol"].map(_all_names(metrics)))
    return once.drop_duplicates(["judge", "settings"], ignore_index=True)


def _all_names(metrics: Mapping[str, str]) -> dict[str, str]:
    """Protocol -> all its names in the text, in the text's order, joined by " = "."""
    return {
        protocol: " = ".join(name for name, metric in metrics.items() if metric == protocol)
        for protocol in metrics.values()
    }
