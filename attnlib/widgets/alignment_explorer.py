"""How a translation model learns where to look: scores of target by source tokens, over training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import traitlets

from attnlib.checks import check, check_mask, check_one_of, check_shape
from attnlib.stats.ragged import numpy_of
from attnlib.widgets.encoding import check_tokens
from attnlib.widgets.front_end import front_end
from attnlib.widgets.naming import check_label, check_texts
from attnlib.widgets.over_training import Curves, Parts, Steps
from attnlib.widgets.scores import Scored, Scores, ScoresOverTraining

NOUNS = ("sentence", "translation")

TRUTH = "truth"
"""The name of the map of the true alignment, among the names of the scores."""


@dataclass(frozen=True)
class AlignedSentence(Scored):
    """A sentence and its translation, with scores of every pair of tokens, in the order [target source].

    Attributes:
        targets: tokens of the translation at each checkpoint, filled up with "" to one length.
        truth: flat indices of the pairs that the true alignment joins; None where it is not known.
        written: the model's own text at each checkpoint; a dict by score where each score has its own texts.
    """

    source: tuple[str, ...]
    targets: tuple[tuple[str, ...], ...]
    truth: tuple[int, ...] | None
    written: tuple[str, ...] | dict[str, tuple[str, ...]]
    expected: str | None
    typed: bool

    @classmethod
    def of(
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
        """Checks and flattens the parts of a sentence, which `AlignmentExplorer` describes."""
        keys = check_tokens("source", source)
        lines = tuple(check_tokens("targets", each) for each in targets)
        lengths = [len(line) for line in lines]
        fits = len({*lengths}) == 1 and len(lines) in (1, checkpoints)
        check(fits, f"targets must be one or {checkpoints} lists of tokens, of one length", lengths)
        cells = (len(lines[0]), len(keys))
        flat = {}
        for name, score in scores.items():
            values = numpy_of(score)
            wanted = (*values.shape[:1], *cells)
            check_shape(wanted, "[checkpoint target source]", **{f"score {name!r}": values})
            flat[name] = values.reshape(len(values), -1)
        known = None if truth is None else numpy_of(truth)
        if known is not None:
            check_mask(cells, "[target source]", truth=known)
        made = Scores.of(flat, cells[0] * cells[1], checkpoints)
        texts: Any
        if isinstance(written, Mapping):
            for name in written:
                check_one_of(flat, **{"a name in written": name})
            texts = {
                name: check_texts(f"written of {name!r}", each, made.checkpoints, "the scores")
                for name, each in written.items()
            }
        else:
            texts = check_texts("written", written, made.checkpoints, "the scores")
        places = None if known is None else tuple(np.flatnonzero(known).tolist())
        return cls(label, made, keys, lines, places, texts, check_label("expected", expected), typed)


class AlignmentExplorer(ScoresOverTraining):
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
            ``[target source]``, may be left out. Scores with one checkpoint only are those of the last.
        steps: training steps of the checkpoints, growing.
        curves: ``{name: one value per checkpoint}``, drawn over training; or ``{name: {step: value}}`` where
            a curve was measured at other steps. NaN or None leaves a gap.
        title: a line of text above the picture.
        translate: a function from a typed sentence to its parts as above; it raises a ValueError for a
            sentence that it cannot read, and the reader sees the message. None: nothing can be typed.
        checkpoint: index of the checkpoint shown first; -1 is the last.
        item: index of the sentence shown first.
        shown: the scores shown at first, by name, and "truth"; all of them by default.
        one_scale: whether colours mean the same in all maps, as they should where all scores are of one
            quantity; by default, colours go from the least to the largest of each row at first, since a score
            that is nearly the same everywhere else would be a map of one colour.
        nouns: what the page calls the source, and the text that the model makes of it.

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
    _pack = AlignedSentence.of

    colours = traitlets.Enum(
        ("whole", "shown", "row"),
        default_value="row",
        help="The strongest colour: of all there can be (whole), what is shown (shown), or a row (row).",
    ).tag(sync=True, addressed=True)
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
        item: int = 0,
        shown: Sequence[str] | None = None,
        one_scale: bool = False,
        nouns: tuple[str, str] = NOUNS,
    ) -> None:
        fits = not isinstance(nouns, str) and [type(noun) for noun in nouns] == [str, str] and all(nouns)
        check(fits, f"nouns must be two words, such as {NOUNS}", nouns)
        self._noun, _ = nouns
        how: dict[str, Any] = {"checkpoint": checkpoint, "item": item, "shown": shown}
        super().__init__(sentences, steps, curves, title, translate, **how)
        self.one_scale, self.nouns, self.colours = one_scale, nouns, "whole" if one_scale else "row"

    def _names(self) -> list[str]:
        known = any(each.truth is not None for each in self._all)
        return [*self._scores(), *([TRUTH] if known else [])]
