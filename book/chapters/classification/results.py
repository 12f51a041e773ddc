"""What the chapter on classification measures and records, once its models are trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Integer

from attnlib.generators.classification import Corpus, Documents
from attnlib.generators.classification.planted import CONFOUNDERS
from attnlib.generators.tokenizer import BOS, EOS
from attnlib.stats.agreement_tables import EMBEDDING, LOGISTIC, UNIFORM
from attnlib.stats.agreements import agreement, chance_agreement
from attnlib.stats.intervals import SHARE
from attnlib.stats.ragged import Ragged
from attnlib.stats.rank_measures import first_largest
from attnlib.stats.resampling import resampled_means
from book.chapters.dynamics import DynamicsResults

TOKEN_KINDS = ("keyword for the label", "keyword against it", "confounder", "filler", "<bos> or <eos>")
"""What a token of a planted document can be."""


@dataclass(frozen=True)
class ClassificationResults(DynamicsResults):
    """The same of a classifier; and, where it is known which words decide, whether scores find them."""

    UNIT: ClassVar[str] = "documents"

    corpus: Corpus

    @cached_property
    def compared(self) -> dict[str, Ragged]:
        """Every score of the words of test documents, at the checkpoint that it is compared at."""
        ours, even = self.here[self.gold], self.here[UNIFORM].scores("beta")
        found = {name: ours.scores(name).at(self.chosen["gold"]) for name in ("alpha", "beta", "delta")}
        found["beta_uf, as chosen for alpha"] = even.at(self.chosen["alpha, beta_uf"])
        found["beta_uf, last step"] = even.at(-1)
        lexical = [name for name in self.here if name in (EMBEDDING, LOGISTIC)]
        return found | {f"beta, {name}": self.here[name].scores("beta").at(0) for name in lexical}

    @cached_property
    def kinds(self) -> np.ndarray | None:
        """What every word of the test documents is, see `token_kinds`; `None` where it is not known."""
        test = self.corpus.test
        return None if test.relevance is None else token_kinds(self.corpus, test)

    @cached_property
    def largest(self) -> pd.DataFrame | None:
        """On what kind of word the largest of each score lies: see `largest_by_kind`."""
        return None if self.kinds is None else largest_by_kind(self.compared, self.kinds, TOKEN_KINDS)

    @cached_property
    def truth(self) -> pd.DataFrame | None:
        """How far each score agrees with the relevance that words truly have, and chance: a row per `x`."""
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
    """What each token of planted documents is: an index into `TOKEN_KINDS`."""
    assert documents.relevance is not None  # of `planted` it is known
    toward = documents.toward_label(documents.relevance).numpy()
    names = {word for side in CONFOUNDERS for word in side}
    words = np.array(corpus.vocabulary.words)[documents.tokens.numpy()]
    conditions = [toward > 0, toward < 0, np.isin(words, sorted(names)), np.isin(words, [BOS, EOS])]
    return np.select(conditions, [0, 1, 2, 4], 3)


def largest_by_kind(
    scores: Mapping[str, Ragged], kinds: Integer[np.ndarray, " token"], names: Sequence[str]
) -> pd.DataFrame:
    """On what kind of token the largest score of a document lies, and how many documents it is so in."""
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
