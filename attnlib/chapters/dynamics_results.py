"""What the chapters on how attention learns measure and record, once their models are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd

from attnlib.generators.classification import Corpus
from attnlib.generators.translation import Bitext
from attnlib.measures.token_kinds import TOKEN_KINDS, token_kinds
from attnlib.measures.translated import translation_quality
from attnlib.measures.translation_runs import with_bleu
from attnlib.stats.agreement_results import agreement_table, agreement_tables
from attnlib.stats.agreement_runs import EMBEDDING, LOGISTIC, UNIFORM, AgreementSettings
from attnlib.stats.agreements import agreement, chance_agreement
from attnlib.stats.alignment import alignment_rows, alignment_table
from attnlib.stats.ragged import Ragged, RunScores
from attnlib.stats.stages import chosen_checkpoints, largest_by_kind, two_stages

Tables = dict[tuple[str, ...], pd.DataFrame]


@dataclass(frozen=True)
class DynamicsResults:
    """Agreements of attention with relevance, and the two stages.

    Attributes:
        scores: of every run, on the splits "train", "validation" and "test"; the first run is explained.
        measure: of agreement.
    """

    UNIT: ClassVar[str]
    LEVELS: ClassVar[tuple[str, ...]] = ("measure", "split", "checkpoints", "interval")
    FLIP_DELTA: ClassVar[bool] = True
    BESIDE: ClassVar[tuple[str, ...]] = ()  # what a way of counting is called by further `LEVELS`

    scores: Mapping[str, Mapping[str, RunScores]]
    measure: str

    @property
    def here(self) -> Mapping[str, RunScores]:
        """What is reported on."""
        return self.scores["test"]

    @property
    def settings(self) -> AgreementSettings:
        """How agreement is measured, with checkpoints chosen on validation."""
        return AgreementSettings(measure=self.measure)

    @property
    def gold(self) -> str:
        """The run whose attention is explained."""
        return next(iter(self.here))

    @cached_property
    def chosen(self) -> dict[str, int]:
        """The checkpoints that validation chooses: see `chosen_checkpoints`."""
        return chosen_checkpoints(self.here, self.scores["validation"], settings=self.settings)

    @cached_property
    def stages(self) -> pd.DataFrame:
        """Relevance and attention over training: see `two_stages`."""
        return two_stages(self.here, self.scores["validation"], settings=self.settings)

    @cached_property
    def ways(self) -> Tables:
        """All agreements, by split, how checkpoints were chosen, and what is drawn again."""
        return self._ways(self.measure)

    @property
    def over_units(self) -> pd.DataFrame:
        """The agreements on test, with checkpoints chosen on validation."""
        return self.ways["test", "held out", self.UNIT]

    @property
    def chance(self) -> float:
        """The agreement with shuffled attention."""
        return self.over_units.set_index("metric")["value"]["A_hat"]

    def rows(self) -> pd.DataFrame:
        """What is recorded: `LEVELS`, `metric`, `value`, `low`, `high` and `n`; not what is infinite."""
        tables = self._named(self.measure, self.ways)
        here = self.measure, "test", "held out", self.UNIT, *self.BESIDE
        tables[here] = pd.concat([tables[here], at_steps(self.stages), *self._further()])
        tables |= self._beside()
        for other in ("top match", "kendall"):
            if other != self.measure:
                tables |= self._named(other, self._ways(other))
        levels = list(self.LEVELS)
        rows = pd.concat(tables, names=levels).reset_index(levels)
        return rows[rows["value"] < float("inf")]

    def _ways(self, measure: str) -> Tables:
        ways = agreement_tables(self.scores, measure, unit=self.UNIT, flip_delta=self.FLIP_DELTA)
        return {(*way,): table for way, table in ways.items()}

    def _named(self, measure: str, ways: Tables) -> Tables:
        return {(measure, *way, *self.BESIDE): table for way, table in ways.items()}

    def _further(self) -> list[pd.DataFrame]:
        """What else there is on test, with checkpoints chosen on validation."""
        return []

    def _beside(self) -> Tables:
        """What else there is, by `LEVELS`."""
        return {}


@dataclass(frozen=True)
class ClassificationResults(DynamicsResults):
    """The same of a classifier; and, where it is known which words decide, whether scores find them.

    Attributes:
        corpus: the documents.
    """

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


@dataclass(frozen=True)
class TranslationResults(DynamicsResults):
    """The same of a translator, in token accuracy and in BLEU; and, where it is known, of alignment.

    Attributes:
        bitext: the sentences.
        bleu: of every translator at every checkpoint, in percent, on "validation" and "test".
        translated: the whole test set as a run translates it at a checkpoint.
    """

    UNIT: ClassVar[str] = "sentences"
    LEVELS: ClassVar[tuple[str, ...]] = (*DynamicsResults.LEVELS, "accuracy")
    FLIP_DELTA: ClassVar[bool] = False
    BESIDE: ClassVar[tuple[str, ...]] = ("tokens",)

    bitext: Bitext
    bleu: Mapping[str, pd.DataFrame]
    translated: Callable[[str, int], list[str]]

    @cached_property
    def quality(self) -> pd.DataFrame:
        """Whole translations of the run explained and of the uniform one: see `translation_quality`."""
        references, at = [target for _, target in self.bitext.test.texts], self.chosen["gold"]
        written = {name: self.translated(name, at) for name in (self.gold, UNIFORM)}
        tables = [translation_quality(texts, references).assign(run=name) for name, texts in written.items()]
        return pd.concat(tables)

    @cached_property
    def looked_at(self) -> dict[str, Ragged]:
        """Every score of the source tokens of test sentences, at the checkpoint that it is compared at."""
        at, ours = self.chosen["gold"], self.here[self.gold]
        found = {name: ours.scores(name).at(at) for name in ("alpha", "beta", "delta")}
        found["beta_uf, last step"] = self.here[UNIFORM].scores("beta").at(-1)
        found["beta_px"] = self.here[EMBEDDING].scores("beta").at(0)
        others = [name for name in self.here if name not in (self.gold, UNIFORM, EMBEDDING)]
        return found | {f"alpha, {name}": self.here[name].scores("alpha").at(at) for name in others}

    @cached_property
    def truth(self) -> pd.DataFrame | None:
        """How each score aligns: see `alignment_table`; `None` where the true alignment is not known."""
        return self.aligned(self.looked_at)

    def aligned(self, scores: Mapping[str, Ragged]) -> pd.DataFrame | None:
        """The same of other scores of the test sentences."""
        test = self.bitext.test
        if test.alignment is None:
            return None
        return alignment_table(alignment_rows(scores, test.alignment.numpy(), test.sentences.numpy()))

    @cached_property
    def in_bleu(self) -> pd.DataFrame:
        """The agreements on test with accuracy in BLEU, with checkpoints chosen on validation."""
        return agreement_table(self._by_bleu("test"), self._by_bleu("validation"), settings=self.settings)

    def _by_bleu(self, split: str) -> dict[str, RunScores]:
        found, bleu = self.scores[split], self.bleu[split]
        in_bleu = {name: with_bleu(run, bleu[name].tolist()) for name, run in found.items() if name in bleu}
        return {**found, **in_bleu}

    def _further(self) -> list[pd.DataFrame]:
        run = self.quality["run"].replace(self.gold, "first seed")
        whole = self.quality.assign(metric=run + ": " + self.quality["metric"])
        for end in ("value", "low", "high"):
            whole[end] = whole[end] / 100
        whole = whole[["metric", "value", "low", "high", "n"]]
        if self.truth is None:
            return [whole]
        named = self.truth["score"] + ": " + self.truth["metric"]
        return [self.truth.assign(metric=named).drop(columns="score"), whole]

    def _beside(self) -> Tables:
        original = AgreementSettings(measure=self.measure, as_published=True, flip_delta=self.FLIP_DELTA)
        published = agreement_table(self._by_bleu("test"), settings=original)
        return {
            (self.measure, "test", how, self.UNIT, "BLEU"): table
            for how, table in {"held out": self.in_bleu, "as published": published}.items()
        }


def at_steps(stages: pd.DataFrame) -> pd.DataFrame:
    """The two stages with the step in the name of the metric."""
    at_step = "step " + stages["step"].astype(str) + ": " + stages["metric"]
    return stages.assign(metric=at_step).drop(columns="step")
