"""Runs of translators: what every checkpoint made of some sentences, for the statistics and the explorer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlib.generators.translation import Bitext, Pairs
from attnlib.models.bag_of_words import WordTranslation
from attnlib.models.seq2seq import Seq2Seq
from attnlib.stats.ragged import RunScores
from attnlib.training.keeping import kept
from attnlib.training.key import digest
from book.chapters.translation.source_scores import SourceScores, source_scores, word_translation_scores
from book.chapters.translation.translated import translations

ModelAt = Callable[[int], Seq2Seq]
"""The model at a step."""


def translation_run(
    model_at: ModelAt,
    steps: Sequence[int],
    pairs: Pairs,
    folder: Path | None = None,
    delta_at: Iterable[int] = (),
) -> RunScores:
    """What every source token meant for every target token, at each checkpoint of a run.

    A row is a target token; rows of a sentence are a group, so that intervals draw sentences again.

    Args:
        model_at: gives the model at a step.
        steps: the checkpoints.
        pairs: the sentences.
        folder: where the scores of a checkpoint are kept, by the sentences: the run's own; `None`: nowhere.
        delta_at: checkpoints (steps) to compute the gradient influence at, which costs more than all the
            rest; it is 0 at others, where no statistic looks at it. Without any, the run has none.
    """
    chosen = set(delta_at)
    found = [_kept(model_at, step, pairs, folder, step in chosen) for step in steps]
    scores = {name: np.stack([getattr(each, name).numpy() for each in found]) for name in ("alpha", "beta")}
    if chosen:
        none = torch.zeros(len(found[0].alpha))
        scores["delta"] = np.stack([(none if e.delta is None else e.delta).numpy() for e in found])
    return RunScores(
        pairs.row_lengths.numpy(),
        np.array(steps),
        **scores,
        right=np.stack([each.right.numpy() for each in found]),
        groups=pairs.sentences.numpy(),
    )


def _kept(model_at: ModelAt, step: int, pairs: Pairs, folder: Path | None, delta: bool) -> SourceScores:
    """The scores of a checkpoint, read if they were computed before."""
    if folder is None:
        return source_scores(model_at(step), pairs, delta=delta)
    of_which = digest((pairs.source, pairs.source_lengths, pairs.target, pairs.target_lengths))[:16]
    name = f"{of_which}-{step:08d}{'-delta' * delta}"
    whose = {"kind": "source scores", "name": name, "run": folder.parent.name}

    def made() -> dict[str, Tensor]:
        found = vars(source_scores(model_at(step), pairs, delta=delta))
        return {key: value for key, value in found.items() if value is not None}

    return SourceScores(**kept(folder / f"{name}.safetensors", whose, made))


def word_translation_run(model: WordTranslation, pairs: Pairs) -> RunScores:
    r"""$\beta^{\mathrm{px}}$ of a word-translation model, as a run with one checkpoint."""
    beta = word_translation_scores(model.relevance(), pairs).numpy()[None]
    lengths, groups = pairs.row_lengths.numpy(), pairs.sentences.numpy()
    return RunScores(lengths, np.zeros(1, dtype=np.int64), beta=beta, groups=groups)


def with_bleu(run: RunScores, bleu: Sequence[float]) -> RunScores:
    """The same run, its accuracy being BLEU (in percent) as a share, and not that of its rows."""
    parts = {name: getattr(run, name) for name in ("lengths", "steps", "alpha", "beta", "delta", "groups")}
    return RunScores(**parts, accuracy=np.array(bleu) / 100)


# ---- for the explorer ----------------------------------------------------------------------------------


def sentences_over_training(
    data: Bitext,
    rows: Sequence[int],
    model_at: ModelAt,
    steps: Sequence[int],
    uniform_at: ModelAt | None = None,
) -> dict[str, dict[str, Any]]:
    """Some test sentences as `widgets.AlignmentExplorer` takes them: the reference, token by token.

    Args:
        data: whose test sentences.
        rows: which of them.
        model_at: of the run that is explained.
        steps: the checkpoints.
        uniform_at: of the run with uniform attention; its relevance stands beside.
    """
    pairs = data.test[torch.tensor(list(rows))]
    scores = [source_scores(model_at(step), pairs) for step in steps]
    even = [source_scores(uniform_at(step), pairs, delta=False) for step in steps] if uniform_at else None
    written = [translations(model_at(step), pairs, data.subwords) for step in steps]
    found = {}
    for row in range(len(pairs)):
        one, places = pairs[row : row + 1], pairs.positions(torch.tensor([row]))
        shape = (int(one.target_lengths[0]) - 1, int(one.source_lengths[0]))
        maps = _maps(scores, even, functools.partial(_cut, places, shape))
        found[f"{row + 1}: {one.texts[0][0]}"] = {
            "source": data.subwords.tokens(one.source.tolist()),
            "targets": [data.subwords.tokens(one.predicted.tolist())] * len(steps),
            "scores": maps,
            "written": [texts[row] for texts in written],
            "expected": one.texts[0][1],
            "truth": None if one.alignment is None else one.alignment.view(shape).numpy(),
        }
    return found


def _cut(places: Tensor, shape: tuple[int, int], values: Tensor) -> Tensor:
    """One sentence's values, target by source."""
    return values[places].view(shape)


def text_over_training(
    data: Bitext, text: str, model_at: ModelAt, steps: Sequence[int], uniform_at: ModelAt | None = None
) -> dict[str, Any]:
    """A sentence of the reader's, as each checkpoint translates it: scores are of its own translation.

    Raises:
        ValueError: the sentence has no words.
    """
    source = data.encode(text)
    written = [translations(model_at(step), source, data.subwords)[0] for step in steps]
    pairs = [data.encode(text, each) for each in written]
    scores = [source_scores(model_at(s), each) for s, each in zip(steps, pairs, strict=True)]
    even = None
    if uniform_at is not None:
        even = [source_scores(uniform_at(s), each, delta=False) for s, each in zip(steps, pairs, strict=True)]
    words, longest = int(source.source_lengths[0]), max(len(each.predicted) for each in pairs)

    def padded(values: Tensor) -> Tensor:
        lines = values.view(-1, words)
        return torch.nn.functional.pad(lines, (0, 0, 0, longest - len(lines)))

    targets = [data.subwords.tokens(each.predicted.tolist()) for each in pairs]
    return {
        "source": data.subwords.tokens(source.source.tolist()),
        "targets": [[*each, *[""] * (longest - len(each))] for each in targets],
        "scores": _maps(scores, even, padded),
        "written": written,
    }


def _maps(
    scores: Sequence[SourceScores],
    even: Sequence[SourceScores] | None,
    shaped: Callable[[Tensor], Tensor],
) -> Mapping[str, np.ndarray]:
    """What the explorer shows of each checkpoint, by name: probabilities where the scores have logarithms."""

    def stacked(values: Iterable[Tensor]) -> np.ndarray:
        return torch.stack([shaped(each) for each in values]).numpy()

    maps = {
        "alpha": stacked(each.alpha for each in scores),
        "beta": stacked(each.beta.exp() for each in scores),
        "Delta": stacked(each.delta for each in scores if each.delta is not None),
    }
    return maps | ({} if even is None else {"beta, uniform": stacked(each.beta.exp() for each in even)})
