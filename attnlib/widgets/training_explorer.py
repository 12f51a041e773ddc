"""How attention forms while a model learns: every head on one problem, at every checkpoint."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attnlib.checks import check
from attnlib.stats.ragged import numpy_of
from attnlib.widgets.attention_explorer import Attention, AttentionView
from attnlib.widgets.encoding import check_tokens, check_weights, packed_masks, quantise
from attnlib.widgets.front_end import front_end
from attnlib.widgets.naming import check_label, check_texts, counted
from attnlib.widgets.over_training import Curves, OverTraining, Parts, Steps


def problem(
    label: str,
    *,
    checkpoints: int,
    typed: bool,
    tokens: Sequence[str],
    attentions: Any,
    answers: Any,
    references: Any = None,
    expected: Any = None,
) -> Attention:
    """Checks and packs the parts of a problem, which `TrainingExplorer` describes."""
    words, values = check_tokens("tokens", tokens), numpy_of(attentions)
    fits = values.ndim == 5 and len(values) in (1, checkpoints)
    axes = "[checkpoint layer head query key]"
    check(fits, f"attentions must be {axes}, of 1 or {checkpoints} checkpoints", values.shape)
    texts = check_texts("answers", answers, len(values), "attentions")
    right = check_label("expected", expected)
    checked = []
    for i, weights in enumerate(values):
        try:
            checked.append(quantise(check_weights(weights, len(words), len(words))))
        except ValueError as error:
            raise ValueError(f"checkpoint {i}: {error}") from error
    steps = np.stack(checked)
    masks = packed_masks(references, steps.shape[1:])
    return Attention(label, words, None, steps, *masks, texts, right, typed)


class TrainingExplorer(OverTraining, AttentionView):
    """The attention of every head on a problem as it forms in training, beside the curve of accuracy.

    A slider, a play button and the chart choose the checkpoint; the answer of the model at that checkpoint
    is shown, and compared with the expected one. With ``answer``, a live notebook has a box in which the
    reader types a problem; a built page shows the recorded problems, and those typed before it was built.

    Args:
        problems: ``{label: {"tokens": [...], "attentions": ..., "answers": [...], "references": ...,
            "expected": ...}}``. Attentions are weights in [0, 1], float ``[checkpoint layer head query
            key]``, torch or numpy; answers are one text per checkpoint. References (bool ``[query key]`` for
            all heads, ``{(layer, head): bool [query key]}`` for some, or None) and the expected answer may
            be left out. Attentions of one checkpoint only are those of the last one.
        steps: training steps of the checkpoints, growing.
        curves: ``{name: one value per checkpoint}``, drawn over training; or ``{name: {step: value}}`` where
            a curve was measured at other steps. NaN or None leaves a gap.
        title: a line of text above the picture.
        answer: a function from a typed problem to its parts as above; it raises a ValueError for a problem
            that it cannot read, and the reader sees the message. The slider is disabled while a problem with
            one checkpoint (say, of the trained model) is shown. None: nothing can be typed.
        checkpoint: index of the checkpoint shown first; -1 is the last.
        item: index of the problem shown first.
        layer: the layer shown first.
        head: the head shown first; -1 is the mean of the layer's heads.
        query: the query row selected first; -1 is none.
        show_reference: whether reference cells are outlined at first.

    The arguments from ``checkpoint`` on are traits too: set them from Python, or ``observe`` what the reader
    chose. An ``item`` is a problem, the recorded ones first; ``error`` says what was wrong with the problem
    typed last.

    Raises:
        ValueError: shapes that disagree, NaN, weights outside [0, 1], steps that do not grow, a curve or
            answers of another length; the message names the problem or the curve.
        traitlets.TraitError: a checkpoint, problem, layer, head or query that does not exist.

    Weights travel as one byte each, compressed (`attnlib.widgets.encoding`): 3 problems of 12 tokens in 3
    layers of 4 heads at 8 checkpoints make a page of about 160 kB. A weight is off by at most 0.004, and the
    digits shown are right to one unit of the last.

    Example:
        >>> import torch
        >>> attentions = torch.softmax(torch.randn(3, 2, 4, 4, 4), dim=-1)
        >>> problem = {"tokens": list("1+2="), "attentions": attentions, "answers": ["7", "3", "3"]}
        >>> TrainingExplorer({"1+2=": problem}, steps=[0, 10, 20], curves={"exact match": [0.0, 0.5, 0.9]})
        TrainingExplorer: 1 problem, 3 checkpoints, 2 layers x 4 heads
    """

    _esm, _css = front_end("training_explorer.js")
    _noun, _pack = "problem", problem

    def __init__(
        self,
        problems: Mapping[str, Parts],
        steps: Steps,
        curves: Curves | None = None,
        title: str = "",
        answer: Callable[[str], Parts] | None = None,
        *,
        checkpoint: int = -1,
        item: int = 0,
        layer: int = 0,
        head: int = 0,
        query: int = -1,
        show_reference: bool = True,
    ) -> None:
        how: dict[str, Any] = {"checkpoint": checkpoint, "item": item, "show_reference": show_reference}
        super().__init__(problems, steps, curves, title, answer, **how)
        self.layer, self.head, self.query = layer, head, query

    def _sizes(self) -> str:
        layers, heads, _, _ = self._shape
        sizes = f"{counted(len(self.items), 'problem')}, {counted(len(self.steps), 'checkpoint')}"
        return f"{sizes}, {layers} layers x {heads} heads"
