"""The rows of a record of the algorithmic tasks, and tables over every recorded model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from attnlib.measures import answer_texts
from attnlib.plots.drawing import labelled
from attnlib.plots.intervals import with_intervals
from attnlib.stats import (
    Estimate,
    answer_accuracy,
    corrected,
    mass_table,
    p_over_seeds,
    pooled,
    rank_correlation,
    summarise,
    table_over_seeds,
)
from attnlib.stats.masses import MEAN, ROLLOUT
from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning
from book.chapters.reasoning.measures import CONTROL, NOTHING, RANDOM, REFERENCE, SPLITS
from book.chapters.records import learned_best, made_alike
from book.chapters.records.numbers import counted as counted_units

ACCURACY = "teacher-forced accuracy"
MASS = "rollout"

LLAMA, OWN_BLOCKS, FINE_TUNED = "small Llamas", "our own transformer", "fine-tuned language model"
"""The families of models for which there are verdicts."""

LONGER = "length 1-10; OOD length 11-20"
"""The ranges of reversal with longer strings in tests than in training."""

NEEDS = {
    "long_addition": "the digit at the same place of every number",
    "string_reversal": "the symbol at the mirrored place",
    "successor": "the number before, and the digits written so far",
    "long_multiplication": "one digit of each factor",
    "value_assignment": "the symbol to translate, and its entry in the table",
    "flip_flop": "the last write to the register that is read, and flips since then",
}
"""The reference of an answer token of each task, in words."""

SETTINGS = {
    "num_of_nums": "numbers",
    "start_number_range": "first number",
    "encoding_length": "pairs",
    "num_registers": "registers",
}
"""Settings of the tasks, in words."""

LANGUAGE_MODEL = "SmolLM2-135M-Instruct"

TUNED = {
    "tokens right": f"{ACCURACY} {{}}",
    "answers right": "generated exact match {}",
    "rollout": f"{MASS}, {{}}",
    "pushed": f"accuracy {{}}, strength 1 onto {REFERENCE}",
    "random": f"accuracy {{}}, strength 1 onto {RANDOM}",
}
"""The columns on the fine-tuned language model, and their metrics by split."""


def task_table(p: AlgorithmicReasoning) -> pd.DataFrame:
    """The tasks, a row each: the reference, the ranges, and a short text in distribution."""
    rows = [
        {
            "task": name.replace("_", " "),
            "reference of an answer token": NEEDS[name],
            "trained on": p.described(name, "train"),
            "longer (OOD)": p.described(name, "ood"),
        }
        for name in p.all_tasks
    ]
    samples = (p.generator(name, "id", plain=True).samples(20) for name in p.all_tasks)
    shortest = [min((sample.text for sample in some), key=len) for some in samples]
    return pd.DataFrame(rows).replace(SETTINGS, regex=True).assign(example=cut(shortest))


def cut(texts: Iterable[str], most: int = 24) -> list[str]:
    """Texts, cut off after `most` characters."""
    return [text if len(text) <= most else f"{text[:most]}…" for text in texts]


def wrong_answers(p: AlgorithmicReasoning, written: pd.DataFrame) -> pd.DataFrame:
    """The two shortest wrong answers of each model on longer inputs, beside the right ones."""
    outside = p.of_first_seed(written[written["split"] == "OOD"])
    found = list[pd.DataFrame]()
    for run, part in outside.groupby("run", sort=False):
        wrong = answer_texts(part, p.tokenizer).query("not correct").assign(run=run)
        found.append(wrong.sort_values("target", key=lambda texts: texts.str.len(), kind="stable").head(2))
    shown = pd.concat(found)[["run", "target", "predicted", "right", "n_answer"]].reset_index(drop=True)
    return shown.assign(target=cut(shown["target"]), predicted=cut(shown["predicted"]))


def redirected_most(p: AlgorithmicReasoning, reinforced: pd.DataFrame) -> pd.DataFrame:
    """The share of tokens that are right as trained and at the largest strength, over seeds."""
    runs = p.run_table().set_index("run")[["kind", "seed"]]
    tokens = reinforced[reinforced["metric"] == "accuracy"].join(runs, on="run")
    alone = tokens[tokens["strength"] == 0].drop_duplicates(["run", "split"]).assign(onto="as trained")
    most = tokens[tokens["strength"] == max(p.strengths)]
    return over_seeds(pd.concat([alone, most]), ["kind", "split", "onto"])


def by_column(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Shares with their intervals: a row per kind of model and split, a column for each value of `column`."""
    rows = table.assign(metric=table["kind"] + ", " + table["split"])
    columns = {str(name): part for name, part in rows.groupby(column, sort=False)}
    return with_intervals(columns, 2).rename_axis("model, split")


def tuned_table(tuned: pd.DataFrame) -> pd.DataFrame:
    """The fine-tuned language model's accuracy and attention: a row per task and split, see `TUNED`."""
    means = tuned.set_index(["task", "metric"])["value"]
    order = ("string_reversal", "long_addition", "successor", "long_multiplication", "flip_flop")
    return pd.DataFrame(
        {"task": task.replace("_", " "), "split": split}
        | {name: means.get((task, metric.format(split))) for name, metric in TUNED.items()}
        for task in (*order, "value_assignment")
        for split in SPLITS
    )


def masses_as_it_is(rows: pd.DataFrame) -> pd.DataFrame:
    """The reference mass of a model without training, by rollout and of its best head, by task (`group`)."""
    named = rows["metric"].str.extract(r"^(?P<task>rollout|best head), (?P<measure>ID|OOD)$")
    found = rows.drop(columns="task").join(named).dropna(subset=["measure"])
    return found.rename(columns={"run": "group"})


def over_seeds(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """`table_over_seeds` of shares; for a single seed, its own numbers with intervals over texts."""
    numbers = {name: pd.to_numeric(rows[name], errors="coerce") for name in ("value", "low", "high")}
    rows = rows.assign(**numbers).dropna(subset=["value"])
    of = "seeds" if rows["seed"].nunique() > 1 else "texts"
    if of == "seeds":
        rows = rows.dropna(subset=["seed"])  # without rows that are already over all seeds
    return table_over_seeds(rows, by, share=True, of_one=True).assign(of=of)


def counted(rows: pd.DataFrame) -> str:
    """The units of the intervals of `over_seeds`, for a caption: "3 seeds", "38 to 200 texts"."""
    of = " and ".join(rows["of"].unique()) if "of" in rows else "texts"
    return f"{counted_units(rows['n'])} {of}"


def recorded(table: pd.DataFrame, form: str, *more: str) -> pd.DataFrame:
    """The rows of a table that have a number, in the form of a record; `form` makes the metric's name."""
    named = table.assign(metric=[form.format_map(row) for row in table.to_dict("records")])
    named = named[pd.to_numeric(named["value"], errors="coerce").notna()]
    numbers = {"value": float, "low": float, "high": float, "n": int} | dict.fromkeys(more, float)
    return named[["run", "metric", *numbers]].astype(numbers)


def extrapolation(rows: pd.DataFrame) -> pd.DataFrame:
    """Reference mass and accuracy of every recorded model out of distribution: a row per model."""
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
    # The page's run may be one of the recorded seeds, too: a model in two records counts once.
    return table.drop_duplicates(["task", "model", "seed", *names], ignore_index=True)


def by_kind(models: pd.DataFrame) -> pd.DataFrame:
    """The means of `extrapolation` over seeds: a row per kind of model and test."""
    return models.groupby(["task", "ranges", "model"], sort=False, as_index=False).mean(numeric_only=True)


def kinds_judged(rows: pd.DataFrame, **rule: float) -> pd.DataFrame:
    """The verdict on every kind of model recorded with several seeds and tested on longer texts.

    Fine-tuned addition is included although the study tests it on shorter sums; it shows no loss.
    """
    several, by_positions = verdict_tables(rows, **rule)
    tuned = rows[rows["setting"].str.contains("fine-tuned")] if len(rows) else rows
    families = {
        LLAMA: several[~apart(several)],
        OWN_BLOCKS: by_positions,
        FINE_TUNED: judged(recorded_gains(tuned), **rule),
    }
    return labelled(families, "models")


def correlations(models: pd.DataFrame) -> pd.DataFrame:
    """Rank correlations of attention on the reference with accuracy out of distribution, over kinds."""
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


def accuracies(p: AlgorithmicReasoning, ways: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Accuracy of every run and split, by way of answering."""
    found = [answer_accuracy(rows, ["run", "split"]).assign(how=how) for how, rows in ways.items()]
    kinds = p.run_table().set_index("run")[["kind", "seed"]]
    return pd.concat(found, ignore_index=True).join(kinds, on="run")


def masses(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Shares of attention on the reference (see `mass_table`) by group of predictions, and as a whole.

    Args:
        rows: the result of `over_all(p, models, evaluate_rows)`.
    """
    kind = rows["correct"].map({True: "right", False: "wrong"})
    order = [f"{split}, {kind}" for split in SPLITS for kind in ("right", "wrong")]
    group = pd.Categorical(rows["split"] + ", " + kind, order)
    measured = [ROLLOUT, MEAN]
    by_group = mass_table(rows.assign(group=group), ["run", "group"], measured)
    return by_group, mass_table(rows, ["run", "split"], measured)


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
    """The rows to record: those of every model, and the gains over the seeds of each kind."""
    made = [recorded(accuracy, "{how} {metric} {split}")]
    made += [recorded(by_group, "{measure}, {group}", "uniform")]
    made += [recorded(whole, "{measure}, {split}", "uniform")]
    made += [recorded(best_heads, "best head, {split}", "uniform")]
    if len(by_length):
        made += [recorded(by_length, "{metric}, length {up_to}", "up_to", "length")]
    if reinforced is not None:
        made += [recorded(reinforced, "{metric} {split}, strength {strength:g} onto {onto}")]
    if changed is not None:
        made += [recorded(right_tokens(changed), "{metric}")]
        gains = best_gains(changed)
        made += [recorded(gains, GAIN, *BESIDE_GAINS)]
        made += [recorded(gains_by_seed(changed, gains), GAIN_OF_ONE)]
    if further is not None:
        made += [recorded(further, "{metric}", "uniform")]
    runs = p.run_table()
    if len(p.seeds) > 1:
        kinds = runs.drop_duplicates("kind")
        runs = pd.concat([runs, kinds.assign(run=kinds["kind"] + OVER_SEEDS, seed=np.nan)])
    return pd.concat(made).merge(runs, on="run")


CAUSE, PART, NONE, NO_LOSS = "cause", "part of the cause", "not significant", "no significant loss"
"""The verdicts on attention as the cause of a failure; the last one if there is no failure to explain."""

HALF = 0.5
"""The least share of the loss out of distribution that has to be regained for attention to be the cause."""

LEVEL = 0.05
"""The significance level for the verdicts of one table together."""

RIGHT = "right tokens {split}, {change}, {heads} heads"
"""The name of the recorded accuracy under an intervention."""

GAIN, GAIN_OF_ONE = "gain, by {change}", "gain of one seed, by {change}"
"""The names of the recorded gain of the best intervention, and of one seed's part in a gain over seeds."""

BESIDE_GAINS = ("heads", "ID", "OOD", "changed", "control", "closed", "closed in", "seeds")
"""Further columns of `best_gains` that are recorded."""

OVER_SEEDS = ", over seeds"
"""The suffix of a kind of models in rows over all seeds."""

_GAIN = r"^gain, by (?P<change>.+)$"

MAY_DIFFER = (
    *("tasks", "seeds", "supervised", "positions", "strengths", "further", "text", "longest", "device"),
)
"""Parameters in which runs may differ and still train and test models of one kind alike."""

_APART = r"OOD length (?:1-10$|100-130)"


def losses(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The accuracy that models lose: in distribution minus out of distribution."""
    inside, outside = (
        rows[rows["metric"].eq(RIGHT.format(split=split, change=NOTHING, heads=0))]
        .set_index([*by, "seed"])[["value", "low", "high"]]
        .astype(float)
        for split in ("ID", "OOD")
    )
    lost = inside["value"] - outside["value"]
    down = np.hypot(inside["value"] - inside["low"], outside["high"] - outside["value"])
    up = np.hypot(inside["high"] - inside["value"], outside["value"] - outside["low"])
    each = pd.DataFrame({"value": lost, "low": lost - down, "high": lost + up}).reset_index()
    found = table_over_seeds(each, by)
    alone = each.groupby(list(by), sort=False)[["low", "high"]].first().reset_index(drop=True)
    found = found.fillna({name: alone[name] for name in ("low", "high")}).drop(columns="n")
    return found.rename(columns={"value": "lost", "low": "lost low", "high": "lost high"})


def judged(gains: pd.DataFrame, level: float = LEVEL, enough: float = HALF) -> pd.DataFrame:
    """The verdicts of one table: does attention cause the failure out of distribution?

    There is no loss if its interval is not above 0. Attention is the cause if an intervention has a
    significant gain (an interval above 0, and p below the level by Holm's method over all rows with a loss)
    and regains enough of the loss; if it regains less, attention is part of the cause.
    """
    loses = gains["lost low"] > 0
    found = gains.assign(p_holm=corrected(np.where(loses, p_over_seeds(gains), np.nan)))
    shown = (found["low"] > 0) & (found["p_holm"] < level)
    cases = [~loses, ~shown, found["closed"] >= enough]
    return found.assign(verdict=np.select(cases, [NO_LOSS, NONE, CAUSE], PART))


def recorded_gains(rows: pd.DataFrame, seeds: int = 2) -> pd.DataFrame:
    """The gains of the best intervention, for all kinds recorded with several seeds, without verdicts.

    Records that differ only in `MAY_DIFFER` are pooled, though each selected its own intervention.
    """
    by = ["way", "kind", "ranges"]
    columns = ["kind", "ranges", "change", "value", "low", "high", "n", *BESIDE_GAINS]
    if "closed in" not in rows:
        return pd.DataFrame(columns=[*columns, "lost", "lost low", "lost high"], dtype=float)
    rows = with_ways(rows)
    gains = rows.assign(change=rows["metric"].str.extract(_GAIN)["change"])
    gains = gains[gains["change"].notna() & gains["seeds"].ge(seeds)]
    gains = gains.astype(dict.fromkeys(("n", "heads", "closed in", "seeds"), int))
    return (
        together(of_other_seeds(gains, rows, by), by)[["way", *columns]]
        .merge(losses(rows, by), on=by)
        .drop(columns="way")
    )


def with_ways(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a column `way`: the first of the records that differ only in `MAY_DIFFER`."""
    return rows.assign(way=rows["record"].map(made_alike(rows["record"].unique(), MAY_DIFFER)))


def of_other_seeds(gains: pd.DataFrame, rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The gains of one kind that share no seed, those of most seeds first, so that a seed counts once."""
    of = rows.dropna(subset=["seed"]).groupby(["record", "kind"])["seed"].agg(frozenset)
    taken: dict[tuple[Any, ...], frozenset[float]] = {}
    kept: list[Any] = []
    for place, row in gains.sort_values("seeds", ascending=False, kind="stable").iterrows():
        key, seeds = tuple(row[[*by]]), of.get((row["record"], row["kind"]), frozenset())
        before = taken.get(key, frozenset())
        if not before & seeds:
            taken[key] = before | seeds
            kept.append(place)
    return gains[gains.index.isin(kept)]


def together(gains: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Pool the gains of several sets of seeds (`attnlib.stats.pooled`); other numbers are weighted means."""
    weights = gains["seeds"]
    means = {name: gains[name] * weights for name in ("ID", "OOD", "changed", "control")}
    sums = gains.assign(**means).groupby(list(by), sort=False)
    whole = sums[["seeds", "closed in", *means]].sum()
    whole[[*means]] = whole[[*means]].div(whole["seeds"], axis=0)
    whole["change"], whole["heads"] = sums["change"].agg(_listed), sums["heads"].max()
    whole["closed"] = (whole["changed"] - whole["OOD"]) / (whole["ID"] - whole["OOD"]).replace(0, np.nan)
    alone = gains.drop_duplicates(list(by)).set_index(list(by))
    single = sums.size().eq(1)  # kept exactly as recorded
    names = ["value", "low", "high", "n"]
    numbers = pooled(gains, by).set_index(list(by))
    whole[names] = numbers[names].where(~single, alone[names], axis=0)
    whole = whole.assign(**{name: whole[name].where(~single, alone[name]) for name in (*means, "closed")})
    numbers_of = dict.fromkeys((*means, "closed", "value", "low", "high"), float)
    return whole.astype(numbers_of | dict.fromkeys(("n", "heads", "closed in", "seeds"), int)).reset_index()


def _listed(changes: pd.Series) -> str:
    return " or ".join(dict.fromkeys(changes))


def verdict_tables(rows: pd.DataFrame, **rule: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The verdicts on all recorded models from scratch, corrected for multiple tests table by table."""
    found = recorded_gains(of_seeds(rows))
    own = own_positions(found)
    several, by_positions = (
        judged(part, **rule).reset_index(drop=True) for part in (found[~own], found[own])
    )
    return several, by_positions


def of_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of models from scratch with several seeds; of a kind trained in several ways, the best."""
    if rows.empty:
        return rows
    named = rows["run"].str.contains(rf", seed \d|{OVER_SEEDS}$")
    of_several = rows[named & rows["setting"].str.contains("from scratch")]
    by_way = with_ways(of_several)
    return learned_best(by_way, ["kind", "ranges"], "teacher-forced exact match ID", "way").drop(
        columns="way"
    )


def shares_of_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `of_seeds` on single models that are shares, so without gains, which may be negative."""
    found = of_seeds(rows).dropna(subset=["seed"])
    return found[~found["metric"].str.startswith("gain")]


def own_positions(rows: pd.DataFrame) -> pd.Series:
    """Whether each row's kind of model is one of those that differ only in their position encoding."""
    return rows["kind"].astype(str).str.endswith(" positions")


def apart(rows: pd.DataFrame) -> pd.Series:
    """Whether each row's ranges differ from the usual ones, in which longer texts are tested.

    This holds for reversal tested on shorter strings, and for flip-flop tested on ten times as many
    commands.
    """
    return rows["ranges"].astype(str).str.contains(_APART)


def best_gains(rows: pd.DataFrame) -> pd.DataFrame:
    """The gain of the best intervention on attention out of distribution, for each kind of model.

    A gain is relative to the better of the control and no change. The intervention and the number of heads
    are selected by the gain on texts with even numbers; results are from those with odd numbers.
    """
    found = list[dict[str, Any]]()
    for kind, own in rows.groupby("kind", sort=False):
        even, odd = own[own["sample"] % 2 == 0], own[own["sample"] % 2 == 1]
        tried = own.loc[own["change"].isin(CONTROL), ["change", "heads"]].drop_duplicates()
        possible = list(zip(tried["change"].tolist(), tried["heads"].tolist(), strict=True))
        change, number = max(possible, key=lambda way: _gain(even, _rival(even, *way), *way)["value"].mean())
        gain = _gain(odd, _rival(even, change, number), change, number)
        ways = {"OOD": NOTHING, "changed": change, "control": CONTROL[change]}
        texts = {"ID": odd[odd["split"] == "ID"]}
        texts |= {name: _outside(odd, way, number) for name, way in ways.items()}
        by_seed = pd.DataFrame({name: each.groupby("seed")["value"].mean() for name, each in texts.items()})
        means = by_seed.mean()
        lost = means["ID"] - means["OOD"]
        closed = (means["changed"] - means["OOD"]) / lost if lost else np.nan
        of_each = (by_seed["changed"] - by_seed["OOD"]) / (by_seed["ID"] - by_seed["OOD"])
        several = len(by_seed) > 1
        over_texts = summarise(gain, bounds=(-1.0, 1.0))
        interval = table_over_seeds(gain.assign(of="seeds"), ["of"]) if several else over_texts
        (numbers,) = interval[["value", "low", "high", "n"]].to_dict("records")
        run = f"{kind}{OVER_SEEDS}" if several else own["run"].iloc[0]
        row = {"run": run, "kind": kind, "change": change, "heads": number, **means, **numbers}
        row |= {"of": "seeds" if several else "texts", "closed": closed, "seeds": len(by_seed)}
        found.append(row | {"closed in": int((of_each >= HALF).sum())})
    return pd.DataFrame(found)


def gains_by_seed(rows: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """The gain in each seed, for each gain over seeds."""
    found = [pd.DataFrame(columns=["run", "kind", "seed", "change", "value", "low", "high", "n"])]
    best: Any
    for best in gains[gains["of"].eq("seeds")].itertuples():
        odd = rows[rows["kind"].eq(best.kind) & (rows["sample"] % 2 == 1)]
        gain = _gain(odd, _rival(odd, best.change, best.heads), best.change, best.heads)
        runs = odd.drop_duplicates("seed").set_index("seed")["run"]
        each = summarise(gain, ["seed"], bounds=(-1.0, 1.0))
        found.append(each.assign(run=each["seed"].map(runs), kind=best.kind, change=best.change))
    return pd.concat(found[1:] or found)


def right_tokens(rows: pd.DataFrame) -> pd.DataFrame:
    """The share of right tokens under every intervention, as recorded."""
    table = summarise(rows, ["run", "kind", "seed", "split", "change", "heads"])
    metric = [RIGHT.format_map(row) for row in table.to_dict("records")]
    return table.assign(metric=metric).drop(columns=["split", "change", "heads"])


def _outside(rows: pd.DataFrame, change: str, number: int) -> pd.DataFrame:
    """The rows of texts out of distribution under a change in `number` heads."""
    heads = 0 if change == NOTHING else number
    return rows[(rows["split"] == "OOD") & (rows["change"] == change) & (rows["heads"] == heads)]


def _rival(rows: pd.DataFrame, change: str, number: int) -> str:
    """The better one of an intervention's control and no change."""
    both = [NOTHING, CONTROL[change]]
    return max(both, key=lambda each: _outside(rows, each, number)["value"].mean())


def _gain(rows: pd.DataFrame, rival: str, change: str, number: int) -> pd.DataFrame:
    """The accuracy under a change minus that under its rival, by seed and text."""
    before = _outside(rows, rival, number)[["seed", "sample", "value"]]
    both = _outside(rows, change, number).merge(before, on=["seed", "sample"], suffixes=("", " before"))
    return both.assign(value=both["value"] - both["value before"])[["seed", "sample", "value"]]
