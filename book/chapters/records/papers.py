"""The papers' figures, and tables that compare our numbers with them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from attnlib import plots
from attnlib.stats import with_interval
from book.chapters.records.scale import share_of_scale

READ = "read"
"""The certainty of figures that were read in the paper, its authors' repository, or their plots."""

UNUSABLE = "not usable"
"""The certainty of figures that tables show with this word, and plots leave out."""


@functools.cache
def paper_figures() -> pd.DataFrame:
    """Figures of the papers: study, table, task, setting, value, and certainty.

    `certainty` is "read", or a word that is shown beside the figure: "unverified" (quoted from memory),
    "uncertain" (read, but possibly from other code), or "not usable" (from code that was corrected later).
    """
    return pd.read_csv(Path(__file__).with_name("paper_figures.csv"), comment="#")


def as_printed(figures: pd.DataFrame) -> pd.Series:
    """The values of some of `paper_figures()` as text, followed by their certainty unless it is "read"."""
    return figures["value"].map("{:g}".format).replace("inf", "never") + _how_sure(figures)


def _how_sure(figures: pd.DataFrame) -> pd.Series:
    return figures["certainty"].map(lambda certainty: f" ({certainty})" if certainty != READ else "")


def paper_vs_here(here: pd.DataFrame, table: str) -> pd.DataFrame:
    """A paper's table with our numbers beside it."""
    paper, here = _paper_and_ours(table, here)
    _refuse_merging(here, ["task", "setting"])
    both = paper.assign(original=as_printed(paper))[["task", "setting", "original"]]
    both = both.rename(columns={"setting": "original's setting"})
    cells = [with_interval(row, "%", 2, named=False) for row in here.itertuples()]
    ours = pd.DataFrame({"task": here["task"], "our setting": here["setting"], "ours": cells}).astype(str)
    ours["n"], ours["of its scale"] = here["n"].map("{:,.0f}".format), share_of_scale(here, table)
    shown = both.merge(ours, on="task", how="left").astype(object)
    shown = shown.fillna({"ours": "not run"}).fillna("")
    if not shown["of its scale"].any():
        shown = shown.drop(columns="of its scale")
    return plots.knowing(shown, _numbers(paper, here))


def beside_the_paper(
    here: pd.DataFrame,
    table: str,
    label: str = "percent",
    *,
    by: str,
    panel: str | None = None,
    **how: Any,
) -> plots.Drawing:
    """Our numbers with their intervals, and the paper's as crosses: a dot plot, a line per task."""
    paper, here = _paper_and_ours(table, here)
    places = paper["task"].str.partition(": ")
    if panel and not places[2].any():
        places[0], places[2] = paper["setting"], paper["task"]
    marks = pd.DataFrame({"task": places[0], panel or "": places[2], "value": paper["value"]})
    marks["mark"] = "the original's" + _how_sure(paper)
    usable = paper["certainty"].ne(UNUSABLE) & marks["value"].abs().lt(float("inf"))
    if label == "percent":
        here = here.assign(**{name: 100 * here[name] for name in ("value", "low", "high")})
    scales = here.assign(scale=share_of_scale(here, table)).groupby("task")["scale"].unique()
    said = scales.map(lambda texts: " or ".join(filter(None, texts)))
    notes = dict.fromkeys(marks["task"], "not run here") | said.to_dict()
    how = {"xlim": None, "notes": notes} | how
    how["marks"] = pd.concat([marks[usable], how.get("marks")], ignore_index=True)
    return plots.estimates(here, "task", by, label, panel=panel, **how)


def paper_grid(
    here: pd.DataFrame, table: str, metrics: Sequence[str], tasks: Sequence[str] = ()
) -> pd.DataFrame:
    """A paper's table as it was printed, a column per metric, with a row of ours under each of its rows."""
    paper, here = _paper_and_ours(table, here, tasks)
    _refuse_merging(here, ["task", "setting", "metric"])
    places = paper["task"].str.partition(": ")
    theirs = dict(zip(zip(places[0], places[2], strict=True), as_printed(paper), strict=True))
    settings = dict(zip(paper["task"].str.partition(": ")[0], paper["setting"], strict=True))
    settings |= {task: "" for task in tasks if task not in settings}
    rows = []
    for task in dict.fromkeys([*settings, *here["task"]]):
        if task in settings:
            cells = {metric: theirs.get((task, metric), "not found") for metric in metrics}
            rows.append({"task": task, "by": "original", **cells, "setting": settings[task] or "not found"})
        runs = here[here["task"] == task]
        for setting, run in runs.groupby("setting", sort=False):
            ours = {row.metric: with_interval(row, "%", 1, named=False) for row in run.itertuples()}
            cells = {name: ours.get(name, "never" if name.startswith("xi(") else "") for name in metrics}
            scale = share_of_scale(run.head(1), table)[0]
            rows.append({"task": task, "by": "ours", **cells, "setting": setting, "of its scale": scale})
        if runs.empty:
            cells = dict.fromkeys(metrics, "not run")
            rows.append({"task": task, "by": "ours", **cells, "setting": "not run"})
    shown = pd.DataFrame(rows, columns=["task", "by", *metrics, "setting", "of its scale"]).fillna("")
    return plots.knowing(shown, _numbers(paper, here[here["metric"].isin(metrics)]))


def paper_verdicts(here: pd.DataFrame, table: str, metric: str, chance: str) -> pd.DataFrame:
    """One column of a paper's table beside our results, a row for each of our runs."""
    paper, here = _paper_and_ours(table, here)
    theirs = paper.set_index("task")["value"]
    found = {name: here[here["metric"] == name] for name in (metric, chance)}
    for column in found.values():
        _refuse_merging(column, ["task", "setting"])
    both = found[metric].merge(found[chance], on=["task", "setting"], suffixes=("", "_by_chance"))
    rows: list[dict[str, Any]] = []
    row: Any
    for row in both.itertuples():
        figure = float(theirs.get(f"{row.task}: {metric}", float("nan")))
        verdict = "above chance" if row.low > row.high_by_chance else "not significantly above chance"
        if figure == figure:
            against = "lower than" if 100 * row.high < figure else "higher than"
            same = 100 * row.low <= figure <= 100 * row.high
            verdict += f", {'not significantly different from' if same else against} the original's"
        cells = {"task": row.task, "ours": with_interval(row, "%", 1, named=False), "n": int(row.n)}
        cells |= {"of its scale": share_of_scale(both.loc[[row.Index]], table)[0]}
        cells |= {"chance level": f"{100 * row.value_by_chance:.1f}"}
        rows.append(
            cells | {"original": f"{figure:g}" if figure == figure else "not found", "verdict": verdict}
        )
    return pd.DataFrame(rows)


def _paper_and_ours(
    table: str, here: pd.DataFrame, more: Sequence[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A paper's figures, and our rows with their tasks spelt as the paper spells them."""
    paper = paper_figures().query("table == @table")
    if paper.empty:
        raise ValueError(f"table should be one of {list(paper_figures()['table'].unique())}; got {table!r}")
    printed = [*paper["task"].str.partition(": ")[0], *more]
    spelt = {name.casefold(): name for name in printed}
    return paper, here.assign(task=[spelt.get(str(task).casefold(), task) for task in here["task"]])


def _numbers(paper: pd.DataFrame, here: pd.DataFrame) -> pd.DataFrame:
    """The numbers behind a table of texts: the paper's figures, in percent, and our shares."""
    both = {"the paper, in percent": paper, "ours": here}
    columns = ["by", "task", "setting", "metric", "value", "low", "high", "n"]
    return pd.concat([rows.assign(by=by) for by, rows in both.items()]).reindex(columns=columns)


def _refuse_merging(here: pd.DataFrame, place: list[str]) -> None:
    """Refuse rows with the same values in the columns `place`, which a table could not show apart."""
    if len(twice := here[here.duplicated(place)]):
        raise ValueError(f"several numbers for {' / '.join(map(str, twice.iloc[0][place]))}: tell them apart")
