"""Tables over every recorded model of the RASP languages, with the paper's figures beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from attnlib.generators.rasp import LANGUAGES, language
from attnlib.stats import table_over_seeds, with_interval
from book.chapters.rasp.settings import ABLATIONS, Size
from book.chapters.records import as_printed, paper_figures

TABLES = "Thinking Like Transformers Table"

KIND = ["language", "bos", "supervised", "ablation", "alphabet_size", "length", "width", "positions"]
"""What sets models apart that are not just of different seeds."""

WITH_OWN_SYMBOLS = {name for name, definition in LANGUAGES.items() if definition.symbols}
"""Languages that have an alphabet of their own, whatever `alphabet_size` says."""


def of_scale(rows: pd.DataFrame, **scale: str | int) -> pd.DataFrame:
    """The rows of models of one scale: `length`, `width`, `positions`, `alphabet_size`, or some of these.

    An ablation may be wider, and a language that brings its own symbols has as many as it has.

    Args:
        rows: `records("rasp_languages")`.
        **scale: what is asked, by column.
    """
    exempt = {
        "width": rows["ablation"].fillna("").ne(""),
        "alphabet_size": _language_of(rows).isin(WITH_OWN_SYMBOLS),
    }
    kept = [rows[name].eq(value) | exempt.get(name, False) for name, value in scale.items()]
    return rows[pd.concat(kept, axis=1).all(axis=1)]


def each_once(rows: pd.DataFrame) -> pd.DataFrame:
    """Every number of a model of one kind and seed once, where several records have it.

    It is that of the record with the most seeds, then of the one whose models are validated best: a run of
    one seed, made here again, takes no place among the three of another. Within a record (a grid of rates),
    the model that was validated best counts.

    Args:
        rows: of `records("rasp_languages")`.
    """
    rows = rows.assign(language=_language_of(rows))
    records = rows.groupby([*KIND, "record"], dropna=False)
    before = {"_seeds": records["seed"].transform("nunique"), "_mean": records["validated"].transform("mean")}
    ordered = rows.assign(**before, _place=range(len(rows)))
    ordered = ordered.sort_values([*before, "validated"], ascending=False, kind="stable")
    kept = ordered.drop_duplicates([*KIND, "seed", "metric"]).sort_values("_place")
    return kept.drop(columns=[*before, "_place"])


def trained_models(rows: pd.DataFrame) -> pd.DataFrame:
    """The accuracy per token of every recorded model, `each_once`.

    Args:
        rows: `records("rasp_languages")`.

    Returns:
        Columns `KIND`, `seed`, `value`, `n` (test sequences), `metric` and `up_to`: also the accuracies by
        length.
    """
    rows = rows[rows["metric"].str.fullmatch(r"accuracy(, length \d+ to \d+)?") & rows["ablation"].notna()]
    rows = each_once(rows).sort_values("validated", ascending=False, kind="stable")
    return rows[[*KIND, "seed", "value", "n", "metric", "up_to"]]


def table_of_languages(models: pd.DataFrame) -> pd.DataFrame:
    """The paper's Table 1: a row per language, a column for each way to train it, in percent.

    Args:
        models: `trained_models`, of one scale and one alphabet.

    Returns:
        Means over seeds with Student's intervals and the number of seeds; "not run" where there is none. The
        paper's figure stands last, with its certainty.
    """
    whole = models[(models["metric"] == "accuracy") & (models["ablation"] == "")]
    found = table_over_seeds(whole, ["language", "bos", "supervised"], share=True)
    columns = {
        (bos, supervised): ("BOS" if bos else "no BOS") + ", supervised" * supervised
        for bos in (True, False)
        for supervised in (False, True)
    }
    found["column"] = [columns[bool(row.bos), bool(row.supervised)] for row in found.itertuples()]
    cells = found.assign(cell=_cells(found)).pivot(index="language", columns="column", values="cell")
    cells = cells.reindex(index=_in_order(cells.index), columns=list(columns.values()))
    cells = cells.astype(object).fillna("not run")
    without = [name for name in cells.index if name in LANGUAGES and not LANGUAGES[name].heads]
    cells.loc[without, [name for name in columns.values() if "supervised" in name]] = "no program"
    return cells.assign(**{"paper": _paper(f"{TABLES} 1", cells.index)}).reset_index()


def table_of_alphabets(models: pd.DataFrame) -> pd.DataFrame:
    """A row per language, a column for each size of its alphabet; with BOS, without supervision."""
    chosen = models.query("metric == 'accuracy' and ablation == '' and bos and not supervised")
    chosen = chosen[~chosen["language"].isin(WITH_OWN_SYMBOLS)]
    found = table_over_seeds(chosen, ["language", "alphabet_size"], share=True)
    cells = found.assign(cell=_cells(found)).pivot(index="language", columns="alphabet_size", values="cell")
    cells.columns = [f"{size:.0f} symbols" for size in cells.columns]
    return cells.reindex(_in_order(cells.index)).astype(object).fillna("not run").reset_index()


def table_of_ablations(models: pd.DataFrame) -> pd.DataFrame:
    """The paper's Table 2: a row per language, a column for the full size and for each ablation, in percent.

    Args:
        models: `trained_models`, of one scale and one alphabet.

    Returns:
        As `table_of_languages`; the paper's figures stand in a row under ours. "-" where there is nothing to
        take away (a program of one head, or of one layer), "not run" where there is.
    """
    models = models[(models["metric"] == "accuracy") & ~models["supervised"].astype(bool)]
    found = table_over_seeds(models, ["language", "bos", "ablation"], share=True)
    found["column"] = found["ablation"].replace("", "full size")
    found["language"] += found["bos"].map({True: "", False: " without BOS"})
    cells = found.assign(cell=_cells(found)).pivot(index="language", columns="column", values="cell")
    columns = [name for name in ("full size", *ABLATIONS) if name in cells]
    cells = cells.loc[cells[columns[1:]].notna().any(axis=1), columns]
    rows = []
    for name in _in_order(cells.index):
        theirs = _paper(f"{TABLES} 2", [f"{name}: {column}" for column in columns])
        lacking = {column: "-" if _takes_the_only_one(name, column) else "not run" for column in columns}
        rows.append({"language": name, "by": "here", **cells.loc[name].fillna(lacking)})
        rows.append({"language": name, "by": "paper", **dict(zip(columns, theirs, strict=True))})
    return pd.DataFrame(rows)


def accuracy_by_length(models: pd.DataFrame) -> pd.DataFrame:
    """Accuracy against the length of test sequences: the mean over seeds with Student's interval.

    Returns:
        Columns `language`, `supervised`, `positions`, `length` (trained up to), `up_to`, `value`, `low`,
        `high` and `n`.
    """
    rows = models[models["up_to"].notna() & (models["ablation"] == "")]
    by = ["language", "bos", "supervised", "positions", "length", "up_to"]
    return table_over_seeds(rows, by, share=True)


def table_of_programs(rows: pd.DataFrame) -> pd.DataFrame:
    """Does attention match the program's, and could the program's stand in its place?

    Args:
        rows: `records("rasp_languages")`, of one scale and one alphabet.

    Returns:
        A row per language, and whether its models were supervised, in percent with intervals over seeds:
        agreement with the language's own program, with that of the other program that agrees best, and of
        even attention with its own; accuracy with the model's own attention, with the program's in its
        place, and with even attention.
    """
    rows = each_once(rows[rows["ablation"].eq("") & rows["bos"].eq(True)])
    language = rows["task"]
    agrees = (
        rows["metric"].str.removeprefix("agreement with ").where(rows["metric"].str.startswith("agreement"))
    )
    put = rows["metric"].str.extract(r"^accuracy, (attention|even) of (\w+) in its heads$")
    own = rows[agrees == language]
    kinds = {
        "agreement": own,
        "of another program": rows[agrees.notna() & (agrees != language)]
        .sort_values("value")
        .drop_duplicates(["record", "run"], keep="last"),
        "of even attention": own.assign(value=own["uniform"]),
        "accuracy": rows[rows["metric"] == "accuracy"],
        "with the program's": rows[(put[0] == "attention") & (put[1] == language)],
        "with even attention": rows[(put[0] == "even") & (put[1] == language)],
    }
    known = own["task"].unique()
    if not len(known):
        return pd.DataFrame(columns=["language", "supervised", *kinds, "seeds"])
    about = ["task", "supervised"]
    tables = [table_over_seeds(part, about, share=True).assign(of=of) for of, part in kinds.items()]
    found = pd.concat([table[table["task"].isin(known)] for table in tables])
    cells = found.assign(cell=_cells(found, seeds=False)).pivot(index=about, columns="of", values="cell")
    seeds = found.groupby(about)["n"].max().rename("seeds")
    cells = cells[list(kinds)].join(seeds).reset_index().rename(columns={"task": "language"})
    place = {name: number for number, name in enumerate(_in_order(known))}
    by = cells["language"].map(place) + 0.5 * cells["supervised"].astype(bool)
    return cells.loc[by.sort_values().index].reset_index(drop=True)


def _takes_the_only_one(name: str, ablation: str) -> bool:
    """Whether an ablation would leave a language's model without a layer or a head."""
    plain = name.removesuffix(" without BOS")
    if ablation not in ABLATIONS or plain not in LANGUAGES:
        return False
    n_layers, n_heads = language(plain, bos=plain == name).size
    left = ABLATIONS[ablation](Size(n_layers, n_heads, width=1))
    return not (left.n_layers and left.n_heads)


def _cells(found: pd.DataFrame, seeds: bool = True) -> list[str]:
    """A mean in percent, with its interval over seeds, and how many there are."""
    row: Any
    texts = list[str]()
    for row in found.itertuples():
        counted = f", {row.n} seed{'s' * (row.n > 1)}"
        texts.append(with_interval(row, "%", 1, named=False) + counted * seeds)
    return texts


def _in_order(names: Iterable[str]) -> list[str]:
    order = {name: place for place, name in enumerate(LANGUAGES)}
    return sorted(names, key=lambda name: order.get(name.removesuffix(" without BOS"), len(order)))


def _paper(table: str, tasks: Iterable[str]) -> list[str]:
    paper = paper_figures().query("table == @table").set_index("task")
    figures = as_printed(paper)
    return [figures.get(task, "not found") for task in tasks]


def _language_of(rows: pd.DataFrame) -> pd.Series:
    return rows["task"].str.removesuffix(" without BOS")
