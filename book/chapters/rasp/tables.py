"""What comes of the RASP languages: the rows of a record, and tables over every recorded model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from torch import nn

from attnlib.generators.rasp import LANGUAGES, language
from attnlib.measures import sample_scores
from attnlib.models.compiled import PROGRAMS, Compiled, compiled
from attnlib.stats import answer_accuracy, summarise, table_over_seeds, with_interval
from book.chapters.rasp.measures import sources_found, target_masses
from book.chapters.rasp.rasp_languages import ABLATIONS, RaspLanguages, Size
from book.chapters.records import as_printed, paper_figures

KINDS_OF_MATCH = ["run", "program of", "heads"]
"""What tells a model beside a program from another."""

RECORDED = ["run", "metric", "value", "low", "high", "n", "uniform"]


def accuracy_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> pd.DataFrame:
    """Accuracy per token and exact match of every model, on unseen sequences."""
    scores = [sample_scores(models[run.name], p.tests(run.language)).assign(run=run.name) for run in p.runs()]
    return answer_accuracy(pd.concat(scores), ["run"])


def mass_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> pd.DataFrame:
    """The share of each head's attention where the program looks, of the chapter's own language."""
    lang = p.lang()
    test = p.tests(lang, target_attention=True)
    mass = [target_masses(models[run.name], test).assign(run=run.name) for run in p.of_full_size(lang)]
    return summarise(pd.concat(mass), ["run", "metric"], beside=["uniform"])


def match_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`RaspLanguages.matches`, by `KINDS_OF_MATCH`: agreement, and accuracy with another attention there."""
    agreement, replaced = p.matches(models)
    return (
        summarise(agreement, KINDS_OF_MATCH, "agreement", unit="sample", beside=["uniform"]),
        summarise(replaced, [*KINDS_OF_MATCH, "attention"], "right", whole="asked"),
    )


def exact_models() -> list[Compiled]:
    """The compiled programs that are recorded."""
    return [compiled(language(name, alphabet_size=10, bos=True), length=12) for name in PROGRAMS]


def found_rows(exact: Sequence[Compiled]) -> pd.DataFrame:
    """How often each method's largest score is on a source, by compiled model and kind of candidates."""
    by = ["run", "among", "method"]
    return summarise(sources_found(exact), by, "found", unit="sample", beside=["chance"])


def all_rows(
    p: RaspLanguages, of_models: Sequence[pd.DataFrame], of_programs: pd.DataFrame, of_exact: pd.DataFrame
) -> pd.DataFrame:
    """The rows of a record.

    Args:
        p: the chapter.
        of_models: `accuracy_rows`, `mass_rows` and `length_rows`.
        of_programs: `program_rows`.
        of_exact: `exact_rows`.
    """
    return pd.concat([pd.concat(of_models).merge(p.run_table(), on="run"), of_programs, of_exact])


def program_rows(p: RaspLanguages, agreement: pd.DataFrame, replaced: pd.DataFrame) -> pd.DataFrame:
    """What was found by `RaspLanguages.matches`.

    Args:
        p: the chapter.
        agreement: the mean by `run` and `program of`.
        replaced: the accuracy by these and `attention`.
    """
    of = " of " + replaced["program of"] + " in its heads"
    put = "accuracy, " + replaced["attention"].replace("the program's", "attention") + of
    rows = [
        agreement.assign(metric="agreement with " + agreement["program of"]),
        replaced.assign(metric=put),
    ]
    return pd.concat(rows)[RECORDED].merge(p.run_table(), on="run")


def length_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> pd.DataFrame:
    """Accuracy per token of every model on unseen sequences of each range of lengths, up to `p.longest`.

    Returns:
        Columns `run`, `metric`, `value`, `low`, `high`, `n` (sequences), and `up_to`, the longest of a range.
    """
    languages = {run.language.name: run.language for run in p.runs()}
    tests = {name: p.tests_by_length(lang) for name, lang in languages.items()}
    found = [
        sample_scores(models[run.name], batches).assign(run=run.name, low=low, up_to=high)
        for run in p.runs()
        for (low, high), batches in tests[run.language.name].items()
    ]
    rows = pd.concat(found)
    rows["metric"] = "accuracy, length " + rows.pop("low").astype(str) + " to " + rows["up_to"].astype(str)
    return summarise(rows, ["run", "metric", "up_to"], "right", whole="asked")


def exact_rows(exact: Sequence[Compiled], built: pd.DataFrame, sources: pd.DataFrame) -> pd.DataFrame:
    """What was found of compiled models.

    Args:
        exact: the models.
        built: the rows of `exactness`.
        sources: the mean of `sources_found` by `run`, `among` and `method`, with `chance`.
    """
    right = summarise(built, ["run"], "right", whole="asked").assign(metric="accuracy, compiled")
    apart = built.groupby("run", sort=False)["apart"].max()
    largest = right.assign(
        metric="largest difference of attention", **dict.fromkeys(["low", "high"], float("nan"))
    )
    largest["value"] = largest["run"].map(apart)
    found = sources.assign(metric="source found, " + sources["method"] + ", " + sources["among"])
    rows = pd.concat([right, largest, found.rename(columns={"chance": "uniform"})])
    settings = {
        each.run: f"compiled, BOS, {len(each.language.alphabet)} symbols, length up to {each.longest}"
        for each in exact
    }
    task = rows["run"].str.removesuffix(", compiled")
    return rows[RECORDED].assign(task=task, supervised=False, seed=0, setting=rows["run"].map(settings))


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


def called(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a column `called`, what a model is in the text: "hist, supervised, one head fewer"."""
    name = rows["language"] if "language" in rows else rows["task"]
    name = name + rows["supervised"].map(lambda told: ", supervised" * bool(told))
    if "ablation" in rows:
        name = name + rows["ablation"].map(lambda less: f", {less}" * bool(less))
    return rows.assign(called=name)


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
        agreement with the language's own program, with the programs of other languages (the mean, and the one
        that agrees best), and of even attention with its own; accuracy with the model's own attention, with
        the program's in its place, and with even attention.
    """
    rows = each_once(rows[rows["ablation"].eq("") & rows["bos"].eq(True)])
    language = rows["task"]
    agrees = rows["metric"].str.extract("^agreement with (.*)$")[0]
    put = rows["metric"].str.extract(r"^accuracy, (attention|even) of (\w+) in its heads$")
    own, others = rows[agrees == language], rows[agrees.notna() & (agrees != language)]
    a_model = ["record", "run"]
    of_a_model = others.groupby(a_model)["value"]
    kinds = {
        "agreement": own,
        "of the others, mean": others.assign(value=of_a_model.transform("mean")).drop_duplicates(a_model),
        "of the best other": others.loc[of_a_model.idxmax()],
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
