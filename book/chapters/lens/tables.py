"""What comes of the arithmetic lens: its tables, and the rows of a record."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from torch import nn

from attnlib.generators.arithmetic import arithmetic, best_possible
from attnlib.measures import generate_answers, sample_scores
from attnlib.stats import answer_accuracy, over_seeds, summarise
from attnlib.stats.intervals import SHARE
from book.chapters.lens.arithmetic_lens import ArithmeticLens, LensRun
from book.chapters.lens.measures import look_rows, pattern_rows, seen_rows
from book.chapters.records import paper_figures

Models = Mapping[str, nn.Module]
"""The trained models, by the names of their runs."""


def accuracy(p: ArithmeticLens, models: Models) -> pd.DataFrame:
    """`answer_accuracy` of every model on its test problems, the answer alone, with the column `run`."""
    scores = [
        sample_scores(models[run.name], p.answers(run, "test")).assign(run=run.name) for run in p.runs()
    ]
    return answer_accuracy(pd.concat(scores), ["run"])


def looks_by_layer(p: ArithmeticLens, models: Models) -> pd.DataFrame:
    """What each seed's main model looks at: the mean of `look_rows`, by `seed`, `layer` and `kind`."""
    run = p.runs()[0]
    task, problems = p.task(run), p.splits(run).test
    rows = [look_rows(models[p.name(seed)], task, problems).assign(seed=seed) for seed in p.seeds]
    return summarise(pd.concat(rows), ["seed", "layer", "kind"])


def layer_claims(looks: pd.DataFrame) -> pd.DataFrame:
    """Early layers look local, middle layers find the operator, late layers combine: is it so?

    Each claim is a difference: the share of a kind in the layers it is claimed for, less its mean over the
    other layers. One seed, one number; the interval is over seeds.

    Args:
        looks: the mean share of attention by `seed`, `layer` and `kind` (see `look_rows`), as
            `value`.

    Returns:
        Columns `claim`, `value`, `low`, `high`, `n` (seeds) and `holds`: "yes" if the interval is above 0,
        "no" if it is below, else "not settled". Models of two layers have no middle; of one, no claim.
    """
    last = int(looks["layer"].max())
    claims = {
        "early layers look local": ("local", [0]),
        "middle layers find the operator": ("operator", list(range(1, last))),
        "late layers combine the columns": ("either column", [last]),
    }
    rows = []
    for claim, (kind, layers) in claims.items():
        table = looks[looks["kind"] == kind].pivot(index="seed", columns="layer", values="value")
        if not layers or len(table.columns) < 2:
            continue
        difference = table[layers].mean(axis=1) - table.drop(columns=layers).mean(axis=1)
        estimate = over_seeds(difference.to_numpy())
        holds = "yes" if estimate.low > 0 else "no" if estimate.high < 0 else "not settled"
        rows.append({"claim": claim} | estimate._asdict() | {"holds": holds})
    return pd.DataFrame(rows, columns=["claim", "value", "low", "high", "n", "holds"])


def patterns(p: ArithmeticLens, models: Models) -> pd.DataFrame:
    """How much of a layer's attention each of `PATTERNS` has, over seeds.

    Returns:
        A row per `kind` and `layer`: the mean over the seeds' main models with Student's interval (`value`,
        `low`, `high`, `n`), and `uniform`, the same of attention that is even.
    """
    run = p.runs()[0]
    task, problems = p.task(run), p.splits(run).test
    rows = [pattern_rows(models[p.name(seed)], task, problems).assign(seed=seed) for seed in p.seeds]
    means = pd.concat(rows).groupby(["kind", "layer", "seed"], sort=False)[["value", "uniform"]].mean()
    found = [
        {"kind": kind, "layer": layer}
        | over_seeds(seeds["value"].to_numpy(), share=True)._asdict()
        | {"uniform": seeds["uniform"].mean()}
        for (kind, layer), seeds in means.groupby(["kind", "layer"], sort=False)
    ]
    return pd.DataFrame(found)


def sampling(p: ArithmeticLens, models: Models) -> pd.DataFrame:
    """`paired_over_seeds` of answers written by themselves: without scheduled sampling, and with it."""
    sampled = [run for run in p.runs() if run.sampling]

    def by_itself(name: str, run: LensRun) -> pd.Series:
        answers = generate_answers(models[name], p.answers(run, "test"))
        return answer_accuracy(answers).set_index("metric")["value"]

    names = [run.name for run in sampled]
    plain = pd.DataFrame([by_itself(p.name(run.seed), run) for run in sampled], index=names)
    mixed = pd.DataFrame([by_itself(run.name, run) for run in sampled], index=names)
    return paired_over_seeds(plain, mixed)


def paired_over_seeds(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Numbers of the same seeds before and after a change, and what it changed.

    Args:
        before: a row per seed, a column per metric.
        after: the same rows and columns.

    Returns:
        A row per metric: `metric`, `before`, `after` (means), `value` (their difference), `low`, `high`
        and `n`.

    Raises:
        ValueError: the seeds or metrics differ.
    """
    if not (before.index.equals(after.index) and before.columns.equals(after.columns)):
        raise ValueError(
            f"both should have the same seeds and metrics; got {list(before.index)} and {list(after.index)}, "
            f"{list(before)} and {list(after)}"
        )
    rows = []
    for metric in before:
        means = {"metric": metric, "before": before[metric].mean(), "after": after[metric].mean()}
        rows.append(means | over_seeds((after[metric] - before[metric]).to_numpy())._asdict())
    return pd.DataFrame(rows, columns=["metric", "before", "after", "value", "low", "high", "n"])


def overlapping(p: ArithmeticLens, models: Models) -> pd.DataFrame:
    """Exact match on published splits, by `run` and `test problems` (see `seen_rows`)."""
    rows = [
        seen_rows(models[run.name], p.task(run), p.splits(run)).assign(run=run.name)
        for run in p.runs()
        if run.published
    ]
    none = pd.DataFrame(columns=["run", "test problems", "right"]).astype({"right": bool})
    return summarise(pd.concat([none, *rows]), ["run", "test problems"], "right")


def beside_the_log(p: ArithmeticLens, models: Models) -> pd.DataFrame:
    """The original's log beside what is possible, and beside ours on validation problems.

    Returns:
        A row per metric, in columns "the original's log", "best possible", and "here", `low`, `high` and `n`;
        `here` is "not run", and there is no interval, where this chapter's problems are not the original's.
    """
    figures = paper_figures().query("table == 'Attention Lens log'").set_index("task")["value"]
    versus = pd.DataFrame({"the original's log": [figures["token accuracy"] / 100, figures["cross entropy"]]})
    versus.index = pd.Index(["token accuracy, operands too", "cross entropy, operands too"], name="metric")
    versus["best possible"] = list(best_possible(arithmetic("+", (1, 99), operands_too=True)).values())
    if not p.published or (p.operators, p.lowest, p.highest) != ("+", 1, 99):
        return versus.assign(here="not run")
    run = as_published(p)
    rows = sample_scores(models[run.name], p.task(run).in_batches(p.splits(run).valid))
    of_what = {"right": SHARE, "loss": None}
    here = pd.concat([summarise(rows, (), part, whole="asked", bounds=of_what[part]) for part in of_what])
    here = here.rename(columns={"value": "here"}).set_index(versus.index)
    return versus.join(here[["here", "low", "high", "n"]])


def beside_points(versus: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`beside_the_log` as `book.chapters.records.beside_the_paper` draws it, the accuracy in percent.

    Returns:
        Ours, with `task` and `metric` as in the log; and what is possible, as marks.
    """
    rows = versus.reset_index().assign(task="addition, 1 to 99", by="here")
    rows["metric"] = rows["metric"].str.removesuffix(", operands too")
    percent = rows["metric"].map({"token accuracy": 100}).fillna(1)
    possible = rows.assign(value=rows["best possible"] * percent, mark="best possible")
    if "n" not in rows:
        return rows.iloc[:0], possible[["task", "metric", "value", "mark"]]
    here = rows.rename(columns={"here": "value"})
    numbers = ["value", "low", "high"]
    here[numbers] = here[numbers].mul(percent, axis=0)
    return here, possible[["task", "metric", "value", "mark"]]


def as_published(p: ArithmeticLens) -> LensRun:
    """The run on the original's own splits."""
    return next(run for run in p.runs() if run.published)


def to_record(
    p: ArithmeticLens,
    accuracy: pd.DataFrame,
    claims: pd.DataFrame,
    patterns: pd.DataFrame,
    sampling: pd.DataFrame,
    overlapping: pd.DataFrame,
    versus: pd.DataFrame,
) -> pd.DataFrame:
    """The rows of a record: a run's set-up, `metric`, `value`, `low`, `high` and `n`.

    Args:
        p: the chapter.
        accuracy: see `accuracy`.
        claims: of `layer_claims`.
        patterns: see `patterns`.
        sampling: see `sampling`.
        overlapping: see `overlapping`.
        versus: see `beside_the_log`.
    """
    rows = [accuracy.merge(p.run_table(), on="run")]
    rows += [claims.assign(run="over seeds", metric="claim: " + claims["claim"])]
    names = "share on " + patterns["kind"] + ", layer " + patterns["layer"].astype(str)
    rows += [patterns.assign(run="over seeds", metric=names)]
    if len(sampling):
        names = "scheduled sampling, difference in " + sampling["metric"] + ", by itself"
        rows += [sampling.assign(run="over seeds", metric=names)]
    if len(overlapping):
        rows += [overlapping.assign(metric="exact match, " + overlapping["test problems"])]
    if "n" in versus:
        here = versus.reset_index().rename(columns={"here": "value"})
        rows += [here.assign(run=as_published(p).name)]
    columns = [*p.run_table().columns, "metric", "value", "low", "high", "n"]
    return pd.concat(rows, ignore_index=True)[columns]
