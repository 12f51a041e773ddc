"""The data of the chapter's explorer: test sentences over training, and the reader's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlib.generators.translation import Bitext
from book.chapters.dynamics import TokenScores
from book.chapters.translation.measures import ModelAt, source_scores, translations


def sentences_over_training(
    data: Bitext,
    rows: Sequence[int],
    model_at: ModelAt,
    steps: Sequence[int],
    uniform_at: ModelAt,
    meanings: Mapping[str, str],
) -> dict[str, dict[str, Any]]:
    """The data of some test sentences for `widgets.AlignmentExplorer`, with meanings of invented words."""
    pairs = data.test[torch.tensor(list(rows))]
    scores = [source_scores(model_at(step), pairs) for step in steps]
    even = [source_scores(uniform_at(step), pairs, delta=False) for step in steps]
    written = [translations(model_at(step), pairs, data.subwords) for step in steps]
    found = {}
    for row in range(len(pairs)):
        one, places = pairs[row : row + 1], pairs.positions(torch.tensor([row]))
        shape = (int(one.target_lengths[0]) - 1, int(one.source_lengths[0]))
        maps = _maps(scores, even, functools.partial(_cut, places, shape))
        found[f"{row + 1}: {one.texts[0][0]}"] = {
            "source": _glossed(data, one.source.tolist(), meanings),
            "targets": [_glossed(data, one.predicted.tolist(), meanings)] * len(steps),
            "scores": maps,
            "written": [texts[row] for texts in written],
            "expected": one.texts[0][1],
            "truth": None if one.alignment is None else one.alignment.view(shape).numpy(),
        }
    return found


def _glossed(data: Bitext, ids: list[int], meanings: Mapping[str, str]) -> list[str]:
    """Tokens, each after its meaning where that is known: "dog·gussar"."""
    words = data.subwords.tokens(ids)
    return [f"{meanings[word]}·{word}" if word in meanings else word for word in words]


def _cut(places: Tensor, shape: tuple[int, int], values: Tensor) -> Tensor:
    """One sentence's values, target by source."""
    return values[places].view(shape)


def text_over_training(
    data: Bitext,
    text: str,
    model_at: ModelAt,
    steps: Sequence[int],
    uniform_at: ModelAt,
    meanings: Mapping[str, str],
) -> dict[str, Any]:
    """The data of a reader's sentence: each checkpoint's translation, and the scores for that translation."""
    source = data.encode(text)
    written = [translations(model_at(step), source, data.subwords)[0] for step in steps]
    pairs = [data.encode(text, each) for each in written]
    scores = [source_scores(model_at(s), each) for s, each in zip(steps, pairs, strict=True)]
    even = [source_scores(uniform_at(s), each, delta=False) for s, each in zip(steps, pairs, strict=True)]
    words, longest = int(source.source_lengths[0]), max(len(each.predicted) for each in pairs)

    def padded(values: Tensor) -> Tensor:
        lines = values.view(-1, words)
        return torch.nn.functional.pad(lines, (0, 0, 0, longest - len(lines)))

    targets = [_glossed(data, each.predicted.tolist(), meanings) for each in pairs]
    return {
        "source": _glossed(data, source.source.tolist(), meanings),
        "targets": [[*each, *[""] * (longest - len(each))] for each in targets],
        "scores": _maps(scores, even, padded),
        "written": written,
    }


def _maps(
    scores: Sequence[TokenScores], even: Sequence[TokenScores], shaped: Callable[[Tensor], Tensor]
) -> Mapping[str, np.ndarray]:
    """The explorer's maps of each checkpoint by name, with probabilities in place of log-probabilities."""

    def stacked(values: Iterable[Tensor]) -> np.ndarray:
        return torch.stack([shaped(each) for each in values]).numpy()

    return {
        "α": stacked(each.alpha for each in scores),
        "β": stacked(each.beta.exp() for each in scores),
        "Δ": stacked(each.delta for each in scores if each.delta is not None),
        "βᵘᶠ": stacked(each.beta.exp() for each in even),
    }
