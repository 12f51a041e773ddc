"""Parameters of the chapter on how a classifier's attention learns."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from attnlib.chapters.base import Chapter
from attnlib.generators.classification import (
    DATASETS,
    Corpus,
    Documents,
    Planting,
    corpus,
    planted,
)
from attnlib.generators.classification.sources import find_folder, unknown_name
from attnlib.measures.relevance import checkpoint_steps, fingerprint
from attnlib.models.classifier import Classifier, ClassifierConfig
from attnlib.training.plan import Plan


class ClassificationDynamics(Chapter):
    """Parameters of the chapter `classification_dynamics`."""

    data: str
    folder: str
    classes: list[str]
    train_documents: int = Field(ge=0)
    validation_documents: int = Field(ge=20)
    test_documents: int = Field(ge=20)
    max_length: int = Field(ge=0)
    difficulty: float = Field(ge=0, le=1)
    confounding: float = Field(ge=0, le=1)
    embedding: int = Field(ge=1, le=4096)
    hidden: int = Field(ge=1, le=4096)
    steps: int = Field(ge=1)
    every: int = Field(ge=1)
    batch_size: int = Field(ge=1)
    learning_rate: float = Field(gt=0, le=1)
    lexical_epochs: int = Field(ge=1)
    seeds: list[int] = Field(min_length=2)
    uniform_seed: int = Field(ge=0)
    measure: Literal["top match", "kendall", "spearman"]
    shown: int = Field(ge=1, le=50)
    data_seed: int = Field(ge=0)

    @field_validator("classes")
    @classmethod
    def _none_or_two(cls, classes: list[str]) -> list[str]:
        if len(set(classes)) not in (0, 2) or len(classes) > 2:
            raise ValueError(f"classes should be empty, or two different labels; got {classes}")
        return classes

    @field_validator("seeds")
    @classmethod
    def _different(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise ValueError(f"seeds should be different numbers from 0; got {seeds}")
        return seeds

    @model_validator(mode="after")
    def _possible(self) -> ClassificationDynamics:
        if self.data == "planted":
            given = [name for name in ("folder", "classes", "max_length") if getattr(self, name)]
            if given:
                raise ValueError(f"{', '.join(given)} cannot be given for planted, which is made, not read")
            return self
        try:
            found = find_folder(self.data, self.folder or None)
        except FileNotFoundError as error:
            raise ValueError(str(error)) from None
        if found is None and self.data not in DATASETS:
            raise unknown_name(self.data, ["planted", *DATASETS])
        return self

    @property
    def label(self) -> str:
        """The data set's name in code."""
        return self.data

    @property
    def name(self) -> str:
        """The data set's name as the paper's table has it."""
        return DATASETS[self.data].title if self.data in DATASETS else self.data

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

    def looked_at(self, data: Corpus) -> dict[str, Documents]:
        """The documents whose words are looked at during training; as many of train as of validation."""
        return {
            "train": data.train.sample(self.validation_documents, self.data_seed),
            "validation": data.validation.sample(self.validation_documents, self.data_seed),
            "test": data.test,
        }

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """When they are looked at, as updates made."""
        return checkpoint_steps(self.steps, self.every)

    def model(self, data: Corpus, uniform: bool) -> Classifier:
        """A new model; its weights come from torch's global generator."""
        sizes = {"embedding": self.embedding, "hidden": self.hidden, "intermediate": self.hidden}
        return Classifier(ClassifierConfig(len(data.vocabulary), uniform=uniform, **sizes))

    def plan(self, data: Corpus, uniform: bool, seed: int) -> Plan:
        """How the model of a run is trained."""
        seen = {"all": data.train, **self.looked_at(data)}
        return Plan(
            steps=self.steps,
            learning_rate=self.learning_rate,
            evaluate_every=self.every,
            seed=seed,
            device=self.device,
            about={
                "documents": {name: fingerprint(documents) for name, documents in seen.items()},
                "uniform": uniform,
                "batch_size": self.batch_size,
            },
        )

    def runs(self) -> dict[str, tuple[bool, int]]:  # type: ignore[override]
        """Every model to train, by what it is called: whether its attention is uniform, and its seed."""
        seeds = {f"seed {seed}": (False, seed) for seed in self.seeds}
        return seeds | {"uniform": (True, self.uniform_seed)}

    def setting(self, data: Corpus) -> str:
        """The set-up in words, for tables."""
        made = f"difficulty {self.difficulty:g}, confounding {self.confounding:g}"
        said = [
            made if self.data == "planted" else data.about["differs"],
            f"{len(data.train):,} training documents",
            f"first {self.max_length} words" * bool(self.max_length),
            f"{self.steps:,} steps",
            f"{len(self.seeds)} seeds",
            f"embedding {self.embedding}, hidden {self.hidden}",
        ]
        return "; ".join(part for part in said if part)
