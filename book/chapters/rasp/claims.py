"""The claims of Weiss, Goldberg and Yahav 2021."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from attnlib.generators.rasp import LANGUAGES
from attnlib.stats import rank_correlation, table_over_seeds
from book.chapters.findings.finding import Claim, Outcome, each_of, number, one, points, there
from book.chapters.findings.rules import above, beside, every, negated, paired
from book.chapters.rasp.tables import (
    SCALE,
    TABLES,
    accuracy_by_length,
    each_once,
    lost_when_smaller,
    of_scale,
    trained_models,
)
from book.chapters.records import paper_figures

POINT = 0.01
"""The margin: the allowed distance below the paper's figure, and the loss that counts as one."""

MIN_SHARE = 0.9
"""The least share of attention on the program's keys for a supervised head to look there and nowhere else."""

PRICE = 0.005
"""The largest loss of accuracy at which supervision still counts as costing nothing."""

MAX_UNIFORM_SHARE = 0.9
"""Above this share of uniform attention on the program's keys, a head cannot be told from any other."""

WITH_A_SIZE = {name for name, definition in LANGUAGES.items() if definition.paper_size}
"""Languages for which the paper reports a number of layers and heads."""

LONGER = 40
"""The largest length of the longer test sequences; training sequences have at most 30 symbols."""

UNVERIFIED = "The paper's figures are quoted from memory, unverified."

HIST = "hist without BOS"
"""The language that the paper's Table 2 calls hist."""


def mean_is_the_papers(rows: pd.DataFrame) -> Outcome:
    """The mean over seeds of each language with BOS, against the paper's mean."""
    models = _whole(rows)
    means = _means(models)
    cases = every(_beside(means[means["task"].ne(HIST)], "2", ": full size"), "least")
    least, best = cases.least, models.groupby("task")["value"].max()
    further = ", ".join(
        f"`{task}` has {100 * best[task]:.1f} %, the paper {100 * theirs:g} %"
        for task in sorted(set(best.index) - set(_beside(means, "2", ": full size")["task"]))
        if (theirs := _theirs(f"{TABLES} 1", task)) == theirs
    )
    longer = there(accuracy_by_length(_of_scale(rows)).query("up_to == @LONGER"))["value"]
    return Outcome(
        cases.verdict,
        f"Shown in {cases.shown} of {cases.n} languages. Tokens right in the weakest, `{least.task}`",
        number(least, "seeds", least.least, unit="%", digits=1),
        more=f"{UNVERIFIED} For `{least.task}` it is {100 * least.theirs:g} %. Of the best runs of others, "
        f"{further}. Of sequences of {LONGER - 4} to {LONGER} symbols, where training ended at 30, "
        f"{100 * longer.min():.0f} to {100 * longer.max():.0f} % of the tokens are right.",
        paper=_printed(least.theirs, "%"),
    )


def best_is_the_papers(rows: pd.DataFrame) -> Outcome:
    """The best seed of each language with BOS, against the paper's best run; intervals are over sequences."""
    models = _whole(rows)
    models = there(models[models["task"].ne(HIST)])
    best = models.loc[models.groupby("task", sort=False)["value"].idxmax()]
    ends = _of_scale(rows)[["record", "run", "metric", "low", "high"]]
    best = best.merge(ends, on=["record", "run", "metric"], validate="one_to_one")
    cases = every(_beside(best, "1"), "least", seeds=False)
    least = cases.least
    return Outcome(
        cases.verdict,
        f"Shown in {cases.shown} of {cases.n} languages. Tokens right in the weakest, `{least.task}`",
        number(least, "sequences", least.least, unit="%", digits=1),
        more=f"{UNVERIFIED} For `{least.task}` it is {100 * least.theirs:g} %.",
        paper=_printed(least.theirs, "%"),
    )


def hist_without_bos(rows: pd.DataFrame) -> Outcome:
    """The mean over seeds of hist without BOS, which has two heads in the paper, against the paper's mean."""
    means = _means(_whole(rows))
    found = one(_beside(means[means["task"].eq(HIST)], "2", ": full size"))
    return Outcome(
        above(found, found.least),
        "Tokens right with the paper's two heads",
        number(found, "seeds", found.least, unit="%", digits=1),
        more=f"{UNVERIFIED} The paper has {100 * found.theirs:g} %.",
        paper=_printed(found.theirs, "%"),
    )


def second_layer_is_needed(rows: pd.DataFrame) -> Outcome:
    """The accuracy that `reverse` and `hist2` lose without their second layer, paired by seed."""
    lost = _lost(rows)
    there(lost[lost["ablation"].eq(LAYER)])
    cases = every(lost[lost["task"].isin(["reverse", "hist2"]) & lost["ablation"].eq(LAYER)], POINT)
    least = cases.least
    return Outcome(
        cases.verdict,
        f"Accuracy that `{least.task}`, the less affected of the two, loses without it",
        number(least, "seeds", POINT, unit="points", signed=True),
        beside(least, _published(least)),
        f"{UNVERIFIED} The paper has {100 * _published(least):.1f} points.",
        _printed(_published(least), "points"),
    )


def sort_needs_one_layer(rows: pd.DataFrame) -> Outcome:
    """Whether the accuracy that `sort` loses without its second layer is below a point."""
    lost = one(_lost(rows), task="sort", ablation=LAYER)
    return Outcome(
        above(negated(lost), -POINT),
        "Accuracy lost without it",
        number(lost, "seeds", POINT, unit="points", digits=2, signed=True),
        more=f"The paper says so, too: {100 * _published(lost):.1f} points. {UNVERIFIED}",
        paper=_printed(_published(lost), "points"),
    )


def second_head_is_needed(task: str, rows: pd.DataFrame) -> Outcome:
    """Whether the accuracy that a language loses without its second head is above 0, paired by seed."""
    lost = one(_lost(rows), task=task, ablation=HEAD)
    return Outcome(
        above(lost),
        "Accuracy lost without it",
        number(lost, "seeds", 0, unit="points", digits=1, signed=True),
        beside(lost, _published(lost)) if lost.low > 0 else "",
        f"{UNVERIFIED} The paper has {100 * _published(lost):.1f} points.",
        _printed(_published(lost), "points"),
    )


def losses_are_ordered_as_in_the_paper(rows: pd.DataFrame) -> Outcome:
    """The rank correlation of our models' losses with those of the paper's, over languages and ablations."""
    lost = _lost(rows)
    lost = there(lost.assign(theirs=[_published(row) for row in each_of(lost)]).dropna(subset=["theirs"]))
    found = rank_correlation(lost["value"], lost["theirs"])
    return Outcome(
        above(found),
        "Rank correlation of what is lost with what the paper's models lose",
        number(found, "cases", 0),
        more=f"{UNVERIFIED} In {(lost['value'] > 0).sum()} of {len(lost)} cases the smaller model has fewer "
        "tokens right.",
    )


def heads_look_where_supervised(rows: pd.DataFrame) -> Outcome:
    """How much more attention supervised heads have on the program's keys than unsupervised ones, by seed."""
    supervised, unsupervised = _supervised_and_not(rows, "mass ")
    cases = every(paired(supervised, unsupervised, ["task", "metric"]))
    least = cases.least
    return Outcome(
        cases.verdict,
        f"Rises in {cases.shown} of {cases.n} heads. Smallest rise of the share of attention, in "
        f"`{least.task}`",
        number(least, "seeds", 0, signed=True),
        more=f"There it is {least.first:.2f}, and {least.second:.2f} without supervision.",
    )


def heads_look_nowhere_else(rows: pd.DataFrame) -> Outcome:
    """The share of attention on the program's keys, in supervised heads."""
    supervised, _ = _supervised_and_not(rows, "mass ")
    cases = every(table_over_seeds(supervised, ["task", "metric"], share=True), MIN_SHARE)
    least = cases.least
    return Outcome(
        cases.verdict,
        f"Shown in {cases.shown} of {cases.n} heads. Smallest share of attention, in `{least.task}`",
        number(least, "seeds", MIN_SHARE),
    )


def telling_costs_nothing(rows: pd.DataFrame) -> Outcome:
    """The change of accuracy by the supervision of heads, paired by seed, against a loss of `PRICE`."""
    supervised, unsupervised = _supervised_and_not(rows, "accuracy$")
    gained = paired(supervised, unsupervised, ["task"])
    cases = every(gained, -PRICE)
    least, most = cases.least, one(gained.nlargest(1, "value"))
    return Outcome(
        cases.verdict,
        f"Shown in {cases.shown} of {cases.n} languages. Change of accuracy in the weakest case, "
        f"`{least.task}`",
        number(least, "seeds", -PRICE, unit="points", digits=1, signed=True),
        more=f"`{most.task}` is changed most to the better: {points(most)}.",
    )


LAYER, HEAD = "one layer fewer", "one head fewer"


def _of_scale(rows: pd.DataFrame) -> pd.DataFrame:
    """The numbers of models of `SCALE`, each seed once, for the languages `WITH_A_SIZE`."""
    rows = of_scale(rows, **SCALE)
    rows = rows[rows["seed"].notna() & rows["ablation"].notna()]
    rows = each_once(rows[rows["bos"].eq(True) | rows["task"].eq(HIST)])
    return rows[rows["language"].isin(WITH_A_SIZE)]


def _models(rows: pd.DataFrame) -> pd.DataFrame:
    """The accuracy of unsupervised models of `_of_scale`; `task` is the language's name in the paper."""
    models = trained_models(_of_scale(rows))
    models = models[~models["supervised"].astype(bool) & models["metric"].eq("accuracy")]
    return models.assign(task=models["language"] + models["bos"].map({True: "", False: " without BOS"}))


def _whole(rows: pd.DataFrame) -> pd.DataFrame:
    models = _models(rows)
    return there(models[models["ablation"].eq("")])


def _means(models: pd.DataFrame) -> pd.DataFrame:
    return table_over_seeds(models, ["task"], share=True)


def _lost(rows: pd.DataFrame) -> pd.DataFrame:
    """The accuracy lost by each ablation, by `task` and `ablation`."""
    models = _models(rows)
    there(models[models["ablation"].ne("")])
    return lost_when_smaller(models.assign(language=models["task"])).rename(columns={"language": "task"})


def _supervised_and_not(rows: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of supervised and unsupervised models; heads above `MAX_UNIFORM_SHARE` are left out."""
    rows = _of_scale(rows)
    rows = rows[rows["ablation"].eq("") & rows["bos"].eq(True) & rows["metric"].str.match(metric)]
    rows = rows[~rows["uniform"].gt(MAX_UNIFORM_SHARE)]
    supervised = rows["supervised"].astype(bool)
    return there(rows[supervised]), rows[~supervised]


def _theirs(table: str, task: str) -> float:
    figures = paper_figures().query("table == @table").set_index("task")["value"]
    return float(figures.get(task, float("nan"))) / 100


def _beside(rows: pd.DataFrame, table: str, size: str = "") -> pd.DataFrame:
    """The rows for which the paper has a number: `theirs`, and the `least` value that ours must have."""
    theirs = [_theirs(f"{TABLES} {table}", task + size) for task in rows["task"]]
    found = rows.assign(theirs=theirs).dropna(subset=["theirs"])
    return found.assign(least=found["theirs"] - POINT)


def _published(lost: Any) -> float:
    """The accuracy that the paper's models lose in the same case."""
    whole, less = (_theirs(f"{TABLES} 2", f"{lost.task}: {size}") for size in ("full size", lost.ablation))
    return whole - less


def _printed(theirs: float, unit: str) -> str:
    """The paper's share or loss in words."""
    return f"{100 * theirs:{'+.1f' if unit == 'points' else 'g'}} {unit} (unverified)"


PAPER, HEADS = "Paper vs ours", "Where the heads look"
AGREEMENT, SIZE = "Agreement with the program", "Is the program's size necessary?"

CLAIMS = tuple(
    Claim("weiss2021thinking", name, words, "rasp_languages", section, rule, answer)
    for name, words, section, rule, answer in (
        (
            "size",
            "At the size of its RASP program, a transformer learns every language to within a point of the "
            "paper's mean.",
            PAPER,
            "In each language with BOS for which the paper has a mean, the interval over seeds lies above "
            "this mean less one point.",
            mean_is_the_papers,
        ),
        (
            "size, best run",
            "At the size of its RASP program, the best run of every language is within a point of the "
            "paper's.",
            PAPER,
            "In each language with BOS for which the paper has a best run, the best seed's interval over "
            "test sequences lies above this run less one point.",
            best_is_the_papers,
        ),
        (
            "size, hist without BOS",
            "Without a beginning-of-sequence token, two heads learn `hist` as well as in the paper.",
            PAPER,
            "The interval over seeds lies above the paper's mean less one point.",
            hist_without_bos,
        ),
        (
            "second layer of reverse, hist2",
            "`reverse` and `hist2` need the second layer of their programs.",
            SIZE,
            "In both, more than a point is lost without it, seed by seed.",
            second_layer_is_needed,
        ),
        (
            "second layer of sort",
            "`sort` does not need its second layer.",
            SIZE,
            "Less than a point is lost without it, seed by seed.",
            sort_needs_one_layer,
        ),
        (
            "second head of sort_by_freq",
            "`sort_by_freq` needs the second head of its program.",
            SIZE,
            "Something is lost without it, seed by seed.",
            partial(second_head_is_needed, "sort_by_freq"),
        ),
        (
            "second head of hist",
            "Without a beginning-of-sequence token, `hist` needs a second head.",
            SIZE,
            "Something is lost without it, seed by seed.",
            partial(second_head_is_needed, HIST),
        ),
        (
            "what smaller models lose",
            "Smaller models lose most accuracy in the languages where the paper's smaller models do.",
            SIZE,
            "The rank correlation of losses, over languages and ways to be smaller, is above 0.",
            losses_are_ordered_as_in_the_paper,
        ),
        (
            "supervision, more attention",
            "Supervision makes every head attend more to where its program looks.",
            HEADS,
            "In every head the share of attention there rises, seed by seed. A head whose program looks at "
            "nearly all keys does not count.",
            heads_look_where_supervised,
        ),
        (
            "supervision, nine tenths",
            "Supervised heads put at least nine tenths of their attention where the program looks.",
            HEADS,
            "In every supervised head, the interval over seeds of the share there lies above 0.9. A head "
            "whose program looks at nearly all keys does not count.",
            heads_look_nowhere_else,
        ),
        (
            "supervision, its price",
            "Supervising the heads costs less than half a point of accuracy in every language.",
            AGREEMENT,
            "In every language, less than half a point is lost, seed by seed.",
            telling_costs_nothing,
        ),
    )
)
