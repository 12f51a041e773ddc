r"""Models trained with some of the keys hidden, so that masked tokens are in their training distribution.

A metric that masks tokens gives a model inputs out of distribution, and this alone may change the answer.
Here the same models are trained again, from the same initial weights on the same sequences. In each sequence
$i$ of a batch

    a share u_i ~ U(0, 1) of its tokens, in half of the sequences; none in the others

is hidden as keys, for every query in all layers, and all others keep their positions, as with the operator
*mask*. The first token is never hidden, so that every query can attend to a token. Targets stay the same: a
model that lacks a target's source learns the target's probability without it. Training is `LONGER`.

Source:
    Hooker et al. 2019, *A Benchmark for Interpretability Methods in Deep Neural Networks* (ROAR): retrain, so
    that removed tokens are in distribution. There, once per measure and share; here once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from attnlib.generators.base import Batch
from attnlib.training import trained
from book.chapters.attribution_benchmark.settings import SETTINGS, Setting
from book.chapters.chapter import Chapter, Run
from book.chapters.faithfulness_metrics.predictions import RECORDED_SETTINGS

LONGER = 2
"""The factor by which training is longer than that of the model that sees all keys."""

RETRAINED = tuple(
    name
    for name in RECORDED_SETTINGS
    if SETTINGS[name].runs is not None and not name.endswith(", supervised")
)
"""The settings whose models can be trained with hidden keys: compiled models are not trained, and supervised
heads would have to attend to a hidden key."""


@dataclass(frozen=True)
class Hidden(Batch):
    """A batch whose mask has gaps; it passes positions, which models otherwise count without gaps."""

    @property
    def inputs(self) -> dict[str, Any]:
        """The model's keyword arguments."""
        places = torch.arange(self.input_ids.shape[1], device=self.input_ids.device)
        return super().inputs | {"position_ids": places.expand_as(self.input_ids)}


@dataclass(frozen=True)
class WithKeysHidden:
    """The same batches with some of their keys hidden; a batch depends only on the seed and the step."""

    batch_at: Callable[[int], Batch]
    seed: int

    def __call__(self, step: int) -> Hidden:
        """The batch of a step."""
        batch = self.batch_at(step)
        rng = np.random.default_rng([self.seed, step])
        shape = batch.input_ids.shape
        shares = rng.random((shape[0], 1)) * (rng.random((shape[0], 1)) < 0.5)
        seen = torch.from_numpy(rng.random(shape) >= shares)
        seen[:, 0] = True
        return Hidden(**vars(batch) | {"attention_mask": batch.attention_mask & seen})


@dataclass(frozen=True)
class KeysHidden(Setting):
    """A setting whose models were trained with hidden keys; its questions are those of the original."""

    def _trained(self, p: Any, chapter: Chapter, seed: int) -> Any:
        setup = chapter.setup(self._run(chapter, seed))
        assert setup.plan is not None
        batches = WithKeysHidden(setup.batches, seed)
        plan = replace(setup.plan, steps=LONGER * setup.plan.steps)
        how: dict[str, Any] = {"valid": setup.valid, "score": setup.score}
        trained(setup.model, batches, setup.loss, plan, chapter="faithfulness_metrics", **how)
        return setup.model

    def _run(self, chapter: Chapter, seed: int) -> Run:
        assert self.runs is not None and self.another is not None
        here = (run for run in self.runs(chapter) if run.seed == seed)
        return next(here, None) or self.another(chapter, seed)


def keys_hidden(setting: str) -> KeysHidden:
    """The setting of this name with models that were trained with hidden keys."""
    return KeysHidden(**vars(SETTINGS[setting]))
