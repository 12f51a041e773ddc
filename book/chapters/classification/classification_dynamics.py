"""The chapter on how a classifier's attention learns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch
from pydantic import Field, field_validator, model_validator

from attnlib.generators.classification import DATASETS, Corpus, Documents, Planting, corpus, planted
from attnlib.generators.classification.recipes import find
from attnlib.models.classifier import Classifier, ClassifierConfig, document_loss, document_scores
from attnlib.stats import RunScores
from attnlib.training import Plan
from attnlib.training.keeping import Snapshots
from book.chapters.chapter import Chapter, Run, Setup
from book.chapters.classification import measures
from book.chapters.classification.measures import Lexical
from book.chapters.classification.tables import ClassificationResults
from book.chapters.dynamics import EARLY, checkpoint_steps
from book.chapters.parameters import Count, Rate, Seed, Several, SeveralSeeds, Share, Text, refuse_moments
from book.chapters.records import paper_figures
from book.chapters.refusals import refuse_scores_folder


@dataclass(frozen=True)
class DynamicsRun(Run):
    """A classifier; with `uniform`, its attention is held uniform."""

    uniform: bool


class ClassificationDynamics(Chapter):
    """Parameters, models and record of the chapter `classification_dynamics`."""

    data: Text
    folder: Text
    classes: Several[Text]
    train_documents: Count
    validation_documents: Count = Field(ge=20)
    test_documents: Count = Field(ge=20)
    max_length: Count
    difficulty: Share
    confounding: Share
    embedding: Count = Field(ge=1, le=4096)
    hidden: Count = Field(ge=1, le=4096)
    steps: Count = Field(ge=1)
    every: Count = Field(ge=1)
    checkpoints: Several[Count]
    batch_size: Count = Field(ge=1)
    learning_rate: Rate
    precision: Literal["float32", "bf16"]
    lexical_epochs: Count = Field(ge=1)
    lexical_learning_rate: Rate
    lexical_width: Count = Field(ge=1, le=4096)
    lexical_batch_size: Count = Field(ge=1)
    seeds: SeveralSeeds
    uniform_seed: Seed
    measure: Literal["top match", "kendall", "spearman"]
    shown: Count = Field(ge=1, le=50)
    scores_folder: Text
    data_seed: Seed

    @field_validator("data")
    @classmethod
    def _in_any_case(cls, data: str) -> str:
        return data.lower() if data.lower() in ("planted", *DATASETS) else data

    @field_validator("classes")
    @classmethod
    def _none_or_two(cls, classes: list[str]) -> list[str]:
        if len(set(classes)) not in (0, 2) or len(classes) > 2:
            raise ValueError(f"classes should be empty, or two different labels; got {classes}")
        return classes

    @model_validator(mode="before")
    @classmethod
    def _named_by_its_folder(cls, given: Any) -> Any:
        """Name a reader's own data after their folder where `data` is left at its default."""
        if isinstance(given, dict) and given.get("folder") and given.get("data") == "planted":
            return given | {"data": Path(str(given["folder"])).stem}
        return given

    @model_validator(mode="after")
    def _possible(self) -> ClassificationDynamics:
        refuse_moments(self.checkpoints, self.steps)
        refuse_scores_folder(self.scores_folder)
        if self.data == "planted":
            given = [name for name in ("folder", "classes", "max_length") if getattr(self, name)]
            if given:
                raise ValueError(f"{', '.join(given)} cannot be given for planted, which is made, not read")
            return self
        own = Planting()
        given = [name for name in ("difficulty", "confounding") if getattr(self, name) != getattr(own, name)]
        if given:
            raise ValueError(f"{', '.join(given)} cannot be given for {self.data}, which is read, not made")
        try:
            find(self.data, self.folder or None)
        except FileNotFoundError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def label(self) -> str:
        """The data set's name in code."""
        return self.data

    @property
    def name(self) -> str:
        """The data set's name as the paper's table has it."""
        titles = {task.partition(":")[0] for task in paper_figures()["task"]}
        known = {title.lower(): title for title in titles} | {each: DATASETS[each].title for each in DATASETS}
        return known.get(self.data.lower(), self.data)

    @cached_property
    def corpus(self) -> Corpus:
        """The documents."""
        if self.data == "planted":
            return planted(
                Planting(difficulty=self.difficulty, confounding=self.confounding),
                train_documents=self.train_documents or 4000,
                validation_documents=self.validation_documents,
                test_documents=self.test_documents,
                seed=self.data_seed,
            )
        return corpus(
            self.data,
            self.folder or None,
            classes=(self.classes[0], self.classes[1]) if self.classes else None,
            max_length=self.max_length or None,
            train_documents=self.train_documents or None,
            test_documents=self.test_documents,
            seed=self.data_seed,
        )

    @cached_property
    def looked_at(self) -> dict[str, Documents]:
        """The documents whose words are scored, by split; as many of training as of validation."""
        n, data = self.validation_documents, self.corpus
        sampled = {"train": data.train, "validation": data.validation}
        return {split: part.sample(n, self.data_seed) for split, part in sampled.items()} | {
            "test": data.test
        }

    @property
    def words(self) -> dict[str, dict[str, list[str]]]:
        """The words of the tokens, by split."""
        return {
            split: {"word": [word for row in range(len(part)) for word in part.words(row)]}
            for split, part in self.looked_at.items()
        }

    @property
    def moments(self) -> tuple[int, ...]:
        """The numbers of updates after which models are examined."""
        return checkpoint_steps(self.steps, self.every, (*EARLY, *self.checkpoints))

    # ---- models --------------------------------------------------------------------------------------

    def runs(self) -> list[DynamicsRun]:
        """Every model to train: first the one that is explained, last the one with uniform attention."""
        attending = [DynamicsRun(f"seed {seed}", seed, uniform=False) for seed in self.seeds]
        return [*attending, DynamicsRun("uniform", self.uniform_seed, uniform=True)]

    def setup(self, run: DynamicsRun) -> Setup:
        """A classifier that is stored at every checkpoint, and the documents it learns from."""
        torch.manual_seed(run.seed)
        sizes = {"embedding": self.embedding, "hidden": self.hidden, "intermediate": self.hidden}
        model = Classifier(ClassifierConfig(len(self.corpus.vocabulary), uniform=run.uniform, **sizes))
        plan = Plan(
            steps=self.steps,
            learning_rate=self.learning_rate,
            evaluate_every=self.every,
            seed=run.seed,
            device=self.device,
            precision=self.precision,
        )
        batches = self.corpus.train.batches(self.batch_size, run.seed)
        kept = [Snapshots(self.moments)]
        validation = self.looked_at["validation"].in_batches()
        return Setup(model, batches, document_loss, plan, validation, document_scores, kept)

    @cached_property
    def lexical(self) -> dict[str, Lexical]:
        """The models that ignore word order: an embedding-only model, and logistic regression."""
        known = (self.corpus.train, self.looked_at["validation"], len(self.corpus.vocabulary))
        bag = measures.train_bag_of_embeddings(
            *known,
            width=self.lexical_width,
            batch_size=self.lexical_batch_size,
            epochs=self.lexical_epochs,
            learning_rate=self.lexical_learning_rate,
            device=self.device,
            chapter=self.notebook,
        )
        return {"embedding": bag, "logistic": measures.logistic_regression(*known)}

    def scores(self, split: str) -> dict[str, RunScores]:
        """The scores of a split's words in each trained model at each checkpoint, and in `lexical`."""
        documents = self.looked_at[split]
        found = {
            run.name: measures.scores_at_checkpoints(
                self.kept(run.name), documents, not run.uniform, self.torch_device
            )
            for run in self.runs()
        }
        return found | {
            name: measures.lexical_scores(model, documents) for name, model in self.lexical.items()
        }

    @cached_property
    def results(self) -> ClassificationResults:
        """The results, once all runs are trained."""
        scores = {split: self.scores(split) for split in self.looked_at}
        return ClassificationResults(scores, self.measure, self.corpus)

    def rows(self) -> pd.DataFrame:
        """The rows to record."""
        return self.results.rows().assign(task=self.name, setting=self.setting)

    @property
    def setting(self) -> str:
        """The set-up in words, for tables."""
        data = self.corpus
        made = f"difficulty {self.difficulty:g}, confounding {self.confounding:g}"
        said = [
            made if self.data == "planted" else data.about["differs"],
            f"{len(data.train):,} training documents",
            f"first {self.max_length} words ({100 * data.about['cut']:.0f} % of the documents are longer)"
            if self.max_length
            else "",
            f"{self.steps:,} steps",
            f"{len(self.seeds)} seeds",
            f"embedding {self.embedding}, hidden {self.hidden}",
            "bf16" * (self.precision == "bf16"),
        ]
        return "; ".join(part for part in said if part)
