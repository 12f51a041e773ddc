"""The chapter's tables, and tables over the records of classification and translation.

A row of a record is the agreement `metric` of a `task` on test samples, which were not used to choose a
checkpoint. Its interval is over documents (or sentences) of the first model, or over models of several seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Integer

from attnlib.generators.classification import Corpus, Documents
from attnlib.generators.classification.planted import CONFOUNDERS
from attnlib.generators.tokenizer import BOS, EOS
from attnlib.stats import pooled
from attnlib.stats.agreement_runs import EMBEDDING, LOGISTIC, UNIFORM
from attnlib.stats.agreements import agreement, chance_agreement
from attnlib.stats.intervals import SHARE
from attnlib.stats.ragged import Ragged
from attnlib.stats.rank_measures import first_largest
from attnlib.stats.resampling import resampled_means
from book.chapters.dynamics import DynamicsResults
from book.chapters.records import made_alike

TOKEN_KINDS = ("keyword for the label", "keyword against it", "confounder", "filler", "<bos> or <eos>")
"""The kinds of tokens in a document with planted keywords."""


@dataclass(frozen=True)
class ClassificationResults(DynamicsResults):
    """The results of a classifier and, where the decisive words are known, whether scores find them."""

    UNIT: ClassVar[str] = "documents"

    corpus: Corpus

    @cached_property
    def compared(self) -> dict[str, Ragged]:
        """Every score of the words of test documents, at the checkpoint used for the comparison."""
        ours, even = self.here[self.gold], self.here[UNIFORM].scores("beta")
        found = {name: ours.scores(name).at(self.chosen["gold"]) for name in ("alpha", "beta", "delta")}
        found["beta_uf, as chosen for alpha"] = even.at(self.chosen["alpha, beta_uf"])
        found["beta_uf, last step"] = even.at(-1)
        lexical = [name for name in self.here if name in (EMBEDDING, LOGISTIC)]
        return found | {f"beta, {name}": self.here[name].scores("beta").at(0) for name in lexical}

    @cached_property
    def kinds(self) -> np.ndarray | None:
        """The kind of every word of the test documents (see `token_kinds`); `None` where it is unknown."""
        test = self.corpus.test
        return None if test.relevance is None else token_kinds(self.corpus, test)

    @cached_property
    def largest(self) -> pd.DataFrame | None:
        """The kinds of the words with the largest score: see `largest_by_kind`."""
        return None if self.kinds is None else largest_by_kind(self.compared, self.kinds, TOKEN_KINDS)

    @cached_property
    def truth(self) -> pd.DataFrame | None:
        """The agreement of each score with the true relevance of words, and chance: a row per score `x`."""
        test = self.corpus.test
        if test.relevance is None:
            return None
        true = Ragged(test.toward_label(test.relevance).numpy(), self.here[self.gold].lengths)
        found = {name: agreement(score, true, self.measure) for name, score in self.compared.items()}
        found["chance"] = chance_agreement(self.compared["alpha"], true, self.measure)
        return pd.DataFrame(found.values(), index=pd.Index(found, name="x")).reset_index()

    def _further(self) -> list[pd.DataFrame]:
        if self.truth is None or self.largest is None:
            return []
        fallen = "largest " + self.largest["score"] + " on " + self.largest["kind"]
        return [
            self.truth.assign(metric="A(" + self.truth["x"] + ", truth)").drop(columns="x"),
            self.largest.assign(metric=fallen).drop(columns=["score", "kind"]),
        ]


def token_kinds(corpus: Corpus, documents: Documents) -> np.ndarray:
    """The kind of each token of planted documents, as an index into `TOKEN_KINDS`."""
    assert documents.relevance is not None  # known for `planted` documents
    toward = documents.toward_label(documents.relevance).numpy()
    names = {word for side in CONFOUNDERS for word in side}
    words = np.array(corpus.vocabulary.words)[documents.tokens.numpy()]
    conditions = [toward > 0, toward < 0, np.isin(words, sorted(names)), np.isin(words, [BOS, EOS])]
    return np.select(conditions, [0, 1, 2, 4], 3)


def largest_by_kind(
    scores: Mapping[str, Ragged], kinds: Integer[np.ndarray, " token"], names: Sequence[str]
) -> pd.DataFrame:
    """The share of documents whose largest score is on a token of each kind, by score, with intervals."""
    one_hot = (kinds[:, None] == np.arange(len(names))).astype(np.float64)
    shares = {name: one_hot[first_largest(score)] for name, score in scores.items()}
    lengths = next(iter(scores.values()))
    shares["any token"] = np.add.reduceat(one_hot, lengths.starts) / lengths.lengths[:, None]
    means = resampled_means(np.concatenate(list(shares.values()), axis=1))
    places = [(name, kind) for name in shares for kind in names]
    rows = [
        {"score": name, "kind": kind} | means.column(column).estimate(bounds=SHARE)._asdict()
        for column, (name, kind) in enumerate(places)
    ]
    return pd.DataFrame(rows)


PREDICTED, CHANCE = "A(alpha, beta_uf)", "A_hat"
"""Agreement of attention with relevance under uniform attention, and the chance level."""

SINGLE_WORDS, WITH_ATTENTION = "A(beta_px, beta_uf)", "A(alpha, beta)"
"""Agreement of single words with that relevance, and of attention with a second model's relevance."""

OF_ONE = ("documents", "sentences")
"""The units that are resampled for the intervals of one model."""

FIRST = 50
"""The checkpoint at which the two stages are compared; all data sets also have 10, 100, 150 and 200."""


MAY_DIFFER = ("seeds", "device", "uniform_seed")
"""Parameters in which runs may differ and still have models of one kind."""


def of_one_model(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first model; a data set trained again, in bf16 or with further seeds, counts once."""
    rows = _held_out(rows)
    rows = rows[rows["interval"].isin(OF_ONE)]
    return rows[rows["record"].eq(rows.groupby("task")["record"].transform("first"))]


def over_models(rows: pd.DataFrame) -> pd.DataFrame:
    """The agreement `PREDICTED` over models, pooled over records of other seeds, and `CHANCE`."""
    rows = _held_out(rows)
    of_models = rows[rows["interval"].eq("seeds") & rows["metric"].eq(PREDICTED)]
    if of_models["task"].duplicated().any():
        kinds = made_alike(of_models["record"], MAY_DIFFER)
        first = of_models.drop_duplicates("task").set_index("task")
        same = of_models["record"].map(kinds).eq(of_models["task"].map(first["record"].map(kinds)))
        found = pooled(of_models[same], ["task"]).set_index("task").combine_first(first)
        of_models = found.reset_index()[of_models.columns]
    chance = of_one_model(rows)
    return pd.concat([of_models, chance[chance["metric"].eq(CHANCE)]])


def at_one_step(rows: pd.DataFrame, step: int) -> pd.DataFrame:
    """Relevance and attention of the first model, by their agreement with the uniform model's relevance."""
    rows, columns = of_one_model(rows), ["record", "task", "value", "low", "high", "n"]
    relevance, attention = (
        rows.loc[rows["metric"].eq(f"step {step}: A({score}_t, beta_uf)"), columns]
        for score in ("beta", "alpha")
    )
    return relevance.merge(attention, on=["record", "task"], suffixes=("", "_attention"))


def rises(rows: pd.DataFrame) -> pd.DataFrame:
    """How much more relevance has risen than attention between step 0 and `FIRST`, each as an agreement."""
    key, names = ["record", "task"], ("value", "low", "high")
    now, before = (at_one_step(rows, at).set_index(key) for at in (FIRST, 0))
    if now.empty or before.empty:
        return pd.DataFrame(columns=[*key, *names, "n"])
    parts = [(now, "", 1), (now, "_attention", -1), (before, "", -1), (before, "_attention", 1)]
    value = sum(sign * table[f"value{of}"] for table, of, sign in parts)
    reach: dict[str, Any] = {"low": 0.0, "high": 0.0}
    for table, of, sign in parts:
        middle = table[f"value{of}"]
        below, above = middle - table[f"low{of}"], table[f"high{of}"] - middle
        reach["low"] += (below if sign > 0 else above) ** 2
        reach["high"] += (above if sign > 0 else below) ** 2
    found = pd.DataFrame(
        {"value": value, "low": value - np.sqrt(reach["low"]), "high": value + np.sqrt(reach["high"])}
    )
    return found.assign(n=now["n"]).dropna().reset_index()


def named_apart(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, with ", bf16" added to the name of a data set that was trained again in bf16."""
    return rows.assign(task=rows["task"] + _again(rows).map({True: ", bf16", False: ""}))


def drawn_agreements(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Agreements to draw; with `PREDICTED`, also those of attention with a second model's relevance."""
    ours = rows[rows["metric"].isin(metrics)].assign(by="ours")
    second = rows[rows["metric"].eq(WITH_ATTENTION)]
    second = second.assign(metric=PREDICTED, by="ours, relevance learned with attention")
    return pd.concat([ours, second])


def chance_marks(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """The chance level of each task in percent, to mark beside each of the metrics."""
    chance = rows[rows["metric"].eq(CHANCE)]
    chance = chance.assign(value=100 * chance["value"], mark="chance")
    return pd.concat([chance.assign(metric=name) for name in metrics])[["task", "metric", "value", "mark"]]


def agreement_over_steps(rows: pd.DataFrame) -> pd.DataFrame:
    """The agreement `PREDICTED` over training; the column `step` says when."""
    step = rows["metric"].str.extract(r"^step (\d+): A\(alpha_t, beta_uf\)$")[0]
    return rows.assign(step=step).dropna(subset=["step"]).astype({"step": int})


def three_checkpoints(rows: pd.DataFrame) -> pd.DataFrame:
    """The agreement `PREDICTED` of each record at the chosen, the best and the last checkpoint."""
    curve = agreement_over_steps(rows)
    runs = curve.groupby("record")
    highest, last = (curve.loc[runs[by].idxmax()].set_index("record") for by in ("value", "step"))
    found = {
        "chosen on validation": rows[rows["metric"].eq(PREDICTED)].set_index("record")["value"],
        "highest": highest["value"],
        "at step": highest["step"],
        "last": last["value"],
        "at the last step": last["step"],
    }
    return pd.DataFrame(found)


def variants(rows: pd.DataFrame, metric: str) -> dict[str, pd.DataFrame]:
    """An agreement of every record, by variant of the analysis; the column `metric` names the record."""
    groups = rows[rows["measure"].eq("top match")].groupby(["checkpoints", "interval", "split"], sort=False)
    ways = {f"{how}, {split}, over {over}": part for (how, over, split), part in groups}
    ways["Kendall, held out, test, over documents"] = rows.query(
        "measure == 'kendall' and split == 'test' and checkpoints == 'held out' and interval == 'documents'"
    )
    found = {way: part[part["metric"].eq(metric)] for way, part in ways.items()}
    return {way: part.assign(metric=part["record"]) for way, part in found.items()}


def _again(rows: pd.DataFrame) -> pd.Series:
    """Whether each row is of a data set that was trained again in bf16."""
    return rows["setting"].str.contains("bf16") & rows.groupby("task")["record"].transform("nunique").gt(1)


def _held_out(rows: pd.DataFrame) -> pd.DataFrame:
    if "accuracy" in rows:
        rows = rows[rows["accuracy"] == "tokens"]
    rows = rows.query("measure == 'top match' and split == 'test' and checkpoints == 'held out'")
    return rows[~_again(rows)]
