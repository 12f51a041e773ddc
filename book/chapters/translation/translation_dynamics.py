"""The chapter on how a translator's attention learns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import pandas as pd
import torch
from pydantic import Field, PrivateAttr, field_validator, model_validator

from attnlib.files import cache_folder
from attnlib.generators.translation import DATASETS, Bitext, Pairs, bitext, invented, lexicon
from attnlib.generators.translation.recipes import MAX_LENGTH, VOCABULARY, find
from attnlib.models import bag_of_words
from attnlib.models.seq2seq import Seq2Seq, Seq2SeqConfig, translation_loss, translation_scores
from attnlib.stats.agreement_runs import EMBEDDING, UNIFORM
from attnlib.stats.ragged import RunScores
from attnlib.training import Plan
from attnlib.training.keeping import Snapshots
from book.chapters.chapter import Chapter, Run, Setup, Trained
from book.chapters.dynamics import checkpoint_steps
from book.chapters.parameters import Count, Rate, Seed, Several, SeveralSeeds, Share, Text, refuse_moments
from book.chapters.refusals import refuse_scores_folder
from book.chapters.translation import figures, measures
from book.chapters.translation.tables import TranslationResults


@dataclass(frozen=True)
class TranslationRun(Run):
    """A translator, which may attend to all source tokens equally, or the word-translation model."""

    uniform: bool = False


class TranslationDynamics(Chapter):
    """Parameters, models and record of the chapter `translation_dynamics`."""

    data: Text
    folder: Text
    languages: Several[Text]
    train_sentences: Count
    validation_sentences: Count = Field(ge=10)
    test_sentences: Count = Field(ge=10)
    vocabulary: Count = Field(ge=5, le=200_000)
    max_length: Count = Field(ge=1)
    hidden: Count = Field(ge=1, le=4096)
    layers: Count = Field(ge=1, le=16)
    dropout: Share = Field(lt=1)
    context: Literal["added", "feed-forward"]
    steps: Count = Field(ge=1)
    every: Count = Field(ge=1)
    checkpoints: Several[Count]
    batch_size: Count = Field(ge=1)
    learning_rate: Rate
    lexical_epochs: Count = Field(ge=1)
    lexical_width: Count = Field(le=4096)
    lexical_batch_size: Count = Field(ge=1)
    seeds: SeveralSeeds
    uniform_seed: Seed
    measure: Literal["top match", "kendall", "spearman"]
    every_bleu: bool
    beam: Count = Field(ge=1, le=100)
    shown: Count = Field(ge=1, le=50)
    scores_folder: Text
    data_seed: Seed

    _bleu: dict[str, pd.DataFrame] = PrivateAttr(default_factory=dict)

    @field_validator("languages")
    @classmethod
    def _none_or_two(cls, codes: list[str]) -> list[str]:
        if codes and (len(codes) != 2 or codes[0] == codes[1]):
            raise ValueError(f"languages should be empty, or two different codes; got {codes}")
        return codes

    @model_validator(mode="after")
    def _possible(self) -> TranslationDynamics:
        refuse_moments(self.checkpoints, self.steps)
        refuse_scores_folder(self.scores_folder)
        if self.data.lower() == "invented":
            nothing = {"folder": "", "languages": [], "vocabulary": VOCABULARY, "max_length": MAX_LENGTH}
            given = [name for name, value in nothing.items() if getattr(self, name) != value]
            if given:
                raise ValueError(f"{', '.join(given)} cannot be given for invented, which is made, not read")
            return self
        try:
            _, recipe, _ = find(self.data, self.folder or None)
        except FileNotFoundError as error:
            raise ValueError(str(error)) from None
        if recipe is None and not self.languages:
            raise ValueError("languages should be the codes of source and target in a folder of your own")
        return self

    @property
    def label(self) -> str:
        """The data set's name in code."""
        return self.data

    @property
    def name(self) -> str:
        """The data set's name in the paper's table, with its languages where they are not the study's."""
        recipe = DATASETS.get(self.data.lower())
        if recipe is None or not self.languages or tuple(self.languages) == recipe.languages:
            return recipe.title if recipe else self.data
        return f"{recipe.title.removesuffix('-'.join(recipe.languages)).strip()} {'-'.join(self.languages)}"

    # ---- sentences -----------------------------------------------------------------------------------

    @cached_property
    def bitext(self) -> Bitext:
        """The sentences and their translations."""
        sizes: Any = self.model_dump(include={"validation_sentences", "test_sentences"})
        if self.data.lower() == "invented":
            return invented(train_sentences=self.train_sentences or 8000, **sizes, seed=self.data_seed)
        return bitext(
            self.data,
            self.folder or None,
            languages=(self.languages[0], self.languages[1]) if self.languages else None,
            vocabulary=self.vocabulary,
            max_length=self.max_length,
            train_sentences=self.train_sentences or None,
            **sizes,
            seed=self.data_seed,
            cache=cache_folder(),
        )

    @cached_property
    def sentences(self) -> dict[str, Pairs]:
        """The sentences that are scored, by split; as many of training as of validation."""
        data = self.bitext
        part = data.train.sample(len(data.validation), self.data_seed)
        return {"train": part, "validation": data.validation, "test": data.test}

    @property
    def words(self) -> dict[str, dict[str, list[str]]]:
        """The names of the source and target token of every pair, by split."""
        tokens = self.bitext.subwords.tokens
        return {
            split: {
                "source": tokens(pairs.source_of_pair.tolist()),
                "target": tokens(pairs.target_of_pair.tolist()),
            }
            for split, pairs in self.sentences.items()
        }

    # ---- models --------------------------------------------------------------------------------------

    @property
    def moments(self) -> tuple[int, ...]:
        """The numbers of updates after which models are examined."""
        return checkpoint_steps(self.steps, self.every, (0, *self.checkpoints))

    def runs(self) -> list[TranslationRun]:
        """Every translator to train: the explained one, those compared with it, and the uniform one."""
        seeds = [TranslationRun(f"seed {seed}", seed) for seed in self.seeds]
        return [*seeds, TranslationRun(UNIFORM, self.uniform_seed, uniform=True)]

    def setup(self, run: TranslationRun) -> Setup:
        """A translator, and the training sentences in an order of its own."""
        data, held_out = self.bitext, self.sentences["validation"].in_batches()
        torch.manual_seed(run.seed)
        if run.name == EMBEDDING:
            return self._word_translation(run)
        sizes: Any = self.model_dump(include={"hidden", "layers", "dropout", "context"})
        config = Seq2SeqConfig(len(data.subwords), uniform=run.uniform, **sizes)
        return Setup(
            Seq2Seq(config),
            data.train.batches(self.batch_size, run.seed),
            translation_loss,
            Plan(
                steps=self.steps,
                learning_rate=self.learning_rate,
                evaluate_every=self.every,
                seed=run.seed,
                device=self.device,
            ),
            held_out,
            translation_scores,
            [Snapshots(self.moments)],
        )

    def _word_translation(self, run: TranslationRun) -> Setup:
        data, held_out = self.bitext, self.sentences["validation"].in_batches(256)
        per_epoch = max(1, len(data.train) // self.lexical_batch_size)
        width = self.lexical_width or min(256, 4 * self.hidden)
        return Setup(
            bag_of_words.WordTranslation(bag_of_words.BagConfig(len(data.subwords), width)),
            data.train.batches(self.lexical_batch_size, run.seed),
            bag_of_words.word_translation_loss,
            Plan(  # with the original's learning rate, 0.001
                steps=self.lexical_epochs * per_epoch,
                evaluate_every=per_epoch,
                metric="cross_entropy",
                higher_is_better=False,
                seed=run.seed,
                device=self.device,
            ),
            held_out,
            bag_of_words.word_translation_scores,
        )

    def model_at(self, run: str) -> Callable[[int], Seq2Seq]:
        """Return a function that loads the model of a trained run at a step."""
        snapshots = self.kept(run)
        return lru_cache(maxsize=32)(lambda step: snapshots.at(step).to(self.torch_device))

    # ---- what is measured ----------------------------------------------------------------------------

    def scores(self, split: str) -> dict[str, RunScores]:
        """Scores of every source token for every target token of a split, in each run at each checkpoint.

        Gradient influence is computed only at the best checkpoints, by accuracy or BLEU on this split or on
        validation sentences.
        """
        pairs, found = self.sentences[split], {}
        for run, trained in self.trained.items():
            if run == EMBEDDING:
                model: Any = trained.model
                found[run] = measures.word_translation_run(model, pairs)
                continue
            assert trained.history.folder is not None  # every trained model has a folder
            folder = trained.history.folder / "tokens"
            look = functools.partial(
                measures.translation_run, self.model_at(run), self.moments, folder=folder
            )
            if run == UNIFORM:
                found[run] = look(pairs)
                continue
            right = [each.right for each in (look(pairs), look(self.sentences["validation"]))]
            best = {int(each.mean(1).argmax()) for each in right if each is not None}
            best |= {int(self.bleu(each)[run].to_numpy().argmax()) for each in (split, "validation")}
            found[run] = look(pairs, delta_at=[self.moments[at] for at in best])
        return found

    def bleu(self, split: str) -> pd.DataFrame:
        """BLEU of every translator at every checkpoint, in percent: a column per run, a row per step."""
        if split not in self._bleu:
            pairs, data, table = self.sentences[split], self.bitext, pd.DataFrame()
            for run in self.runs():
                models = map(self.model_at(run.name), self.moments)
                table[run.name] = [measures.bleu(model, pairs, data.subwords, self.beam) for model in models]
            self._bleu[split] = table.set_index(pd.Index(self.moments, name="step"))
        return self._bleu[split]

    def translated(self, run: str, at: int) -> list[str]:
        """The test sentences as a run translates them at its checkpoint number `at`."""
        model, data = self.model_at(run)(self.moments[at]), self.bitext
        return measures.translations(model, data.test, data.subwords, self.beam)

    @cached_property
    def results(self) -> TranslationResults:
        """The results, once all runs and the word-translation model are trained."""
        found = {split: self.scores(split) for split in self.sentences}
        bleu = {split: self.bleu(split) for split in found}
        return TranslationResults(
            found, self.measure, self.bitext, bleu, self.translated, every_bleu=self.every_bleu
        )

    def rows(self) -> pd.DataFrame:
        """The rows to record."""
        return self.results.rows().assign(task=self.name, setting=self.setting)

    def explored(self) -> Mapping[str, Mapping[str, Any]]:
        """The explorer's data of the first test sentences, in the explained run."""
        rows = range(min(self.shown, len(self.bitext.test)))
        at, even = self.model_at(self.runs()[0].name), self.model_at("uniform")
        return figures.sentences_over_training(self.bitext, rows, at, self.moments, even, self.meanings)

    def read(self, text: str) -> Mapping[str, Any]:
        """The explorer's data of a reader's sentence."""
        at, even = self.model_at(self.runs()[0].name), self.model_at("uniform")
        return figures.text_over_training(self.bitext, text, at, self.moments, even, self.meanings)

    @property
    def meanings(self) -> dict[str, str]:
        """The English meaning of every invented word; empty for real languages."""
        return lexicon().meanings if self.data.lower() == "invented" else {}

    @property
    def setting(self) -> str:
        """The set-up in words, for tables."""
        data, joined = self.bitext, {"added": "context added", "feed-forward": ""}[self.context]
        said = [
            data.about["differs"],
            f"{len(data.train):,} training and {len(data.test):,} test sentences",
            f"{self.steps:,} steps of {self.batch_size}",
            f"{len(self.seeds)} seeds",
            f"hidden {self.hidden}, {self.layers} layer{'s' * (self.layers > 1)}, dropout {self.dropout:g}",
            f"vocabulary {len(data.subwords):,}",
            joined,
            self.measure if self.measure != "top match" else "",
        ]
        return "; ".join(part for part in said if part)

    def embedding(self) -> Trained:
        """The word-translation model, trained."""
        return self.train(TranslationRun(EMBEDDING, self.uniform_seed))
