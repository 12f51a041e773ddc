"""How a translator learns where to look: target by source tokens in several scores, over training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import traitlets

from attnlib.widgets.encoding import checked_tokens, numpy_of
from attnlib.widgets.front_end import front_end
from attnlib.widgets.naming import checked_texts
from attnlib.widgets.over_training import Curves, Parts, Steps
from attnlib.widgets.scored_document import Document
from attnlib.widgets.scores_explorer import ScoresExplorer

NOUNS = ("sentence", "translation")


@dataclass(frozen=True)
class AlignedSentence(Document):
    """A sentence and its translation: a document whose tokens are pairs of a target and a source token.

    Attributes:
        source: the tokens of the sentence.
        targets: of its translation, at each checkpoint; "" where it is shorter than another.
        truth: the places of the pairs that belong together, or None where that is not known.
        written: by score, the model's own text at each checkpoint; None where it is one for all scores.
    """

    source: tuple[str, ...]
    targets: tuple[tuple[str, ...], ...]
    truth: tuple[int, ...] | None
    written: dict[str, tuple[str, ...]] | None

    @classmethod
    def of(  # type: ignore[override]
        cls,
        label: str,
        *,
        checkpoints: int,
        typed: bool,
        source: Sequence[str],
        targets: Sequence[Sequence[str]],
        scores: Mapping[str, Any],
        written: Sequence[str] | Mapping[str, Sequence[str]],
        expected: str | None = None,
        truth: Any = None,
    ) -> "AlignedSentence":
        """Checks; `AlignmentExplorer` describes the parts.

        Raises:
            ValueError: a part is not valid.
        """
        keys, lines = (
            checked_tokens("source", source),
            tuple(checked_tokens("targets", each) for each in targets),
        )
        if len({len(line) for line in lines}) != 1 or len(lines) not in (1, checkpoints):
            raise ValueError(
                f"targets must be {checkpoints} lists of tokens, one for every checkpoint, of one length; "
                f"got lengths {[len(line) for line in lines]}."
            )
        cells = (len(lines[0]), len(keys))
        flat = {}
        for name, score in scores.items():
            values = numpy_of(score)
            if values.shape[1:] != cells:
                raise ValueError(
                    f"score {name!r} has shape {values.shape}; it must be [checkpoint target source] = "
                    f"({len(lines)}, {cells[0]}, {cells[1]})."
                )
            flat[name] = values.reshape(len(values), -1)
        known = None if truth is None else numpy_of(truth)
        if known is not None and (known.shape != cells or known.dtype != bool):
            raise ValueError(
                f"truth must be bool [target source] = {cells}; got {known.dtype} {known.shape}."
            )
        apart = written if isinstance(written, Mapping) else None
        if unknown := set(apart or {}) - set(flat):
            raise ValueError(f"written has texts of {sorted(unknown)}; the scores are {', '.join(flat)}.")
        parts: dict[str, Any] = {"tokens": ["pair"] * (cells[0] * cells[1]), "scores": flat, "gold": expected}
        parts["predicted"] = written if apart is None else [""] * max(map(len, flat.values()), default=0)
        made = Document.of(label, checkpoints=checkpoints, typed=typed, **parts)
        texts = None
        if apart is not None:
            count = len(made.predicted)
            texts = {
                n: checked_texts(f"written of {n!r}", each, count, "the scores") for n, each in apart.items()
            }
        places = None if known is None else tuple(np.flatnonzero(known).tolist())
        return cls(**vars(made), source=keys, targets=lines, truth=places, written=texts)

    def describe(self, negative: set[str]) -> dict[str, Any]:
        """What the widget must know besides the bytes."""
        return super().describe(negative) | {
            "tokens": [""] * len(self.tokens),
            "source": list(self.source),
            "targets": [list(line) for line in self.targets],
            "truth": None if self.truth is None else list(self.truth),
            "written": None if self.written is None else {n: list(each) for n, each in self.written.items()},
        }


class AlignmentExplorer(ScoresExplorer):
    """Attention, keyword relevance and influence of target by source tokens, as they form in training.

    Every score is a heat map, side by side with the others, so that they can be compared cell by cell; where
    the true alignment is known, it is outlined on each, and has a map of its own. Scores that are negative
    somewhere go from orange over blank to blue. A slider, a play button and the chart choose the checkpoint;
    the model's own translation there is shown. With ``translate``, a live notebook has a box in which the
    reader types a sentence; a built page shows the recorded ones, and those typed before.

    Scores may also be of several runs: their attention, say, to the same sentence. Then each run has its own
    texts, and the maps one colour scale (second example).

    Args:
        sentences: ``{label: {"source": [...], "targets": [[...], ...], "scores": {"alpha": ...}, "written":
            [...], "expected": "...", "truth": ...}}``. Every score is float ``[checkpoint target source]``,
            torch or numpy; targets are the tokens of the translation that the scores are of, one list for
            every checkpoint, filled up with "" to one length, and the same for all scores; written is what
            the model itself made of the sentence, one text per checkpoint, or ``{score: texts}``, shown below
            the maps, where scores are of several models. The expected translation and the truth, bool
            ``[target source]``, may be left out. A sentence with one checkpoint only is of the last.
        steps: training steps of the checkpoints, growing.
        curves: ``{name: one value per checkpoint}``, drawn over training; or ``{name: {step: value}}`` where
            a curve was measured at other steps. NaN or None leaves a gap.
        title: a line of text above the picture.
        translate: from a typed sentence to its parts as above; what it cannot read it refuses with a
            ValueError, whose message the reader sees. None where nothing can be typed.
        checkpoint: index of the checkpoint shown first; -1 is the last.
        sentence: index of the sentence shown first.
        hidden: the scores hidden at first, by name.
        one_scale: whether colours mean the same in all maps, as they should where all scores are of one
            quantity; by default, each map's strongest is its own largest.
        nouns: what the source is called, and what the model makes of it.

    Raises:
        ValueError: shapes that disagree, NaN, steps that do not grow, a curve or translations of another
            length; the message names the sentence or the curve.

    Example:
        >>> import torch
        >>> alpha = torch.softmax(torch.randn(2, 3, 4), -1)
        >>> sentence = {"source": "<bos> das Haus <eos>".split(), "targets": [["the", "house", "<eos>"]] * 2,
        ...             "scores": {"alpha": alpha}, "written": ["the the", "the house"]}
        >>> AlignmentExplorer({"das Haus": sentence}, steps=[0, 100])
        AlignmentExplorer: 1 sentence, 2 checkpoints, scores alpha

        Two runs side by side:

        >>> runs = {"with": alpha, "without": torch.softmax(torch.randn(2, 3, 4), -1)}
        >>> written = {"with": ["the the", "the house"], "without": ["a", "a"]}
        >>> AlignmentExplorer({"das Haus": sentence | {"scores": runs, "written": written}}, steps=[0, 100],
        ...                   one_scale=True, nouns=("phrase", "copy"))
        AlignmentExplorer: 1 phrase, 2 checkpoints, scores with, without
    """

    _esm, _css = front_end("alignment_explorer.js")
    _item = AlignedSentence

    hidden = traitlets.List(traitlets.Unicode(), help="Names of the scores hidden.").tag(sync=True)
    one_scale = traitlets.Bool(False, help="Whether colours mean the same in all maps.").tag(sync=True)
    nouns = traitlets.Tuple(
        *map(traitlets.Unicode, NOUNS), default_value=NOUNS, help="What is read, and what is made of it."
    ).tag(sync=True)

    def __init__(
        self,
        sentences: Mapping[str, Parts],
        steps: Steps,
        curves: Curves | None = None,
        title: str = "",
        translate: Callable[[str], Parts] | None = None,
        *,
        checkpoint: int = -1,
        sentence: int = 0,
        hidden: Sequence[str] = (),
        one_scale: bool = False,
        nouns: tuple[str, str] = NOUNS,
    ) -> None:
        self._noun, _ = nouns
        super().__init__(sentences, steps, curves, title, translate, checkpoint=checkpoint, document=sentence)
        self.hidden, self.one_scale, self.nouns = list(hidden), one_scale, nouns
