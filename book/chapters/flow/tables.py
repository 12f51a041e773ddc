"""The chapter's tables, its verdicts, and the rows of a record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from attnlib import plots
from attnlib.stats import corrected, p_over_seeds, summarise, table_over_seeds
from book.chapters.findings.finding import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from book.chapters.flow.agreement import Sentence
from book.chapters.flow.measures import (
    FLOW,
    GRADIENT,
    LAST_CLASS,
    OCCLUSION,
    OVER_NULL,
    RAW,
    ROLLOUT,
    SUMMED,
    WITH_CLS,
    WORDS,
)
from book.chapters.records import made_alike, paper_figures

MODEL = ["data", "causal", "untrained", "seed"]
"""The columns that identify a model."""

SETTINGS = ["tested on", "slip", "relevance", "items", "way", "layer"]
"""The columns that identify a number of a model; "" (for `layer`, 0) where one does not apply."""

KIND = [*MODEL, "relevance", "items", "way"]
"""The columns that identify one method applied to one model, across its layers."""

RECORD_COLUMNS = [*MODEL, "metric", *SETTINGS, "value", "low", "high", "n", "spread", "chance"]

AGREEMENT, ADVANTAGE, SUBJECT, ACCURACY, SLIP = (
    *("correlation", "better than raw attention by", "names the subject", "accuracy", "what a slip changes"),
)
"""The metrics of a record."""

AS_THE_PAPER = {"items": WITH_CLS, "untrained": False, "causal": False}
"""The setting of the paper's tables: all tokens are ranked, in a trained bidirectional model."""

RUNNING = "running averages"
"""The slip that changes the resulting numbers, not the computation of scores."""

LEVEL = 0.05
"""The significance level of the claims over all corpora together."""

MAY_DIFFER = ("corpora", "seeds", "looks_back", "sentence", "slip_sentences", "device")
"""Parameters in which runs may differ and still have models of the same kinds."""

FROM_LAYER = 2
"""The layer from which rollout and flow are claimed to agree better than raw attention."""


def by_layer(rows: pd.DataFrame, by: Sequence[str] = ("relevance", "items", "way", "layer")) -> pd.DataFrame:
    """The mean of `agreement_rows` or `subject_rows` per model and setting, over sentences."""
    value = "found" if "found" in rows else "value"
    table = summarise(rows, [*MODEL, *by], value)
    groups = rows.groupby([*MODEL, *by], sort=False)
    more = groups[value].std().rename("spread").reset_index()
    if "chance" in rows:
        more = more.assign(chance=groups["chance"].mean().to_numpy())
    return table.merge(more, on=[*MODEL, *by])


def agreement_panels(shown: pd.DataFrame) -> pd.DataFrame:
    """Correlations of one corpus, with a column `panel`: the relevance, and whether the model is trained."""
    names = {
        (relevance, untrained): f"{relevance}, {'untrained' if untrained else 'trained'}"
        for untrained in (False, True)
        for relevance in (OCCLUSION, GRADIENT)
    }
    parts = [
        shown[shown["relevance"].eq(relevance) & shown["untrained"].eq(untrained)].assign(panel=name)
        for (relevance, untrained), name in names.items()
    ]
    return pd.concat(parts, ignore_index=True)


def of_sentences(sentences: Sequence[Sentence]) -> pd.DataFrame:
    """A row per sentence of the grammar, with its subject, the verb's number and the number of attractors."""
    rows = [
        {
            "sentence": " ".join(each.words),
            "subject": each.words[each.subject],
            "verb": ["singular", "plural"][each.label],
            "attractors": each.attractors,
        }
        for each in sentences
        if each.subject is not None
    ]
    return pd.DataFrame(rows)


def of_subjects(rows: pd.DataFrame) -> pd.DataFrame:
    """`by_layer` of `subject_rows`, which have one relevance and one set of items."""
    return by_layer(rows, ["way", "layer"])


def by_test(right: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """The accuracy of every model on each test set (`tested on`), with the model's set-up."""
    return summarise(right, ["run", "tested on"], "right").merge(runs, on="run")


def of_all_seeds(means: pd.DataFrame, *, share: bool = False) -> pd.DataFrame:
    """`by_layer` or `advantages` over seeds, with Student's interval; for one seed, that over sentences."""
    by = [
        str(name) for name in means if name not in ("seed", "value", "low", "high", "n", "spread", "chance")
    ]
    table = table_over_seeds(means, by, share=share, of_one=True)
    if "spread" in means:
        table = table.merge(means.groupby(by, sort=False)["spread"].mean().reset_index(), on=by)
    return table


def advantages(rows: pd.DataFrame) -> pd.DataFrame:
    """How much better rollout and flow agree than raw attention of the same layer, sentence by sentence."""
    keys = [*MODEL, "relevance", "items", "sentence", "layer"]
    raw = rows.loc[rows["way"] == RAW, [*keys, "value"]].rename(columns={"value": "raw"})
    both = rows[rows["way"].isin([ROLLOUT, FLOW, OVER_NULL])].merge(raw, on=keys)
    both["value"] = both["value"] - both["raw"]
    return summarise(both, [*KIND, "layer"], bounds=None)


def verdicts(found: pd.DataFrame) -> pd.DataFrame:
    """Whether rollout and flow agree better than raw attention from layer 2 on, model by model."""
    deep = found[found["layer"] >= FROM_LAYER]
    table = []
    for key, group in deep.groupby(KIND, sort=False):
        better, worse = group["low"] > 0, group["high"] < 0
        sides = [_listed(group["layer"][side]) for side in (better, worse, ~better & ~worse)]
        verdict = REPRODUCED if better.all() else NOT_REPRODUCED if worse.any() else INCONCLUSIVE
        table.append((*key, *sides, group["value"].min(), verdict))
    return pd.DataFrame(table, columns=[*KIND, "better", "worse", "unsettled", "smallest", "verdict"])


def of_slips(rows: pd.DataFrame) -> pd.DataFrame:
    """The change by each slip of the original's code alone, as a mean over sentences."""
    keys = ["data", "sentence", "relevance", "items", "way", "layer"]
    right = rows[rows["slip"] == "none"].set_index(keys)["value"].rename("right")
    both = rows[rows["slip"] != "none"].join(right, on=keys)
    both = pd.concat([both, _running(rows)], ignore_index=True)
    both["value"] = both["value"] - both["right"]
    return summarise(both, ["data", "slip", "relevance", "items", "way", "layer"], bounds=None)


def relevant_slips(slips: pd.DataFrame, data: str) -> pd.DataFrame:
    """Each slip's change of one corpus's agreement, with the gradient for its slips, else with occlusion."""
    moved = slips[slips["data"].eq(data) & slips["items"].eq(WORDS) & slips["layer"].gt(0)]
    relevant = moved["slip"].map({LAST_CLASS: GRADIENT, SUMMED: GRADIENT}).fillna(OCCLUSION)
    return moved[moved["relevance"] == relevant]


def _running(rows: pd.DataFrame) -> pd.DataFrame:
    """The slip `RUNNING`: the number of a layer is the mean over the layers up to it."""
    right = rows[(rows["slip"] == "none") & (rows["layer"] > 0)].sort_values("layer", ignore_index=True)
    groups = right.groupby(["data", "sentence", "relevance", "items", "way"])["value"]
    means = groups.expanding().mean().reset_index(level=[0, 1, 2, 3, 4], drop=True)
    return right.assign(slip=RUNNING, right=right["value"], value=means)


def beside_the_paper(means: pd.DataFrame, figures: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over sentences by method and layer, below the paper's."""
    paper = figures.pivot_table(index=["task", "setting"], columns="table", values="value", sort=False)
    mean, spread = sorted(paper.columns, key=len)
    both = list(paper.reset_index()[["task", "setting", mean, spread]].itertuples(index=False, name=None))
    shown = {(way, "paper", layer): f"{value:.2f} ± {apart:.2f}" for way, layer, value, apart in both}
    for row in means[means["layer"] > 0].itertuples():
        shown[row.way, "here", f"layer {row.layer}"] = f"{row.value:.2f} ± {row.spread:.2f}"
    table = pd.Series(shown).unstack().fillna("not run")
    ways = [way for way in (RAW, ROLLOUT, FLOW) if way in table.index]
    order = [(way, source) for way in ways for source in ("paper", "here") if (way, source) in table.index]
    theirs = pd.DataFrame(both, columns=["way", "layer", "value", "spread"]).assign(source="paper")
    ours = means[means["layer"] > 0].assign(source="here", layer="layer " + means["layer"].astype(str))
    numbers = pd.concat([theirs, ours])[["way", "source", "layer", "value", "spread"]]
    return plots.knowing(table.loc[order], numbers)


def versus_table(rows: pd.DataFrame, table: str, data: str, relevance: str) -> pd.DataFrame:
    """A table of the paper, such as "Table 1", with the numbers of recorded models of a corpus."""
    figures = paper_figures()
    theirs = figures[figures["table"].str.startswith(f"Quantifying Attention Flow {table}")]
    ours = of_record(rows, AGREEMENT, data=data, relevance=relevance, **AS_THE_PAPER)
    return beside_the_paper(ours, theirs).rename_axis(["way", "source"])


def as_table_1(rows: pd.DataFrame) -> pd.DataFrame:
    """The recorded correlations with occlusion, in the form for `book.chapters.records.beside_the_paper`."""
    where = {"relevance": OCCLUSION, **AS_THE_PAPER}
    kinds = {"linzen": "here, Linzen's sentences", "templates": "here, templates"}
    found = pd.concat(
        [of_record(rows, AGREEMENT, data=data, **where).assign(by=name) for data, name in kinds.items()]
    )
    found = found[found["way"].isin([RAW, ROLLOUT, FLOW]) & found["layer"].gt(0)]
    return found.assign(task="layer " + found["layer"].astype(str), record=rows["record"].iloc[0])


def to_record(
    means: pd.DataFrame,
    subjects: pd.DataFrame,
    better: pd.DataFrame,
    accuracy: pd.DataFrame,
    slips: pd.DataFrame,
) -> pd.DataFrame:
    """The rows of a record, in columns `RECORD_COLUMNS`."""
    first = {"causal": False, "untrained": False, "seed": int(means["seed"].iloc[0])}
    parts = {
        AGREEMENT: means,
        SUBJECT: subjects,
        ADVANTAGE: better,
        ACCURACY: accuracy,
        SLIP: slips.assign(**first),
    }
    rows = pd.concat([table.assign(metric=name) for name, table in parts.items() if len(table)])
    rows = rows.reindex(columns=RECORD_COLUMNS)
    words = [name for name in SETTINGS if name != "layer"]
    return rows.fillna(dict.fromkeys(words, "") | {"layer": 0}).astype({"layer": int})


def recorded(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the record with the most models, and further models of the same kinds from other records.

    Those records may differ from it only in `MAY_DIFFER`; the effects of slips are the first record's alone.
    """
    if rows.empty:
        return pd.DataFrame(columns=[*RECORD_COLUMNS, "record"])
    models = rows.drop_duplicates(["record", *MODEL]).groupby("record").size()
    order = list(models.sort_values(ascending=False, kind="stable").index)
    kinds = made_alike(order, MAY_DIFFER)
    rows = rows[
        rows["record"].map(kinds).eq(order[0]) & (rows["metric"].ne(SLIP) | rows["record"].eq(order[0]))
    ]
    place = rows["record"].map(order.index)
    first = place.groupby([rows[name] for name in MODEL]).transform("min")
    return rows[place == first]


def of_record(rows: pd.DataFrame, metric: str, **where: object) -> pd.DataFrame:
    """The numbers of one metric over all seeds of a record; see `of_all_seeds`."""
    kept = rows[rows["metric"] == metric]
    for name, value in where.items():
        kept = kept[kept[name] == value]
    kept = kept[[name for name in RECORD_COLUMNS if name != "metric"]]
    return of_all_seeds(kept, share=metric in (ACCURACY, SUBJECT))


def claimed(rows: pd.DataFrame) -> pd.DataFrame:
    """`verdicts` on words, with occlusion, for the recorded trained bidirectional models."""
    return verdicts(_compared(rows))


def over_layers(rows: pd.DataFrame, relevance: str = OCCLUSION, items: str = WORDS) -> pd.DataFrame:
    """The mean lead over raw attention from the second layer on, over seeds, by corpus and way."""
    found = table_over_seeds(_deep(rows, relevance, items), ["way", "data"])
    by_way = found.assign(p=p_over_seeds(found)).groupby("way")["p"]
    found = found.assign(p_holm=by_way.transform(lambda p: corrected(p.to_numpy(float))))
    shown = found["p_holm"] < LEVEL
    return found.assign(above=shown & (found["low"] > 0), below=shown & (found["high"] < 0))


def _compared(rows: pd.DataFrame, relevance: str = OCCLUSION, items: str = WORDS) -> pd.DataFrame:
    better = rows[rows["metric"].eq(ADVANTAGE) & rows["relevance"].eq(relevance) & rows["items"].eq(items)]
    better = better[~better["untrained"].astype(bool) & ~better["causal"].astype(bool)]
    return better[[name for name in RECORD_COLUMNS if name != "metric"]]


def _deep(rows: pd.DataFrame, relevance: str = OCCLUSION, items: str = WORDS) -> pd.DataFrame:
    return _compared(rows, relevance, items).query("layer >= @FROM_LAYER")


def _listed(layers: pd.Series) -> str:
    return ", ".join(map(str, np.sort(layers.unique()))) or "none"
