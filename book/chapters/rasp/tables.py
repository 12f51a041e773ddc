"""The rows of a record, and tables over every recorded model of the RASP languages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd
from torch import nn

from attnlib import plots
from attnlib.generators.rasp import LANGUAGES, language
from attnlib.measures import sample_scores
from attnlib.models.compiled import PROGRAMS, Compiled, compiled
from attnlib.stats import answer_accuracy, summarise, table_over_seeds
from book.chapters.rasp.measures import sources_found, target_masses
from book.chapters.rasp.rasp_languages import RaspLanguages
from book.chapters.rasp.recipes import ABLATIONS
from book.chapters.records import as_printed, counted, paper_figures

MATCH_COLUMNS = ["run", "program of", "heads"]
"""The columns that identify a pair of a model and a program."""

EXAMPLES = dict.fromkeys(["reverse", "hist", "hist2", "sort", "sort_by_freq"], "cabbage") | {
    "dyck1_ptf": "(a)())a",
    "dyck2_ptf": "({a}){)a",
}
"""The paper's languages, and a sequence to show each on."""

RECORD_COLUMNS = ["run", "metric", "value", "low", "high", "n", "uniform"]


def table_of_examples() -> pd.DataFrame:
    """The paper's languages, a row each, with their outputs on one sequence."""
    return pd.DataFrame(
        {
            "language": name,
            "sequence": text,
            "output": " ".join(map(str, language(name, alphabet_size=10).outputs(text))),
            "output at each position": LANGUAGES[name].summary,
        }
        for name, text in EXAMPLES.items()
    ).set_index("language")


def accuracy_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> pd.DataFrame:
    """Accuracy per token and exact match of every model, on unseen sequences."""
    scores = [sample_scores(models[run.name], p.tests(run.language)).assign(run=run.name) for run in p.runs()]
    return answer_accuracy(pd.concat(scores), ["run"])


def training_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> pd.DataFrame:
    """Accuracy and exact match of every model on `p.test_samples` of its training sequences."""
    scores = []
    for run in p.runs():
        seen = p.sequences(run.language, "train", run.seed)[: p.test_samples]
        found = sample_scores(models[run.name], run.language.in_batches(seen))
        scores.append(found.assign(run=run.name))
    return answer_accuracy(pd.concat(scores), ["run"])


def mass_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> pd.DataFrame:
    """The share of each head's attention on the program's keys, in models of the chapter's own language."""
    lang = p.lang()
    test = p.tests(lang, target_attention=True)
    mass = [target_masses(models[run.name], test).assign(run=run.name) for run in p.of_full_size(lang)]
    return summarise(pd.concat(mass), ["run", "metric"], beside=["uniform"])


def match_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`RaspLanguages.matches` by `MATCH_COLUMNS`: agreement, and accuracy with the attention replaced."""
    agreement, replaced = p.matches(models)
    return (
        summarise(agreement, MATCH_COLUMNS, "agreement", unit="sample", beside=["uniform"]),
        summarise(replaced, [*MATCH_COLUMNS, "attention"], "right", whole="asked"),
    )


def table_of_matches(accuracy: pd.DataFrame, agreement: pd.DataFrame, replaced: pd.DataFrame) -> pd.DataFrame:
    """`match_rows` with each model's own accuracy beside them, a row per model and program."""
    table = agreement.drop(columns=["n", "rows"]).rename(columns={"value": "agreement"})
    right = accuracy[accuracy["metric"] == "accuracy"].set_index("run")["value"]
    table["accuracy, their own"] = right[table["run"]].to_numpy()
    instead = replaced.pivot(index=MATCH_COLUMNS, columns="attention", values="value")
    instead = instead.rename(columns={"even": "uniform"}).add_prefix("accuracy, ")
    return table.merge(instead.reset_index(), on=MATCH_COLUMNS)


def exact_models() -> list[Compiled]:
    """The compiled programs whose results are recorded."""
    return [compiled(language(name, alphabet_size=10, bos=True), length=12) for name in PROGRAMS]


def found_rows(exact: Sequence[Compiled]) -> pd.DataFrame:
    """How often each method's largest score is on a source, by compiled model and kind of candidates."""
    by = ["run", "among", "method"]
    return summarise(sources_found(exact), by, "found", unit="sample", beside=["chance"])


def table_of_sources(sources: pd.DataFrame) -> pd.DataFrame:
    """`found_rows`, a row per method and a column per compiled program and kind of candidates."""
    named = sources.assign(output=sources["run"].str.removesuffix(", compiled") + ", " + sources["among"])
    table = named.pivot(index="method", columns="output", values="value")
    table = table.loc[named["method"].unique(), named["output"].unique()]
    table.loc["chance level"] = named.groupby("output")["chance"].first()
    return table


def all_rows(
    p: RaspLanguages, of_models: Sequence[pd.DataFrame], of_programs: pd.DataFrame, of_exact: pd.DataFrame
) -> pd.DataFrame:
    """The rows of a record."""
    return pd.concat([pd.concat(of_models).merge(p.run_table(), on="run"), of_programs, of_exact])


def program_rows(p: RaspLanguages, agreement: pd.DataFrame, replaced: pd.DataFrame) -> pd.DataFrame:
    """The rows to record of `RaspLanguages.matches`."""
    of = " of " + replaced["program of"] + " in its heads"
    put = "accuracy, " + replaced["attention"].replace("the program's", "attention") + of
    rows = [
        agreement.assign(metric="agreement with " + agreement["program of"]),
        replaced.assign(metric=put),
    ]
    return pd.concat(rows)[RECORD_COLUMNS].merge(p.run_table(), on="run")


def length_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> pd.DataFrame:
    """Accuracy per token of every model on unseen sequences of each range of lengths, up to `p.longest`."""
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


APART = "attention differs by at most"
"""The column with the largest difference between an attention weight and the program's."""


def table_of_exact(built: pd.DataFrame) -> pd.DataFrame:
    """The accuracy of compiled programs, and the largest distance of their attention from the program's."""
    table = summarise(built, ["run"], "right", whole="asked")
    return table.assign(**{APART: table["run"].map(built.groupby("run")["apart"].max())})


def exact_rows(exact: Sequence[Compiled], built: pd.DataFrame, sources: pd.DataFrame) -> pd.DataFrame:
    """The rows to record of compiled models."""
    table = table_of_exact(built)
    right = table.assign(metric="accuracy, compiled")
    largest = right.assign(
        metric="largest difference of attention",
        value=table[APART],
        **dict.fromkeys(["low", "high"], float("nan")),
    )
    found = sources.assign(metric="source found, " + sources["method"] + ", " + sources["among"])
    rows = pd.concat([right, largest, found.rename(columns={"chance": "uniform"})])
    settings = {
        each.run: f"compiled, BOS, {len(each.language.alphabet)} symbols, length up to {each.longest}"
        for each in exact
    }
    task = rows["run"].str.removesuffix(", compiled")
    return rows[RECORD_COLUMNS].assign(task=task, supervised=False, seed=0, setting=rows["run"].map(settings))


TABLES, FULL = "Thinking Like Transformers Table", "full size"

SCALE: dict[str, str | int] = {"width": 64, "length": 30, "alphabet_size": 10, "positions": "sinusoidal"}
"""The size of the models that text and claims are about: the chapter's own."""

KIND = ["language", "bos", "supervised", "ablation", "alphabet_size", "length", "width", "positions"]
"""The columns that identify a kind of model, whatever its seed."""

WITH_OWN_SYMBOLS = {name for name, definition in LANGUAGES.items() if definition.symbols}
"""Languages that have an alphabet of their own, whatever `alphabet_size` says."""


def of_scale(rows: pd.DataFrame, **scale: str | int) -> pd.DataFrame:
    """The rows of models of one scale; ablated models may be wider, languages may have own symbols."""
    exempt = {
        "width": rows["ablation"].fillna("").ne(""),
        "alphabet_size": _language_of(rows).isin(WITH_OWN_SYMBOLS),
    }
    kept = [rows[name].eq(value) | exempt.get(name, False) for name, value in scale.items()]
    return rows[pd.concat(kept, axis=1).all(axis=1)]


def each_once(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep each number of a kind of model and seed once, where several records have it.

    The record with the most seeds comes first, then the one with the best mean validation accuracy; within a
    record, the model with the best validation accuracy.
    """
    rows = rows.assign(language=_language_of(rows))
    records = rows.groupby([*KIND, "record"], dropna=False)
    before = {"_seeds": records["seed"].transform("nunique"), "_mean": records["validated"].transform("mean")}
    ordered = rows.assign(**before, _place=range(len(rows)))
    ordered = ordered.sort_values([*before, "validated"], ascending=False, kind="stable")
    kept = ordered.drop_duplicates([*KIND, "seed", "metric"]).sort_values("_place")
    return kept.drop(columns=[*before, "_place"])


def called(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a column `called`, the model's name in the text: "hist, supervised, one head fewer"."""
    name = rows["language"] if "language" in rows else rows["task"]
    name = name + rows["supervised"].map(lambda told: ", supervised" * bool(told))
    if "ablation" in rows:
        name = name + rows["ablation"].map(lambda less: f", {less}" * bool(less))
    return rows.assign(called=name)


def trained_models(rows: pd.DataFrame) -> pd.DataFrame:
    """The accuracy per token of every recorded model, `each_once`."""
    rows = rows[rows["metric"].str.fullmatch(r"accuracy(, length \d+ to \d+)?") & rows["ablation"].notna()]
    rows = each_once(rows).sort_values("validated", ascending=False, kind="stable")
    return rows.reindex(columns=[*KIND, "seed", "value", "n", "metric", "up_to", "record", "run"])


def beside_table_1(models: pd.DataFrame) -> pd.DataFrame:
    """Our numbers for the paper's Table 1: languages with BOS, and those without BOS that are in it."""
    whole = models[(models["metric"] == "accuracy") & (models["ablation"] == "")]
    found = _of_seeds(whole, ["language", "bos", "supervised"])
    found = found[found["bos"] | found["task"].isin(paper_figures().query(f"table == '{TABLES} 1'")["task"])]
    return found.assign(trained=found["supervised"].map({False: "unsupervised", True: "supervised"}))


def beside_table_2(models: pd.DataFrame) -> pd.DataFrame:
    """Our numbers for the paper's Table 2: the full size, and each ablation (column `size`)."""
    models = models[(models["metric"] == "accuracy") & ~models["supervised"].astype(bool)]
    found = _of_seeds(models, ["language", "bos", "ablation"])
    order, known = [FULL, *ABLATIONS], found.loc[found["ablation"].isin(ABLATIONS), "task"]
    found = found.assign(size=found["ablation"].replace("", FULL), by="here")
    found = found[found["task"].isin(known) & found["size"].isin(order)]
    return found.sort_values("size", key=lambda sizes: sizes.map(order.index), kind="stable")


def _of_seeds(models: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means over seeds, with `task`, the language's name in the paper, and the record and run of one seed."""
    one = models.drop_duplicates(by)[[*by, "record", "run"]]
    found = table_over_seeds(models, by, share=True).merge(one, on=by)
    found["task"] = found["language"] + found["bos"].map({True: "", False: " without BOS"})
    return found.sort_values("task", key=lambda names: names.map(_place), kind="stable", ignore_index=True)


def table_of_languages(models: pd.DataFrame) -> pd.DataFrame:
    """The paper's Table 1: a row per language, a column for each way to train it, in percent."""
    whole = models[(models["metric"] == "accuracy") & (models["ablation"] == "")]
    found = table_over_seeds(whole, ["language", "bos", "supervised"], share=True)
    columns = {
        (bos, supervised): ("BOS" if bos else "no BOS") + ", supervised" * supervised
        for bos in (True, False)
        for supervised in (False, True)
    }
    found["column"] = [columns[bool(row.bos), bool(row.supervised)] for row in found.itertuples()]
    cells = _cells(found, "column", list(columns.values()))
    without = [name for name in cells.index if name in LANGUAGES and not LANGUAGES[name].heads]
    cells.loc[without, [name for name in columns.values() if "supervised" in name]] = "no program"
    return cells.assign(paper=_paper(f"{TABLES} 1", cells.index)).reset_index()


def table_of_alphabets(models: pd.DataFrame) -> pd.DataFrame:
    """A row per language, a column for each size of its alphabet; with BOS, without supervision."""
    chosen = models.query("metric == 'accuracy' and ablation == '' and bos and not supervised")
    chosen = chosen[~chosen["language"].isin(WITH_OWN_SYMBOLS)]
    found = table_over_seeds(chosen, ["language", "alphabet_size"], share=True).sort_values("alphabet_size")
    found["column"] = found["alphabet_size"].map("{:.0f} symbols".format)
    return _cells(found, "column", list(found["column"].unique())).reset_index()


def table_of_positions(models: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of models with BOS by kind of positions, of languages that were trained with several."""
    chosen = models.query("metric == 'accuracy' and bos and ablation == ''")
    found = table_over_seeds(chosen, ["language", "positions", "supervised"], share=True)
    return found[found.groupby("language")["positions"].transform("nunique") > 1]


def lost_when_smaller(models: pd.DataFrame) -> pd.DataFrame:
    """The accuracy that each ablation costs: that of the full model minus the ablated one's, by seed."""
    is_whole = models["ablation"] == ""
    whole = models[is_whole].set_index(["language", "seed"])["value"].rename("whole")
    both = models[~is_whole].join(whole, on=["language", "seed"])
    return table_over_seeds(both.assign(value=both["whole"] - both["value"]), ["language", "ablation"])


def gained_by_supervision(models: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of supervised models less that of unsupervised ones, paired by seed."""
    models = models[models["ablation"] == ""]
    supervised = models["supervised"].astype(bool)
    before = models[~supervised].set_index(["language", "seed"])["value"].rename("before")
    both = models[supervised].join(before, on=["language", "seed"], how="inner")
    return table_over_seeds(both.assign(value=both["value"] - both["before"]), ["language"])


def accuracy_by_length(models: pd.DataFrame) -> pd.DataFrame:
    """Accuracy against the length of test sequences: the mean over seeds with Student's interval."""
    rows = models[models["up_to"].notna() & (models["ablation"] == "")]
    by = ["language", "bos", "supervised", "positions", "length", "up_to"]
    return table_over_seeds(rows, by, share=True)


def in_panels(lengths: pd.DataFrame) -> pd.DataFrame:
    """`accuracy_by_length` with BOS, unsupervised: a `panel` per kind of positions, dyck languages apart."""
    chosen = lengths.query("bos and not supervised")
    brackets = chosen["language"].str.startswith("dyck")
    panel = chosen["positions"] + brackets.map({True: ", dyck", False: ""})
    return chosen.assign(panel=panel).sort_values(["panel", "language"], kind="stable")


AS_TRAINED, ITS_OWN, UNIFORM = "as trained", "its own program", "uniform attention"
OTHERS, BEST = "other programs, mean", "the best of them"
"""The attention that a head is compared with, or that replaces the head's."""


def of_programs(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds of the agreement with programs, and of the accuracy with attention replaced."""
    rows = each_once(rows[rows["ablation"].eq("") & rows["bos"].eq(True)])
    language = rows["task"]
    agrees = rows["metric"].str.extract("^agreement with (.*)$")[0]
    put = rows["metric"].str.extract(r"^accuracy, (attention|even) of (\w+) in its heads$")
    own, others = rows[agrees == language], rows[agrees.notna() & (agrees != language)]
    a_model = ["record", "run"]
    of_a_model = others.groupby(a_model)["value"]
    kinds = {
        ("agreement", ITS_OWN): own,
        ("agreement", OTHERS): others.assign(value=of_a_model.transform("mean")).drop_duplicates(a_model),
        ("agreement", BEST): others.loc[of_a_model.idxmax()],
        ("agreement", UNIFORM): own.assign(value=own["uniform"]),
        ("tokens right", AS_TRAINED): rows[rows["metric"] == "accuracy"],
        ("tokens right", ITS_OWN): rows[(put[0] == "attention") & (put[1] == language)],
        ("tokens right", UNIFORM): rows[(put[0] == "even") & (put[1] == language)],
    }
    about = ["language", "supervised"]
    found = pd.concat(
        table_over_seeds(part[part["language"].isin(own["task"])], about, share=True).assign(
            what=what, held=held
        )
        for (what, held), part in kinds.items()
    )
    found["place"] = found["language"].map(_place) + 0.5 * found["supervised"].astype(bool)
    return found.sort_values("place", kind="stable", ignore_index=True).drop(columns="place")


def _cells(found: pd.DataFrame, column: str, columns: list[str]) -> pd.DataFrame:
    """Means in percent with their intervals, by language in order, and the number of seeds."""
    order = found.assign(place=found["language"].map(_place)).sort_values("place", kind="stable")
    cells = plots.in_cells(order, ["language"], column, unit="%", digits=1, lacking="not run")
    seeds = order.groupby(["language"])["n"].agg(counted)
    return cells.reindex(columns=columns, fill_value="not run").assign(seeds=seeds.reindex(cells.index))


def _place(name: str) -> int:
    """The position of a language in tables; those that a reader defines come last."""
    return [*LANGUAGES, name.removesuffix(" without BOS")].index(name.removesuffix(" without BOS"))


def _paper(table: str, tasks: Iterable[str]) -> list[str]:
    paper = paper_figures().query("table == @table").set_index("task")
    figures = as_printed(paper)
    return [figures.get(task, "not found") for task in tasks]


def _language_of(rows: pd.DataFrame) -> pd.Series:
    return rows["task"].str.removesuffix(" without BOS")
