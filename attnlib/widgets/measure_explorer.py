"""Two measures of attribution side by side, on predictions whose sources may be known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anywidget
import numpy as np
import traitlets
from jaxtyping import Bool

from attnlib.stats.plausibility import comparable
from attnlib.widgets.encoding import Array, numpy_of
from attnlib.widgets.explorer import Explorer
from attnlib.widgets.front_end import front_end
from attnlib.widgets.naming import checked_text, counted, named
from attnlib.widgets.scored_document import Document


@dataclass(frozen=True)
class Question(Document):
    """A prompt, what measures say of its tokens, and which tokens the prediction needs.

    Attributes:
        truth: the places of those; None where they are not known.
        candidates: the places of the tokens that they are among.
        query: the place that predicts.
        found: by measure, where each of `truth` stands among the candidates, from 1; equal scores share the
            last of their places.
        missing: of measures that cannot be given, why.
    """

    truth: tuple[int, ...] | None
    candidates: tuple[int, ...]
    query: int
    found: dict[str, tuple[int, ...]]
    missing: dict[str, str]

    @classmethod
    def of(  # type: ignore[override]
        cls,
        label: str,
        *,
        tokens: Sequence[str],
        scores: Mapping[str, Array],
        truth: Array | None = None,
        query: int,
        candidates: Array | None = None,
        predicted: str = "",
        expected: str | None = None,
        missing: Mapping[str, str] | None = None,
    ) -> "Question":
        """Checks; `MeasureExplorer` describes the parts.

        Raises:
            ValueError: a part is not valid.
        """
        flat = {name: numpy_of(score) for name, score in scores.items()}
        needed = _mask("truth", np.zeros(len(tokens), bool) if truth is None else truth, len(tokens))
        among = _mask(
            "candidates", np.ones(len(tokens), bool) if candidates is None else candidates, len(tokens)
        )
        if (outside := np.flatnonzero(needed & ~among)).size:
            raise ValueError(f"truth must be candidates; tokens {outside.tolist()} are not.")
        if not 0 <= query < len(tokens):
            raise ValueError(f"query must be a place from 0 to {len(tokens) - 1}; got {query}.")
        for name, score in flat.items():
            if score.shape != (len(tokens),):
                raise ValueError(
                    f"score {name!r} must have the shape [token] = ({len(tokens)},); got {score.shape}."
                )
        shown = {name: np.where(among, score, 0.0)[None] for name, score in flat.items()}
        parts: dict[str, Any] = {"tokens": tokens, "scores": shown, "predicted": [predicted]}
        made = Document.of(
            label, checkpoints=1, typed=False, gold=checked_text("expected", expected), **parts
        )
        found = {name: _places(score, needed, among) for name, score in flat.items()}
        known = None if truth is None else tuple(np.flatnonzero(needed).tolist())
        more: dict[str, Any] = {"truth": known, "found": found}
        more["candidates"] = tuple(np.flatnonzero(among).tolist())
        return cls(**vars(made), **more, query=query, missing=dict(missing or {}))

    def describe(self, negative: set[str]) -> dict[str, Any]:
        """What the widget must know besides the bytes."""
        return super().describe(negative) | {
            "truth": None if self.truth is None else list(self.truth),
            "candidates": list(self.candidates),
            "query": self.query,
            "found": {name: list(places) for name, places in self.found.items()},
            "missing": self.missing,
        }


class MeasureExplorer(Explorer, anywidget.AnyWidget):
    """What two measures say of the same prediction, token by token, with the sources, if known, outlined.

    Each side is the prompt in the colours of one measure, which a drop-down chooses: blue for what speaks for
    the prediction, orange for what speaks against it, strongest at the measure's own largest score. Below it
    stand the places that the measure gives the sources among all candidates. What is no candidate is faint
    and has no colour. Nothing here needs a kernel: a built page shows the same.

    Args:
        questions: ``{label: {"tokens": [...], "scores": {"rollout": ..., "blank-out": ...}, "truth": ...,
            "query": 7, "candidates": ..., "predicted": "...", "expected": "...", "missing": {...}}}``. Every
            score is float ``[token]``, torch or numpy, finite at candidates; truth and candidates are bool
            ``[token]``, query is the place that predicts. Candidates (all tokens), the sources (where they
            are not known), the model's prediction, what is right and the reasons why measures are missing may
            be left out.
        title: a line of text above the picture.
        question: index of the question shown first.
        first: the measure on the left; the first there is, by default.
        second: the measure on the right; the next, by default.

    Raises:
        ValueError: shapes that disagree, NaN at a candidate, a measure that no question has; the message
            names the question.
        traitlets.TraitError: a question or token that does not exist.

    Example:
        >>> import torch
        >>> scores = {"rollout": torch.rand(4), "blank-out": torch.randn(4)}
        >>> truth = torch.tensor([False, True, False, False])
        >>> question = {"tokens": list("ab=b"), "scores": scores, "truth": truth, "query": 2}
        >>> MeasureExplorer({"copying": question})
        MeasureExplorer: 1 question, measures rollout, blank-out
    """

    _esm, _css = front_end("measure_explorer.js")

    documents = traitlets.List(traitlets.Dict(), help="What is shown besides the scores.").tag(sync=True)
    weights = traitlets.Bytes(help="The compressed scores of all questions, in order.").tag(sync=True)
    names = traitlets.List(traitlets.Unicode(), help="Every measure of any question.").tag(sync=True)
    document = traitlets.Int(0, help="Index of the question shown.").tag(sync=True)
    token = traitlets.Int(-1, help="The chosen token; -1 for none.").tag(sync=True)
    first = traitlets.Unicode(help="The measure on the left.").tag(sync=True)
    second = traitlets.Unicode(help="The measure on the right.").tag(sync=True)

    def __init__(
        self,
        questions: Mapping[str, Mapping[str, Any]],
        title: str = "",
        *,
        question: int = 0,
        first: str | None = None,
        second: str | None = None,
    ) -> None:
        super().__init__(title=title)
        items = named(Question.of, "question", questions)
        every = list(dict.fromkeys(name for item in items for name in (*item.scores, *item.missing)))
        negative = {name for item in items for name in item.negative()}
        packed = [item.packed(negative) for item in items]
        with self.hold_sync():
            self.weights, self.names = b"".join(packed), every
            self.documents = [
                item.describe(negative) | {"bytes": len(data)}
                for item, data in zip(items, packed, strict=True)
            ]
            self.document = question
            self.first = every[0] if first is None else first
            self.second = every[min(1, len(every) - 1)] if second is None else second

    @traitlets.validate("first", "second")
    def _known(self, proposal: dict[str, Any]) -> str:
        if proposal["value"] not in self.names:
            raise ValueError(
                f"there is no measure {proposal['value']!r}; the questions have {', '.join(self.names)}."
            )
        return str(proposal["value"])

    def _sizes(self) -> str:
        return f"{counted(len(self.documents), 'question')}, measures {', '.join(self.names)}"

    def _places(self) -> dict[str, tuple[int, str]]:
        if not self.documents:
            return super()._places()
        tokens = len(self.documents[self.document]["tokens"])
        return super()._places() | {"document": (len(self.documents), ""), "token": (tokens, "none")}


def _mask(name: str, given: Array, n: int) -> Bool[np.ndarray, " token"]:
    mask = numpy_of(given)
    if mask.shape != (n,) or mask.dtype != bool:
        raise ValueError(f"{name} must be bool [token] = ({n},); got {mask.dtype} {mask.shape}.")
    return mask


def _places(score: np.ndarray, needed: np.ndarray, among: np.ndarray) -> tuple[int, ...]:
    values = comparable(score[None], among[None])[0]
    return tuple((values[among] >= values[needed][:, None]).sum(1).tolist())
