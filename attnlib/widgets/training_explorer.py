"""How attention forms while a model learns: every head on one problem, checkpoint by checkpoint."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anywidget
import numpy as np

from attnlib.widgets.asking import Asking, nobody
from attnlib.widgets.attention_view import AttentionView
from attnlib.widgets.encoding import checked_tokens, checked_weights, numpy_of, packed_masks, quantise
from attnlib.widgets.front_end import front_end
from attnlib.widgets.naming import checked_text, checked_texts, counted, named
from attnlib.widgets.over_training import Curves, OverTraining, Steps
from attnlib.widgets.recording import deflate

NEEDED = ("tokens", "attentions", "answers")
OPTIONAL = ("references", "expected")


class TrainingExplorer(OverTraining, Asking, AttentionView, anywidget.AnyWidget):
    """The attention of every head on a problem as it forms in training, beside the curve of accuracy.

    A slider, a play button and the chart choose the checkpoint; the answer of the model at that checkpoint
    is shown and judged. With ``answer``, a live notebook has a box in which the reader types a problem; a
    built page shows the recorded ones, and those that were typed before it was built.

    Args:
        problems: ``{label: {"tokens": [...], "attentions": ..., "answers": [...], "references": ...,
            "expected": ...}}``. Attentions are weights in [0, 1], float ``[checkpoint layer head query
            key]``, torch or numpy; answers are one text per checkpoint. References (bool ``[query key]`` for
            all heads, ``{(layer, head): bool [query key]}`` for some, or None) and the expected answer may
            be left out. A problem with one checkpoint only is of the last one.
        steps: training steps of the checkpoints, growing.
        curves: ``{name: one value per checkpoint}``, drawn over training; or ``{name: {step: value}}`` where
            a curve was measured at other steps. NaN or None leaves a gap.
        title: a line of text above the picture.
        answer: from a typed problem to the parts of one as above; what it cannot read it refuses with a
            ValueError, whose message the reader sees. With one checkpoint, say the trained model, the slider
            rests while that problem is shown. None where nothing can be typed.
        checkpoint: index of the checkpoint shown first; -1 is the last.
        example: index of the problem shown first.
        layer: the layer shown first.
        head: the head shown first; -1 is the mean of the layer's heads.
        query: the query row selected first; -1 is none.
        show_reference: whether reference cells are outlined at first.

    Attributes:
        checkpoint: index of the checkpoint shown.
        example: index of the problem shown: the recorded ones, then those that were typed.
        layer: the layer shown.
        head: the head shown; -1 for the mean of heads.
        query: the selected query row; -1 for none.
        show_reference: whether reference cells are outlined.
        error: what was wrong with the problem typed last; empty where nothing was.

    The attributes are traits: set them from Python, or ``observe`` what the reader chose.

    Raises:
        ValueError: shapes that disagree, NaN, weights outside [0, 1], steps that do not grow, a curve or
            answers of another length; the message names the problem or the curve.
        traitlets.TraitError: a checkpoint, problem, layer, head or query that does not exist.

    Weights travel as one byte each, compressed (`attnlib.widgets.recording`): 3 problems of 12 tokens in 3
    layers of 4 heads at 8 checkpoints make a page of about 110 kB. A weight is off by at most 0.004, and the
    digits shown are right to one unit of the last.

    Example:
        >>> import torch
        >>> attentions = torch.softmax(torch.randn(3, 2, 4, 4, 4), dim=-1)
        >>> problem = {"tokens": list("1+2="), "attentions": attentions, "answers": ["7", "3", "3"]}
        >>> TrainingExplorer({"1+2=": problem}, steps=[0, 10, 20], curves={"exact match": [0.0, 0.5, 0.9]})
        TrainingExplorer: 1 problem, 3 checkpoints, 2 layers x 4 heads
    """

    _esm, _css = front_end("training_explorer.js")

    def __init__(
        self,
        problems: Mapping[str, Mapping[str, Any]],
        steps: Steps,
        curves: Curves | None = None,
        title: str = "",
        answer: Callable[[str], Mapping[str, Any]] | None = None,
        *,
        checkpoint: int = -1,
        example: int = 0,
        layer: int = 0,
        head: int = 0,
        query: int = -1,
        show_reference: bool = True,
    ) -> None:
        super().__init__(title=title, show_reference=show_reference, asks=answer is not None)
        self._record(steps, curves, checkpoint)
        if not problems:
            raise ValueError(
                "problems is empty; there must be at least one {label: {tokens, attentions, answers}}."
            )
        self._answer, self._typed = answer or nobody, dict[str, Problem]()
        self._recorded = [Problem.of(label, parts, len(self.steps)) for label, parts in problems.items()]
        self._show(example)
        self.layer, self.head, self.query = layer, head, query

    def summary(self) -> str:
        """The name, the title and the sizes, on one line."""
        layers, heads, _, _ = self._shape
        title = f" {self.title!r}" if self.title else ""
        sizes = f"{counted(len(self.examples), 'problem')}, {counted(len(self.steps), 'checkpoint')}"
        return f"TrainingExplorer{title}: {sizes}, {layers} layers x {heads} heads"

    def _show(self, example: int) -> None:
        """Puts the recorded and the typed problems into the picture, at once."""
        every = [*self._recorded, *self._typed.values()]
        with self.hold_sync():
            self.weights = b"".join(problem.packed for problem in every)
            self.masks = b"".join(mask for problem in every for mask in problem.masks)
            self.examples = [problem.describe() for problem in every]
            self.example = example
            self._stay_inside({})

    def _reply(self, text: str) -> None:
        text = text.strip()
        problem = Problem.of(text, self._answer(text), len(self.steps), typed=True)
        self._typed.pop(text, None)
        self._typed[text] = problem
        self._show(len(self._recorded) + len(self._typed) - 1)


@dataclass(frozen=True)
class Problem:
    """One problem and its attention over training, checked and packed.

    Attributes:
        label: what the drop-down calls it.
        tokens: of queries and keys.
        shape: checkpoints, layers, heads, queries, keys.
        packed: `quantise` of the attentions in that order, compressed.
        masks: the distinct references; see `attnlib.widgets.encoding.Example`.
        mask_of: per layer and head, the index into ``masks``; -1 where there is no reference.
        answers: of the model, one per checkpoint.
        expected: the right answer, or None where there is none.
        typed: whether the reader typed it.
    """

    label: str
    tokens: tuple[str, ...]
    shape: tuple[int, ...]
    packed: bytes
    masks: tuple[bytes, ...]
    mask_of: tuple[tuple[int, ...], ...]
    answers: tuple[str, ...]
    expected: str | None
    typed: bool

    @classmethod
    def of(cls, label: str, parts: Mapping[str, Any], checkpoints: int, typed: bool = False) -> "Problem":
        """Checks and packs; `TrainingExplorer` describes the parts.

        Raises:
            ValueError: a part is missing, unknown or not valid; the message names the problem.
        """
        settings = {"checkpoints": checkpoints, "typed": typed}
        return named(cls._of, "problem", label, parts, NEEDED, OPTIONAL, **settings)

    @classmethod
    def _of(
        cls,
        label: str,
        *,
        checkpoints: int,
        typed: bool,
        tokens: Sequence[str],
        attentions: Any,
        answers: Any,
        references: Any = None,
        expected: Any = None,
    ) -> "Problem":
        words, values = checked_tokens("tokens", tokens), numpy_of(attentions)
        if values.ndim != 5 or len(values) not in (1, checkpoints):
            raise ValueError(
                "attentions must be [checkpoint layer head query key] with as many checkpoints as there are "
                f"steps, {checkpoints}, or one; got shape {values.shape}."
            )
        texts = checked_texts("answers", answers, len(values), "attentions")
        right = checked_text("expected", expected)
        checked = []
        for i, weights in enumerate(values):
            try:
                checked.append(quantise(checked_weights(weights, len(words), len(words))))
            except ValueError as error:
                raise ValueError(f"checkpoint {i}: {error}") from error
        steps = np.stack(checked)
        masks, mask_of = packed_masks(references, steps.shape[1:])
        return cls(label, words, steps.shape, deflate(steps), masks, mask_of, texts, right, typed)

    def describe(self) -> dict[str, Any]:
        """What the widget must know besides the bytes."""
        return {
            "label": self.label,
            "tokens": list(self.tokens),
            "shape": list(self.shape),
            "bytes": len(self.packed),
            "masks": len(self.masks),
            "mask_of": [list(row) for row in self.mask_of],
            "answers": list(self.answers),
            "expected": self.expected,
            "typed": self.typed,
        }
