"""The results and records of the chapter on translation, once its models are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import ClassVar

import pandas as pd

from attnlib.generators.translation import Bitext
from attnlib.stats.agreement_runs import EMBEDDING, UNIFORM, AgreementSettings
from attnlib.stats.agreement_tables import Agreements
from attnlib.stats.ragged import Ragged, RunScores
from book.chapters.dynamics import MEASURES, DynamicsResults, Tables
from book.chapters.translation.alignment import alignment_rows, alignment_table, target_offsets
from book.chapters.translation.measures import translation_quality, with_bleu


@dataclass(frozen=True)
class TranslationResults(DynamicsResults):
    """The results of a translator, in token accuracy and BLEU, and on alignment where it is known.

    Attributes:
        bleu: BLEU of every translator at every checkpoint, in percent, on the same splits as `scores`.
        translated: returns the translations of the test set, given a run and a checkpoint.
        every_bleu: whether accuracy in BLEU is also recorded for training sentences and by other measures.
    """

    UNIT: ClassVar[str] = "sentences"
    LEVELS: ClassVar[tuple[str, ...]] = (*DynamicsResults.LEVELS, "accuracy")
    FLIP_DELTA: ClassVar[bool] = False
    BESIDE: ClassVar[tuple[str, ...]] = ("tokens",)

    bitext: Bitext
    bleu: Mapping[str, pd.DataFrame]
    translated: Callable[[str, int], list[str]]
    every_bleu: bool = False

    @cached_property
    def quality(self) -> pd.DataFrame:
        """The quality of translations by the explained run and the uniform one: see `translation_quality`."""
        references, at = [target for _, target in self.bitext.test.texts], self.chosen["gold"]
        written = {name: self.translated(name, at) for name in (self.gold, UNIFORM)}
        tables = [translation_quality(texts, references).assign(run=name) for name, texts in written.items()]
        return pd.concat(tables)

    @cached_property
    def looked_at(self) -> dict[str, Ragged]:
        """Every score of the source tokens of test sentences, at the checkpoint used for the comparison."""
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
        """`alignment_table` of other scores of the test sentences; `None` where the alignment is unknown."""
        test = self.bitext.test
        if test.alignment is None:
            return None
        return alignment_table(alignment_rows(scores, test.alignment.numpy(), test.sentences.numpy()))

    def error_over_training(self) -> pd.DataFrame | None:
        """The alignment error rate of every translator's attention, a `metric` each, at every `step`."""
        runs = [name for name in self.here if name not in (UNIFORM, EMBEDDING)]
        found = []
        for name in runs:
            attention, steps = self.here[name].scores("alpha"), self.here[name].steps
            table = self.aligned({str(step): attention.at(place) for place, step in enumerate(steps)})
            if table is None:
                return None
            error = table.query("metric == 'AER' and score != 'any token'")
            found.append(error.assign(metric=name, step=error["score"].astype(int)).drop(columns="score"))
        return pd.concat(found, ignore_index=True)

    def missed_words(self) -> pd.DataFrame | None:
        """The eight target words whose largest attention is most often off the right source token.

        Only words that occur at least ten times: how often (`n`), and the shares one place off and further.
        """
        data, test = self.bitext, self.bitext.test
        if test.alignment is None:
            return None
        words = pd.DataFrame({"target word": data.subwords.tokens(test.predicted.tolist())})
        words["away"] = abs(target_offsets(self.looked_at["alpha"], test.alignment.numpy()))
        words = words.dropna().assign(one=words["away"].eq(1), further=words["away"].gt(1))
        off = words.groupby("target word").agg(
            n=("one", "size"), one=("one", "mean"), further=("further", "mean")
        )
        wrong = off["one"] + off["further"]
        wrong = wrong[off["n"].ge(10) & wrong.gt(0)].nlargest(8)
        return off.loc[wrong.index].rename(columns={"one": "one off"}).reset_index()

    @cached_property
    def in_bleu(self) -> Tables:
        """The agreements with accuracy in BLEU, by `LEVELS`, as `_beside` records them."""
        wanted = {(self.measure, "test")}
        if self.every_bleu:
            wanted |= set(product({self.measure, *MEASURES}, ("test", "train")))
        found: Tables = {}
        for measure, split in sorted(wanted):
            here, chosen_on = self._by_bleu(split), self._by_bleu("validation")
            original = AgreementSettings(measure=measure, as_published=True, flip_delta=self.FLIP_DELTA)
            tables = {
                "held out": Agreements.of(here, chosen_on, settings=AgreementSettings(measure=measure)),
                "as published": Agreements.of(here, settings=original),
            }
            for how, agreements in tables.items():
                found[measure, split, how, self.UNIT, "BLEU"] = agreements.table()
        return found

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
        return self.in_bleu
