"""What comes of the algorithmic tasks: the rows of a record, and tables over every recorded model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from attnlib.generators.base import Batch
from attnlib.plots.drawing import labelled
from attnlib.stats import (
    Estimate,
    answer_accuracy,
    mass_table,
    rank_correlation,
    summarise,
    table_over_seeds,
)
from attnlib.stats.masses import MEAN, ROLLOUT
from book.chapters.reasoning import verdicts
from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning
from book.chapters.reasoning.intervention import head_masses, reinforcement_rows
from book.chapters.records.numbers import counted as counted_units

ACCURACY = "teacher-forced accuracy"
MASS = "rollout"

LLAMA, OWN_BLOCKS, FINE_TUNED = "small Llamas", "our own transformer", "fine-tuned language model"
"""The families of models that get verdicts."""

LONGER = "length 1-10; OOD length 11-20"
"""The ranges of reversal that is trained on shorter strings than it is tested on."""


def over_seeds(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """`table_over_seeds` of shares; of a single seed, its own numbers and intervals over texts."""
    numbers = {name: pd.to_numeric(rows[name], errors="coerce") for name in ("value", "low", "high")}
    rows = rows.assign(**numbers).dropna(subset=["value"])
    of = "seeds" if rows["seed"].nunique() > 1 else "texts"
    if of == "seeds":
        rows = rows.dropna(subset=["seed"])  # without what is over all seeds already
    return table_over_seeds(rows, by, share=True, of_one=True).assign(of=of)


def counted(rows: pd.DataFrame) -> str:
    """What the intervals of `over_seeds` are over, for a caption: "3 seeds", "38 to 200 texts"."""
    of = " and ".join(rows["of"].unique()) if "of" in rows else "texts"
    return f"{counted_units(rows['n'])} {of}"


def recorded(table: pd.DataFrame, form: str, *more: str) -> pd.DataFrame:
    """Rows of a table as they are recorded: those that have a number."""
    named = table.assign(metric=[form.format_map(row) for row in table.to_dict("records")])
    named = named[pd.to_numeric(named["value"], errors="coerce").notna()]
    numbers = {"value": float, "low": float, "high": float, "n": int} | dict.fromkeys(more, float)
    return named[["run", "metric", *numbers]].astype(numbers)


def extrapolation(rows: pd.DataFrame) -> pd.DataFrame:
    """What every recorded model looks at, and how well it does, out of distribution: a row per model."""
    about = ["record", "run", "task", "ranges", "model", "seed"]
    names = {"accuracy": f"{ACCURACY} OOD", "mass": f"{MASS}, OOD", "mass ID": f"{MASS}, ID"}
    if any(name not in rows for name in (*about, "metric", "uniform")):
        return pd.DataFrame(columns=[*about, *names, "above uniform"])
    even = rows.loc[rows["metric"] == names["mass"], [*about, "uniform"]]
    table = even.rename(columns={"uniform": "above uniform"})
    for name, metric in names.items():
        found = rows.loc[rows["metric"] == metric, [*about, "value"]]
        table = table.merge(found.rename(columns={"value": name}), on=about)
    table["above uniform"] = table["mass"] - table["above uniform"]
    # The page's run is the first of several seeds, too: a model that is in two records counts once.
    return table.drop_duplicates(["task", "model", "seed", *names], ignore_index=True)


def by_kind(models: pd.DataFrame) -> pd.DataFrame:
    """The numbers of `extrapolation`, a row per kind of model and test: of its seeds the mean."""
    return models.groupby(["task", "ranges", "model"], sort=False, as_index=False).mean(numeric_only=True)


def kinds_judged(rows: pd.DataFrame, **rule: float) -> pd.DataFrame:
    """The verdict on every kind of model that is recorded with several seeds, towards longer texts.

    Fine-tuned addition is among them, though the study tests it on shorter sums: it shows no loss.
    """
    several, by_positions = verdicts.verdict_tables(rows, **rule)
    tuned = rows[rows["setting"].str.contains("fine-tuned")] if len(rows) else rows
    families = {
        LLAMA: several[~verdicts.apart(several)],
        OWN_BLOCKS: by_positions,
        FINE_TUNED: verdicts.judged(verdicts.recorded_gains(tuned), **rule),
    }
    return labelled(families, "models")


def correlations(models: pd.DataFrame) -> pd.DataFrame:
    """Does attention on the reference go with accuracy out of distribution, across kinds of model?"""
    found = list[dict[str, Any]]()
    models = by_kind(models)
    tests = models["task"] + "; " + models["ranges"]
    for name in ("mass", "above uniform", "mass ID"):
        estimates: dict[str, Estimate] = {
            "all models": rank_correlation(models[name], models["accuracy"]),
            "within tasks": rank_correlation(models[name], models["accuracy"], tests.tolist()),
        }
        for task, part in models.groupby("task", sort=False):
            estimates[str(task)] = rank_correlation(part[name], part["accuracy"], tests[part.index].tolist())
        found += [{"attention": name, "over": over} | each._asdict() for over, each in estimates.items()]
    return pd.DataFrame(found, columns=["attention", "over", "value", "low", "high", "n"])


SPLITS = {"ID": "id", "OOD": "ood"}
"""The two tests, and the parts of a task that they are of."""

Models = Mapping[str, nn.Module]
"""By the names of `runs()`."""


def over_all(
    p: AlgorithmicReasoning, models: Models, measure: Callable[[nn.Module, list[Batch]], pd.DataFrame]
) -> pd.DataFrame:
    """What a function of model and batches finds, for every run and split, with `run` and `split`."""
    batches = {(name, split): p.batches(name, part) for name in p.tasks for split, part in SPLITS.items()}
    return pd.concat(
        [
            measure(models[run.name], batches[run.task, split]).assign(run=run.name, split=split)
            for run in p.runs()
            for split in SPLITS
        ],
        ignore_index=True,
    )


def accuracies(p: AlgorithmicReasoning, ways: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Accuracy of every run and split, by way of answering."""
    found = [answer_accuracy(rows, ["run", "split"]).assign(how=how) for how, rows in ways.items()]
    kinds = p.run_table().set_index("run")[["kind", "seed"]]
    return pd.concat(found, ignore_index=True).join(kinds, on="run")


def masses(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Shares of attention on the reference (see `mass_table`), of `over_all(p, models, evaluate_rows)`."""
    kind = rows["correct"].map({True: "right", False: "wrong"})
    order = [f"{split}, {kind}" for split in SPLITS for kind in ("right", "wrong")]
    group = pd.Categorical(rows["split"] + ", " + kind, order)
    measured = [ROLLOUT, MEAN]
    by_group = mass_table(rows.assign(group=group), ["run", "group"], measured)
    return by_group, mass_table(rows, ["run", "split"], measured)


def all_ranked(p: AlgorithmicReasoning, models: Models) -> dict[str, pd.DataFrame]:
    """`ranked_heads` of every run."""
    return {run.name: verdicts.ranked_heads(p, run, models[run.name]) for run in p.runs()}


def best_head(p: AlgorithmicReasoning, models: Models, ranked: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """What each model's best head of `all_ranked` has on the reference of test texts."""
    best = {run: table["name"].iloc[0] for run, table in ranked.items()}
    heads = over_all(p, models, head_masses)
    own = heads[heads["name"] == heads["run"].map(best)]
    return summarise(own, ["run", "name", "split"], "mass", whole="rows", beside=["uniform"])


def pushed(
    p: AlgorithmicReasoning, models: Models, ranked: Mapping[str, pd.DataFrame]
) -> pd.DataFrame | None:
    """Accuracy while the best heads of every `changeable` model are redirected; `None` of none."""
    found = list[pd.DataFrame]()
    for run in verdicts.changeable(p, models):
        top = ranked[run.name].head(p.reinforced_heads)
        heads = list(zip(top["layer"], top["head"], strict=True))
        for split, part in SPLITS.items():
            rows = reinforcement_rows(models[run.name], p.batches(run.task, part), heads, p.strengths)
            about = {"run": run.name, "task": run.name, "split": split}
            found.append(answer_accuracy(rows, ["onto", "strength"]).assign(**about))
    return pd.concat(found, ignore_index=True) if found else None


def to_record(
    p: AlgorithmicReasoning,
    *,
    accuracy: pd.DataFrame,
    by_group: pd.DataFrame,
    whole: pd.DataFrame,
    best_heads: pd.DataFrame,
    by_length: pd.DataFrame,
    reinforced: pd.DataFrame | None = None,
    changed: pd.DataFrame | None = None,
    further: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """The chapter's rows for its record: of every model, and gains over the seeds of a kind."""
    made = [recorded(accuracy, "{how} {metric} {split}")]
    made += [recorded(by_group, "{measure}, {group}", "uniform")]
    made += [recorded(whole, "{measure}, {split}", "uniform")]
    made += [recorded(best_heads, "best head, {split}", "uniform")]
    if len(by_length):
        made += [recorded(by_length, "{metric}, length {up_to}", "up_to", "length")]
    if reinforced is not None:
        made += [recorded(reinforced, "{metric} {split}, strength {strength:g} onto {onto}")]
    if changed is not None:
        made += [recorded(verdicts.right_tokens(changed), "{metric}")]
        gains = verdicts.best_gains(changed)
        made += [recorded(gains, verdicts.GAIN, *verdicts.BESIDE_GAINS)]
        made += [recorded(verdicts.gains_by_seed(changed, gains), verdicts.GAIN_OF_ONE)]
    if further is not None:
        made += [recorded(further, "{metric}", "uniform")]
    runs = p.run_table()
    if len(p.seeds) > 1:
        kinds = runs.drop_duplicates("kind")
        runs = pd.concat([runs, kinds.assign(run=kinds["kind"] + verdicts.OVER_SEEDS, seed=np.nan)])
    return pd.concat(made).merge(runs, on="run")


def most_clause(shares: pd.Series) -> str:
    """The largest of some shares of answers, as the middle of a sentence."""
    if shares.empty:
        return "(not run)"
    most = f"{100 * shares.max():.0f}"
    return "no answer is right" if most == "0" else f"at most {most} % of the answers are right"


def places_clause(known: float, beyond: float) -> str:
    """Whether longer answers go wrong only where answers in training have ended, as the end of a sentence."""
    if np.isnan(known) or np.isnan(beyond):
        return "there are too few longer answers in this run"
    shares = f"{100 * known:.0f} % of the tokens are right at places that answers in training have, and "
    tied = (
        "what the model has learned is tied to places" if known > 2 * beyond else "the model fails everywhere"
    )
    return f"{shares}{100 * beyond:.0f} % at places beyond: {tied}"


def rankings_clause(correlation: Any) -> str:
    """How two rankings of the same models compare, as the end of a sentence."""
    if correlation is None:
        return "not run"
    if abs(correlation["value"]) > 1 - 1e-9:
        return (
            "the two rankings are identical" if correlation["value"] > 0 else "one ranking reverses the other"
        )
    return f"the two rankings have a rank correlation of {correlation['value']:.2f}"


def signs_clause(tests: pd.DataFrame, positive: str, negative: str) -> str:
    """Which runs differ significantly, by the sign of the difference: "lower in a and b"."""
    difference = pd.to_numeric(tests["difference"], errors="coerce")
    found = tests["differs"].eq("yes")
    cases = {
        positive: found & difference.gt(0),
        negative: found & difference.lt(0),
        "not significantly different": tests["differs"].eq("no"),
        "without enough data": ~tests["differs"].isin(["yes", "no"]),
    }
    said = [f"{words} in {in_a_row(tests['run'][case])}" for words, case in cases.items() if case.any()]
    return "; ".join(said) or "not compared"


def in_a_row(names: Iterable[str]) -> str:
    """Names as a sentence lists them: "a", "a and b", "a, b, and c"."""
    *first, last = [*names] or [""]
    return f"{', '.join(first)}{',' * (len(first) > 1)} and {last}" if first else last


def effect_clause(before: Any, after: Any) -> str:
    """What a change of attention does to accuracy, as the middle of a sentence: "raises accuracy"."""
    if before is None or after is None:
        return "(not run)"
    if after["low"] > before["high"]:
        return "raises accuracy"
    return "lowers accuracy" if after["high"] < before["low"] else "does not change accuracy significantly"
