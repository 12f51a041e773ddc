"""The tables of the arithmetic lens, and the rows of a record."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from torch import nn

from attnlib.generators.arithmetic import arithmetic, best_possible
from attnlib.measures import answer_texts, generate_answers, sample_scores
from attnlib.stats import answer_accuracy, over_seeds, pooled, summarise
from attnlib.stats.intervals import SHARE
from book.chapters.findings.rules import above
from book.chapters.lens.arithmetic_lens import ArithmeticLens, LensRun
from book.chapters.lens.measures import digit_rows, look_rows, pattern_rows, seen_rows, whole_answers
from book.chapters.records import paper_figures

Models = Mapping[str, nn.Module]
"""The trained models, by the names of their runs."""


OVER_SEEDS = "over seeds"
"""The run's name in rows over seeds."""


def accuracy(p: ArithmeticLens, models: Models) -> pd.DataFrame:
    """`answer_accuracy` of every model on its test problems, the answer alone, with the column `run`."""
    scores = [
        sample_scores(models[run.name], p.answers(run, "test")).assign(run=run.name) for run in p.runs()
    ]
    return answer_accuracy(pd.concat(scores), ["run"])


def exact_match(accuracy: pd.DataFrame) -> pd.Series:
    """The exact match of every run, by its name, from the table of `accuracy`."""
    return accuracy[accuracy["metric"] == "exact match"].set_index("run")["value"]


def written(p: ArithmeticLens, model: nn.Module) -> pd.DataFrame:
    """Ten test problems, at most, that the main model gets wrong, and five that it gets right."""
    run = p.runs()[0]
    task, problems = p.task(run), p.splits(run).test
    answers = answer_texts(generate_answers(model, p.answers(run, "test")), task.tokenizer)
    answers["problem"] = [text.partition("=")[0] for text in task.texts(problems)]
    some = pd.concat([answers.query("not correct").head(10), answers.query("correct").head(5)])
    columns = {"target": "right answer", "predicted": "written"}
    return some.set_index("problem")[[*columns]].rename(columns=columns)


def by_parts(p: ArithmeticLens, models: Models) -> pd.DataFrame:
    """Accuracy by column and by carries, of the main model and of those with other operators."""
    first, *others = p.runs()
    tables = []
    for run in [first, *(run for run in others if run.operators != p.operators)]:
        digits = digit_rows(models[run.name], p.task(run), p.splits(run).test)
        answers = whole_answers(digits).sort_values("carries")
        for split, rows in {"column": digits, "carries": answers}.items():
            table = summarise(rows, [split], "right").rename(columns={split: "part"})
            tables.append(table.assign(split=split, run=run.name))
    found = pd.concat(tables, ignore_index=True)[["run", "split", "part", "value", "low", "high", "n"]]
    return found.astype({"part": str})


def looks_by_layer(p: ArithmeticLens, models: Models) -> pd.DataFrame:
    """The attention of each seed's main model: the mean of `look_rows` by `seed`, `layer` and `kind`."""
    run = p.runs()[0]
    task, problems = p.task(run), p.splits(run).test
    rows = [look_rows(models[p.name(seed)], task, problems).assign(seed=seed) for seed in p.seeds]
    return summarise(pd.concat(rows), ["seed", "layer", "kind"])


def layer_differences(looks: pd.DataFrame) -> pd.DataFrame:
    """The attention of a claim's layers on its kind of key minus that of the other layers, by seed."""
    last = int(looks["layer"].max())
    claims = {
        "early layers look local": ("local", [0]),
        "middle layers find the operator": ("operator", list(range(1, last))),
        "late layers combine the columns": ("either column", [last]),
    }
    rows = [pd.DataFrame(columns=["claim", "seed", "value"])]
    for claim, (kind, layers) in claims.items():
        table = looks[looks["kind"] == kind].pivot(index="seed", columns="layer", values="value")
        if layers and len(table.columns) > 1:
            apart = table[layers].mean(axis=1) - table.drop(columns=layers).mean(axis=1)
            rows.append(apart.rename("value").reset_index().assign(claim=claim))
    return pd.concat(rows[len(rows) > 1 :], ignore_index=True)[["claim", "seed", "value"]]


def layer_claims(differences: pd.DataFrame) -> pd.DataFrame:
    """The mean difference over seeds and the verdict on each claim of `layer_differences`."""
    rows = []
    for claim, of_seeds in differences.groupby("claim", sort=False):
        estimate = over_seeds(of_seeds["value"].to_numpy(float))
        rows.append({"claim": claim} | estimate._asdict() | {"verdict": above(estimate)})
    return pd.DataFrame(rows, columns=["claim", "value", "low", "high", "n", "verdict"])


SIZE = "3 layers, 4 heads, width 128, 15,650 steps"
"""The original's size, with which the settings of its models begin."""

CLAIMED = "claim: "


def claims_at_size(rows: pd.DataFrame) -> pd.DataFrame:
    """`layer_claims` of all recorded models of the original's size, whatever their learning rate schedule."""
    sized = rows.groupby("record")["setting"].transform(
        lambda names: names.astype(str).str.startswith(SIZE).any()
    )
    found = rows[sized.astype(bool) & rows["run"].eq(OVER_SEEDS) & rows["metric"].str.startswith(CLAIMED)]
    together = pooled(found, ["metric"])
    together["claim"] = together["metric"].str.removeprefix(CLAIMED)
    verdicts = [above(row) for row in together.itertuples()]
    return together.assign(verdict=verdicts)[["claim", "value", "low", "high", "n", "verdict"]]


def patterns(p: ArithmeticLens, models: Models) -> pd.DataFrame:
    """The share of each of `PATTERNS` in a layer's attention, over seeds."""
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
    """`paired_over_seeds` of the accuracy of generated answers, without and with scheduled sampling."""
    sampled = [run for run in p.runs() if run.sampling]

    def by_itself(name: str, run: LensRun) -> pd.Series:
        answers = generate_answers(models[name], p.answers(run, "test"))
        return answer_accuracy(answers).set_index("metric")["value"]

    names = [run.name for run in sampled]
    plain = pd.DataFrame([by_itself(p.name(run.seed), run) for run in sampled], index=names)
    mixed = pd.DataFrame([by_itself(run.name, run) for run in sampled], index=names)
    return paired_over_seeds(plain, mixed)


def paired_over_seeds(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Numbers of the same seeds before and after a change, and their difference."""
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


def overlap(p: ArithmeticLens) -> pd.DataFrame:
    """The sizes of our splits and of the original's, and the share of test problems that are in training."""
    first = p.runs()[0]
    task = p.task(first)
    drawn = {"here": first} | {run.name: run for run in p.runs() if run.published}
    rows = []
    for name, run in drawn.items():
        splits = p.splits(run)
        different = len(set(task.texts(splits.train)))
        counts = {"training": len(splits.train), "different": different}
        rows.append({"splits": name} | counts | {"test in training": splits.seen().mean()})
    return pd.DataFrame(rows)


def beside_the_log(p: ArithmeticLens, models: Models) -> pd.DataFrame:
    """The original's log compared with what is possible, and with our models on validation problems."""
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
    """`beside_the_log` as `book.chapters.records.beside_the_paper` draws it, the accuracy in percent."""
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
    differences: pd.DataFrame,
    patterns: pd.DataFrame,
    sampling: pd.DataFrame,
    overlapping: pd.DataFrame,
    versus: pd.DataFrame,
) -> pd.DataFrame:
    """The rows of a record: a run's set-up, `metric`, `value`, `low`, `high` and `n`."""
    rows = [accuracy.merge(p.run_table(), on="run")]
    claims = layer_claims(differences)
    rows += [claims.assign(run=OVER_SEEDS, metric=CLAIMED + claims["claim"])]
    each = differences.assign(run=[p.name(seed) for seed in differences["seed"]], n=1)
    rows += [each.assign(metric=CLAIMED + each["claim"], low=each["value"], high=each["value"])]
    names = "share on " + patterns["kind"] + ", layer " + patterns["layer"].astype(str)
    rows += [patterns.assign(run=OVER_SEEDS, metric=names)]
    if len(sampling):
        names = "scheduled sampling, difference in " + sampling["metric"] + ", by itself"
        rows += [sampling.assign(run=OVER_SEEDS, metric=names)]
    if len(overlapping):
        rows += [overlapping.assign(metric="exact match, " + overlapping["test problems"])]
    if "n" in versus:
        here = versus.reset_index().rename(columns={"here": "value"})
        rows += [here.assign(run=as_published(p).name)]
    columns = [*p.run_table().columns, "metric", "value", "low", "high", "n"]
    return pd.concat(rows, ignore_index=True)[columns]
