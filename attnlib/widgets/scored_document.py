"""How the scores of a document's tokens travel to a widget: checked, one byte each, compressed.

With ``s`` the largest magnitude of a score in a document over all checkpoints, a score that is nowhere
negative is stored as ``round(255 sqrt(v / s))`` (`attnlib.widgets.encoding`), off by at most
``sqrt(s v) / 255 + s / 255^2``; one that is negative somewhere in any document as ``128 + round(127 sign(v)
sqrt(|v| / s))``, off by at most ``sqrt(s |v|) / 127 + s / 127^2``. Only an exact zero is read as zero. Bytes
lie in the order [score checkpoint token].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from attnlib.widgets.encoding import checked_tokens, numpy_of, quantise
from attnlib.widgets.naming import checked_text, checked_texts
from attnlib.widgets.recording import deflate

TRUTH = "true relevance"


@dataclass(frozen=True)
class Document:
    """One document and its scores over training, checked.

    Attributes:
        label: what the drop-down calls it.
        tokens: of the document.
        scores: by name, float ``[checkpoint token]``; with one checkpoint where it is known, it is the same
            for all.
        predicted: the model's prediction, one per checkpoint.
        gold: the right label, or None where there is none.
        typed: whether the reader typed it.
    """

    label: str
    tokens: tuple[str, ...]
    scores: dict[str, np.ndarray]
    predicted: tuple[str, ...]
    gold: str | None
    typed: bool

    @classmethod
    def of(
        cls,
        label: str,
        *,
        checkpoints: int,
        typed: bool,
        tokens: Sequence[str],
        scores: Mapping[str, Any],
        predicted: Any,
        gold: Any = None,
        true_relevance: Any = None,
    ) -> "Document":
        """Checks; `DynamicsExplorer` describes the parts.

        Raises:
            ValueError: a part is not valid.
        """
        words = checked_tokens("tokens", tokens)
        if not scores:
            raise ValueError("there is no score; give at least one, such as {'alpha': [checkpoint token]}.")
        arrays = {name: numpy_of(each) for name, each in scores.items()}
        count = 1 if all(each.shape[:1] == (1,) for each in arrays.values()) else checkpoints
        values = {name: _checked(name, each, (count, len(words))) for name, each in arrays.items()}
        if true_relevance is not None:
            values[TRUTH] = _checked(TRUTH, numpy_of(true_relevance)[None], (1, len(words)))
        labels = checked_texts("predicted", predicted, count, "the scores")
        return cls(label, words, values, labels, checked_text("gold", gold), typed)

    def negative(self) -> list[str]:
        """The scores that are negative somewhere."""
        return [name for name, values in self.scores.items() if values.min() < 0]

    def packed(self, negative: set[str]) -> bytes:
        """The scores as compressed bytes; those in ``negative`` with their signs."""
        parts = [_stored(values, name in negative).ravel() for name, values in self.scores.items()]
        return deflate(np.concatenate(parts))

    def describe(self, negative: set[str]) -> dict[str, Any]:
        """What the widget must know besides the bytes."""
        return {
            "label": self.label,
            "tokens": list(self.tokens),
            "scores": [
                {"name": name, "moments": len(values), "scale": _scale(values), "signed": name in negative}
                for name, values in self.scores.items()
            ],
            "predicted": list(self.predicted),
            "gold": self.gold,
            "typed": self.typed,
        }


def _checked(name: str, score: np.ndarray, shape: tuple[int, int]) -> Float[np.ndarray, "checkpoint token"]:
    values = score.astype(np.float64)
    if values.shape != shape:
        raise ValueError(
            f"score {name!r} has shape {values.shape}; it must be [checkpoint token] = {shape}: a number for "
            "every token at every step, or for every token at the last. Cut the padding off."
        )
    if not np.isfinite(values).all():
        place = [int(i) for i in np.argwhere(~np.isfinite(values))[0]]
        raise ValueError(
            f"score {name!r} holds {values[tuple(place)]} at [checkpoint token] = {place}; it must be finite."
        )
    return values


def _scale(values: Float[np.ndarray, "checkpoint token"]) -> float:
    return float(np.abs(values).max()) or 1.0


def _stored(
    values: Float[np.ndarray, "checkpoint token"], signed: bool
) -> UInt8[np.ndarray, "checkpoint token"]:
    parts = values / _scale(values)
    if not signed:
        return quantise(parts)
    steps = np.maximum(np.rint(127 * np.sqrt(np.abs(parts))), 1) * np.sign(parts)
    return (128 + steps).astype(np.uint8)
