"""The chapter on quantifying attention flow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import torch
from pydantic import Field, field_validator, model_validator
from torch import nn

from attnlib.files import cache_folder
from attnlib.generators.classification import Vocabulary, corpus, split_words
from attnlib.measures import sample_scores
from attnlib.models.transformer import Transformer, TransformerConfig
from attnlib.training import Plan, token_loss
from book.chapters.chapter import Chapter, Run, Setup
from book.chapters.flow.agreement import (
    Sentence,
    SentenceTask,
    TokenizedTask,
    gulordava,
    linzen,
    templates,
    vocabulary_of,
)
from book.chapters.flow.measures import (
    FLOW,
    OVER_NULL,
    RAW,
    ROLLOUT,
    SLIPS,
    agreement_rows,
    subject_rows,
)
from book.chapters.flow.text_classifier import TextClassifier, load_text_classifier
from book.chapters.parameters import Count, Rate, Seeds, Several, Text, among
from book.chapters.refusals import refuse_model_name

TEMPLATES, LINZEN, SST = "templates", "linzen", "sst"
CORPORA = (TEMPLATES, LINZEN, SST)

VALIDATED, TESTED = 500, 1000
"""The numbers of sentences for choosing the best checkpoint, and for testing accuracy."""

MIXED = 2000
"""The number of templates added to Linzen's sentences, so that the model does not forget the grammar."""

LONGEST = 100
"""Words that a model can read at most."""

UNKNOWN = {TEMPLATES: 0.05, LINZEN: 0.1, SST: 0.1}
"""The share of words replaced by `<unk>` in training, so that models know sentences with a gap."""

DROPOUT = {TEMPLATES: 0.1, LINZEN: 0.2, SST: 0.2}


@dataclass(frozen=True)
class FlowRun(Run):
    """A model of the sentences of one of `CORPORA`.

    Attributes:
        causal: whether the model sees earlier words only, and predicts at the last one.
        untrained: whether the model keeps its initial weights, as a baseline.
        pretrained: whether the model is the reader's `classifier`.
    """

    data: str
    causal: bool = False
    untrained: bool = False
    pretrained: bool = False

    @property
    def ways(self) -> tuple[str, ...]:
        """The methods applied to the model's attention."""
        return (RAW, ROLLOUT, FLOW, OVER_NULL) if self.causal else (RAW, ROLLOUT, FLOW)


class QuantifyingFlow(Chapter):
    """Parameters, models and record of the chapter `quantifying_flow`."""

    corpora: Several[Annotated[str, among(CORPORA)]] = Field(min_length=1)
    seeds: Seeds
    looks_back: bool
    sentences: Count = Field(ge=10, le=TESTED)
    slip_sentences: Count = Field(ge=10, le=TESTED)
    sentence: Text
    n_layers: Count = Field(ge=1, le=24)
    n_heads: Count = Field(ge=1, le=32)
    width: Count = Field(ge=8, le=2048)
    training_sentences: Count = Field(ge=100)
    steps: Count = Field(ge=10)
    more_steps: Count = Field(ge=10)
    batch_size: Count = Field(ge=1, le=100)
    learning_rate: Rate
    more_rate: Rate
    classifier: Text
    folder: Text

    @field_validator("corpora")
    @classmethod
    def _in_order(cls, corpora: list[str]) -> list[str]:
        return [name for name in CORPORA if name in corpora]

    @model_validator(mode="after")
    def _possible(self) -> QuantifyingFlow:
        TransformerConfig(8, n_heads=self.n_heads, width=self.width)
        if self.classifier:
            refuse_model_name(self.classifier, "classifier")
            if SST not in self.corpora:
                raise ValueError(f"classifier is asked of {SST} only: add it to corpora; got {self.corpora}")
        if self.looks_back and TEMPLATES not in self.corpora:
            raise ValueError(
                f"looks_back is of {TEMPLATES} only: add them to corpora, or say -p looks_back false; got "
                f"{self.corpora}"
            )
        if self.folder and not Path(self.folder).is_dir():
            raise ValueError(f"folder should be one that is there, or empty; got {self.folder!r}")
        if not 1 <= len(self.typed) < LONGEST:
            raise ValueError(
                f"sentence should have 1 to {LONGEST - 1} words, up to its verb; got {len(self.typed)}: "
                f"{self.sentence!r}"
            )
        return self

    @property
    def label(self) -> str:
        """The corpora."""
        return "+".join(self.corpora)

    @property
    def typed(self) -> list[str]:
        """The words of the reader's own sentence."""
        return split_words(self.sentence)

    # ---- sentences -----------------------------------------------------------------------------------

    @cached_property
    def splits(self) -> dict[str, dict[str, list[Sentence]]]:
        """Disjoint sentences for training, for choosing the best checkpoint and for testing, by corpus."""
        return {name: self._split(name) for name in dict.fromkeys([TEMPLATES, *self.corpora])}

    def _split(self, name: str) -> dict[str, list[Sentence]]:
        if name == SST:
            sst = corpus(SST, self.folder or None)
            parts = {"train": sst.train, "valid": sst.validation, "test": sst.test}
            return {
                split: [
                    Sentence(tuple(split_words(text)), label)
                    for text, label in zip(part.texts, part.labels.tolist(), strict=True)
                ]
                for split, part in parts.items()
            }
        if name == TEMPLATES:
            found = templates(self.training_sentences + VALIDATED + TESTED)
        else:
            read = linzen(self.folder or None, cache_folder() / self.notebook)
            found = [read[place] for place in np.random.default_rng(0).permutation(len(read))]
        held = VALIDATED + TESTED
        return {"valid": found[:VALIDATED], "test": found[VALIDATED:held], "train": found[held:]}

    def learned(self, data: str) -> list[Sentence]:
        """The training sentences for a model of a corpus."""
        own = self.splits[data]["train"]
        return own if data != LINZEN else [*own, *self.splits[TEMPLATES]["train"][:MIXED]]

    @cached_property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """The words that a model of each corpus knows."""
        return {name: vocabulary_of(self.learned(name)) for name in self.splits}

    @cached_property
    def read_in(self) -> tuple[TextClassifier, TokenizedTask]:
        """The reader's classifier, and how it reads sentences."""
        model, tokenizer = load_text_classifier(self.classifier)
        return model, TokenizedTask(tokenizer)

    def task(self, run: FlowRun) -> SentenceTask | TokenizedTask:
        """How the model of a run reads sentences."""
        if run.pretrained:
            return self.read_in[1]
        return self._read(run)

    def _read(self, run: FlowRun) -> SentenceTask:
        return SentenceTask(self.vocabularies[run.data], at_end=run.causal)

    def shown(self, run: FlowRun) -> list[Sentence]:
        """The test sentences whose predictions are explained."""
        return self.splits[run.data]["test"][: self.sentences]

    def tests(self, run: FlowRun) -> dict[str, list[Sentence]]:
        """The test sets for the model of a run, by name."""
        found = {run.data: self.splits[run.data]["test"]}
        if run.data != LINZEN:
            return found
        more = {f"Gulordava, {kind}": parts for kind, parts in gulordava(self.folder or None).items()}
        return found | {TEMPLATES: self.splits[TEMPLATES]["test"]} | more

    # ---- runs ----------------------------------------------------------------------------------------

    def runs(self) -> list[FlowRun]:
        """A model per corpus and seed, each with an untrained twin; with `looks_back`, causal ones, too."""
        kinds, found = [(name, name, False) for name in self.corpora], list[FlowRun]()
        if self.looks_back:
            kinds.append(("templates, looking back", TEMPLATES, True))
        for (kind, data, causal), seed in itertools.product(kinds, self.seeds):
            run = FlowRun(f"{kind}, seed {seed}", seed, data, causal)
            found += [run, replace(run, name=f"{run.name}, untrained", untrained=True)]
        if self.classifier:
            found.append(FlowRun(f"sst, {self.classifier}", 0, SST, pretrained=True))
        return found

    def setup(self, run: FlowRun) -> Setup:
        """GPT-2's blocks, with or without its causal mask, and two classes."""
        if run.pretrained:
            return Setup(self.read_in[0], lambda step: None, token_loss(), None)
        task, data = self._read(run), run.data
        torch.manual_seed(run.seed)
        model = Transformer(self._config(run))
        if run.untrained:
            return Setup(model, lambda step: None, token_loss(), None)
        if data == LINZEN:
            self._begin_with_templates(model, run)
        first = data == TEMPLATES
        steps = self.steps if first else self.more_steps
        plan = Plan(
            steps=steps,
            learning_rate=self.learning_rate if first else self.more_rate,
            schedule="onecycle",
            optimizer="adamw",
            betas=(0.9, 0.98),
            weight_decay=0.01,
            clip=1.0,
            evaluate_every=max(1, steps // 10),
            seed=run.seed,
            device=self.device,
        )
        batches = task.batches(self.learned(data), self.batch_size, UNKNOWN[data], run.seed)
        return Setup(model, batches, token_loss(), plan, task.in_batches(self.splits[data]["valid"]))

    def _config(self, run: FlowRun) -> TransformerConfig:
        return TransformerConfig(
            len(self.vocabularies[run.data]),
            2,
            self.n_layers,
            self.n_heads,
            self.width,
            causal=run.causal,
            positions="learned",
            norm="pre",
            activation="gelu",
            dropout=DROPOUT[run.data],
            max_length=LONGEST,
        )

    def _begin_with_templates(self, model: Transformer, run: FlowRun) -> None:
        """Copy the weights of the same seed's model of templates, and the embeddings of shared words."""
        name = f"templates, seed {run.seed}"
        if name not in self.trained:
            self.train(FlowRun(name, run.seed, TEMPLATES), progress=False)
        weights = dict(self.trained[name].model.state_dict())
        theirs, ours = self.vocabularies[TEMPLATES].ids, self.vocabularies[run.data].ids
        both = [word for word in ours if word in theirs]
        table = model.embedding.weight.detach().clone()
        table[[ours[word] for word in both]] = weights["embedding.weight"][
            [theirs[word] for word in both]
        ].cpu()
        model.load_state_dict(weights | {"embedding.weight": table})

    def run_table(self) -> pd.DataFrame:
        """A row per run: `run`, `data`, `causal`, `untrained` and `seed`."""
        rows = [
            {"run": run.name, **vars(run), "data": run.name if run.pretrained else run.data}
            for run in self.runs()
        ]
        return pd.DataFrame(rows).drop(columns=["name", "pretrained"])

    # ---- what is measured ----------------------------------------------------------------------------

    def accuracy(self, models: Mapping[str, nn.Module]) -> pd.DataFrame:
        """Whether each sentence's class is predicted: `run`, `tested on`, `attractors` and `right`."""
        tables = list[pd.DataFrame]()
        for run in self.runs():
            for name, sentences in ({} if run.untrained else self.tests(run)).items():
                scores = sample_scores(models[run.name], self.task(run).in_batches(sentences))
                attractors = [each.attractors for each in sentences]
                rows = scores[["right"]].astype(bool).assign(run=run.name, attractors=attractors)
                tables.append(rows.assign(**{"tested on": name}))
        return pd.concat(tables, ignore_index=True)

    def agreement(self, models: Mapping[str, nn.Module]) -> pd.DataFrame:
        """`agreement_rows` of every model on its test sentences, with `run_table`'s columns."""
        return self._of_runs(agreement_rows, models, self.runs())

    def slips(self, models: Mapping[str, nn.Module]) -> pd.DataFrame:
        """`agreement_rows` of the first seed's trained models, without slips and with each slip alone."""
        tables = list[pd.DataFrame]()
        for run in self.runs():
            if run.untrained or run.causal or run.pretrained or run.seed != self.seeds[0]:
                continue
            some = self.shown(run)[: self.slip_sentences]
            for slip in ("none", *SLIPS):
                rows = agreement_rows(models[run.name], self.task(run), some, slips={slip} - {"none"})
                tables.append(rows.assign(run=run.name, data=run.data, slip=slip))
        return pd.concat(tables, ignore_index=True)

    def subjects(self, models: Mapping[str, nn.Module]) -> pd.DataFrame:
        """`subject_rows` of every model of templates, with `run_table`'s columns."""
        return self._of_runs(subject_rows, models, [run for run in self.runs() if run.data == TEMPLATES])

    def _of_runs(
        self, rows_of: Callable[..., pd.DataFrame], models: Mapping[str, nn.Module], runs: list[FlowRun]
    ) -> pd.DataFrame:
        tables = [
            rows_of(models[run.name], self.task(run), self.shown(run), run.ways).assign(run=run.name)
            for run in runs
        ]
        none = pd.DataFrame(columns=["sentence", "layer", "way", "found", "chance", "run"])
        return pd.concat(tables or [none], ignore_index=True).merge(self.run_table(), on="run")
