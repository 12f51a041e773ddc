"""Numbers over programs, from recorded rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attnlib.attribution.registry import SIGNED
from attnlib.benchmarking.population import draw
from attnlib.benchmarking.questions import TRUTHS, questions_of
from attnlib.benchmarking.scoring import COMPARED, CONFIRMATION, differences, features, published, summary
from attnlib.stats.rank_measures import kendall_tau
from attnlib.stats.seeds import over_seeds
from book.chapters.attribution_benchmark.tables import of_record, widest
from book.chapters.programs.measures import FORMS, OPERATORS, READINGS
from book.chapters.programs.predictions import answered, by_program
from book.chapters.records import came_with_the_book

PLAIN = Path(__file__).with_name("plain.parquet")
"""The recorded rows without disguise: `attnlib.benchmarking.recording --plain --seeds 1000:1120`."""

TRAINED = Path(__file__).with_name("trained.parquet")
"""The recorded rows of trained transformers: `attnlib.benchmarking.recording --learned 1`, of `TRIED`."""

TWICE_THE_SIZE = Path(__file__).with_name("twice.parquet")
"""The same of transformers of twice the size: `attnlib.benchmarking.recording --learned 2`, of `TRIED`."""

OTHER_POSITIONS = Path(__file__).with_name("positions.parquet")
"""The same with sinusoidal and rotary positions (column `positions`), of the seeds 1000 to 1019."""

TRIED = (*range(1000, 1030), *range(1040, 1060), *range(1080, 1100))
"""The programs that transformers were trained on: those that three parallel runs finished."""

MOST = 0.7
"""The share of settings in which a method has to be evaluated for a comparison."""

FEATURES = ("layers", "counts", "distractors", "causal", "rotated", "split", "sink", "junk", "hard")
"""Features of a program that may explain a method's score."""


def confirming() -> pd.DataFrame:
    """The recorded rows of the confirming half."""
    rows = published(CONFIRMATION)
    return rows.astype({"method": str, "truth": str, "sign": str, "value": float})


def trained(path: Path = TRAINED) -> pd.DataFrame:
    """The rows of a file: `TRAINED`, `TWICE_THE_SIZE`, `OTHER_POSITIONS` or, of compiled ones, `PLAIN`."""
    rows = pd.read_parquet(path)
    return rows.astype({"method": str, "truth": str, "sign": str, "value": float})


def by_truth(rows: pd.DataFrame) -> pd.DataFrame:
    """The mean of each method over programs, by each truth; the best by *reads* first."""
    found = summary(rows[rows["sign"] == "as given"])
    order = found[found["truth"] == TRUTHS[0]].sort_values("rank")["method"]
    place = {name: k for k, name in enumerate(order)}
    return found.sort_values("method", key=lambda names: names.map(place), kind="stable", ignore_index=True)


def by_layers(rows: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """The mean of some methods, by *reads*, over programs of 1, 2 and 3 layers."""
    chosen = rows[(rows["truth"] == "reads") & (rows["sign"] == "as given") & rows["method"].isin(methods)]
    layers = features(sorted(set(chosen["seed"]))).set_index("seed")["layers"]
    found = []
    groups = chosen.assign(layers=chosen["seed"].map(layers)).groupby(["layers", "method"])["value"]
    for (n, method), values in groups:
        found.append((f"{n} layer{'' if n == 1 else 's'}", method, *over_seeds(values.to_numpy())))
    table = pd.DataFrame(found, columns=["layers", "method", "value", "low", "high", "n"])
    place = {name: k for k, name in enumerate(methods)}
    return table.iloc[table["method"].map(place).argsort(kind="stable")].reset_index(drop=True)


def gain_of_absolute(rows: pd.DataFrame, truth: str = "reads") -> pd.DataFrame:
    """The mean gain of absolute values for signed methods, paired by program; the largest gain first."""
    found = []
    for method in sorted(SIGNED):
        part = rows[(rows["method"] == method) & (rows["truth"] == truth)]
        wide = part.pivot(index="seed", columns="sign", values="value")
        if {"absolute", "as given"} <= set(wide):
            found.append((method, *over_seeds((wide["absolute"] - wide["as given"]).dropna().to_numpy())))
    table = pd.DataFrame(found, columns=["method", "value", "low", "high", "n"])
    return table.sort_values("value", ascending=False, ignore_index=True)


def effects(rows: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """How scores by *reads* depend on features of programs: least squares on all of them at once."""
    import statsmodels.api as sm

    from attnlib.stats.comparisons import corrected

    found = []
    for method in methods:
        part = rows[(rows["method"] == method) & (rows["truth"] == "reads") & (rows["sign"] == "as given")]
        both = part.merge(features(sorted(set(part["seed"]))), on="seed")
        design = sm.add_constant(both[[*FEATURES]].astype(float).assign(counts=(both["counts"] > 0) * 1.0))
        fitted = sm.OLS(both["value"].to_numpy(), design).fit(cov_type="HC3")
        ends = fitted.conf_int()
        for name in FEATURES:
            low, high = ends.loc[name]
            found.append((method, name, fitted.params[name], low, high, len(both), fitted.pvalues[name]))
    table = pd.DataFrame(found, columns=["method", "feature", "value", "low", "high", "n", "p"])
    return table.assign(p_holm=corrected(table["p"].to_numpy(float)))


def metric_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The agreement of each metric with each truth, the mean of Kendall's tau over programs."""
    found: list[tuple[Any, ...]] = []
    for form in FORMS:
        for operator in OPERATORS:
            for reading in READINGS:
                name = f"{form}, {operator}, {reading}"
                for truth in TRUTHS:
                    chosen = rows[(rows["metric"] == name) & (rows["truth"] == truth)]["value"]
                    way = f"{operator}, {reading}"
                    found.append((form, way, truth, name, *over_seeds(chosen.to_numpy(float))))
    columns = ["form", "way", "truth", "metric", "value", "low", "high", "n"]
    return pd.DataFrame(found, columns=columns)


def beside_trained(
    trained: pd.DataFrame, compiled: pd.DataFrame, plain: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Means of methods on trained and on compiled transformers of the same programs, by each truth."""
    both = sorted(set(trained["seed"]) & set(compiled["seed"]))
    tables = []
    kinds = {"trained": trained, "compiled": compiled} | ({} if plain is None else {"compiled, plain": plain})
    for name, rows in kinds.items():
        tables.append(
            summary(rows[rows["seed"].isin(both) & (rows["sign"] == "as given")]).assign(weights=name)
        )
    found = pd.concat(tables, ignore_index=True)
    first = found[(found["weights"] == "trained") & (found["truth"] == "causes")].sort_values("rank")[
        "method"
    ]
    place = {name: k for k, name in enumerate(first)}
    return found.sort_values("method", key=lambda names: names.map(place), kind="stable", ignore_index=True)


def populations(trained: pd.DataFrame, compiled: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Scores by *causes* in four populations: a row per program or setting, a column per method.

    Settings are those of `attribution_benchmark` whose models were trained without supervised attention. The
    language model has one row, the means over its prompts.
    """
    kept, _ = of_record(widest(came_with_the_book("attribution_benchmark")))
    settings = kept["plausibility"].pivot_table(index="setting", columns="method", values="value")
    other = settings.index.str.contains("compiled|supervised|needle")
    programs = {"compiled programs": compiled, "trained programs": trained}
    found = {name: by_program(rows, "causes") for name, rows in programs.items()}
    found |= {"settings chosen by hand": settings[~other], "a language model": settings.loc[["needle"]]}
    shared = [
        name for name in COMPARED if all(name in each and each[name].notna().any() for each in found.values())
    ]
    return {name: each[shared] for name, each in found.items()}


def orders(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Kendall's tau between the orders of methods in each two populations, the most alike first."""
    rng = np.random.default_rng(0)
    rows = []
    for one, other in combinations(found, 2):
        scores = [found[name].to_numpy(float) for name in (one, other)]

        def tau(scores: list[np.ndarray]) -> float:
            return float(kendall_tau(*(np.nanmean(each, 0) for each in scores)))

        drawn = [tau([each[rng.integers(len(each), size=len(each))] for each in scores]) for _ in range(500)]
        low, high = np.nanquantile(drawn, (0.025, 0.975))
        rows.append((one, other, tau(scores), low, high, sum(len(each) for each in scores if len(each) > 1)))
    table = pd.DataFrame(rows, columns=["population", "and", "value", "low", "high", "n"])
    return table.sort_values("value", ascending=False, kind="stable", ignore_index=True)


def pairs_over_settings() -> tuple[int, int, int]:
    """The numbers of significant pairs, pairs and settings, by plausibility in `attribution_benchmark`."""
    tables, _ = of_record(widest(came_with_the_book("attribution_benchmark")))
    wide = tables["plausibility"].pivot_table(index="setting", columns="method", values="value")
    wide = wide[[name for name in COMPARED if name in wide and wide[name].notna().sum() >= MOST * len(wide)]]
    wide = wide.dropna()
    rows = wide.rename_axis("seed").reset_index().melt("seed", var_name="method", value_name="value")
    found = differences(rows.assign(truth="reads", sign="as given"))
    return int((found["p_holm"] < 0.05).sum()), len(found), len(wide)


def questions_that_differ(seed: int) -> dict[str, int]:
    """In how many questions of a program the tokens that it reads differ from those that cause the output."""
    questions = questions_of(draw(seed))
    assert questions is not None
    return {"differ": int((questions.reads != questions.causes).any(1).sum()), "asked": len(questions)}


def prediction_table(**rows: pd.DataFrame) -> pd.DataFrame:
    """Every prediction with its verdict and number: columns of `answered`."""
    found = [
        {"prediction": each.words, "verdict": answer.verdict, **answer._asdict()}
        for each, answer in answered(**rows)
    ]
    return pd.DataFrame(found).replace({np.inf: np.nan})
