"""The base of explorers of scores: a number for every place (token or pair of tokens) at every checkpoint.

Let ``s`` be the largest magnitude of a score in a document over all checkpoints. A score that is nowhere
negative is stored as ``round(255 sqrt(v / s))`` (`attnlib.widgets.encoding`), with an error of at most
``sqrt(s v) / 255 + s / 255^2``. A score that is negative somewhere in any document is stored as
``128 + round(127 sign(v) sqrt(|v| / s))``, with an error of at most ``sqrt(s |v|) / 127 + s / 127^2``. Only
an exact zero is read as zero. The order of the bytes is [score checkpoint place].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import traitlets
from jaxtyping import Float, UInt8

from attnlib.checks import check_finite, check_one_of, check_shape, check_some
from attnlib.stats.ragged import numpy_of
from attnlib.widgets.encoding import check_tokens, deflate, quantise
from attnlib.widgets.explorer import Explorer, Item, strongest
from attnlib.widgets.naming import check_label, check_texts, counted
from attnlib.widgets.over_training import OverTraining

TRUTH = "true relevance"


@dataclass(frozen=True)
class Scores:
    """Scores of the places of an item over training, checked.

    Attributes:
        values: by name, float ``[checkpoint place]``; the true relevance has one checkpoint, which holds for
            all.
        signed: the names of the scores that are shown with their signs.
    """

    values: dict[str, np.ndarray]
    checkpoints: int
    signed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, scores: Mapping[str, Any], places: int, checkpoints: int, truth: Any = None) -> "Scores":
        """Checks scores ``[checkpoint place]``, and the true relevance ``[place]``, if it is known."""
        check_some(scores=scores)
        arrays = {name: numpy_of(each) for name, each in scores.items()}
        count = 1 if all(each.shape[:1] == (1,) for each in arrays.values()) else checkpoints
        values = {name: _check_score(name, each, (count, places)) for name, each in arrays.items()}
        if truth is not None:
            values[TRUTH] = _check_score(TRUTH, numpy_of(truth)[None], (1, places))
        return cls(values, count)

    def negative(self) -> list[str]:
        """The names of the scores that are negative somewhere."""
        return [name for name, values in self.values.items() if values.min() < 0]

    @property
    def packed(self) -> bytes:
        """The bytes of all scores, compressed; scores in ``signed`` keep their signs."""
        parts = [_stored(values, name in self.signed).ravel() for name, values in self.values.items()]
        return deflate(np.concatenate(parts))

    def describe(self) -> dict[str, Any]:
        """What the front end needs besides the bytes, as JSON can hold it."""
        return {
            "scores": [
                {"name": name, "moments": len(values), "scale": _scale(values), "signed": name in self.signed}
                for name, values in self.values.items()
            ],
            "checkpoints": self.checkpoints,
            "places": next(iter(self.values.values())).shape[1],
        }


@dataclass(frozen=True)
class Scored(Item):
    """An item whose places have scores."""

    label: str
    scores: Scores

    _packed = ("scores",)

    @property
    def packed(self) -> bytes:
        """The scores, compressed."""
        return self.scores.packed

    def describe(self) -> dict[str, Any]:
        """What the front end needs besides the bytes, as JSON can hold it."""
        return super().describe() | self.scores.describe()


@dataclass(frozen=True)
class Document(Scored):
    """A document, the scores of its tokens, and the model's prediction at each checkpoint."""

    tokens: tuple[str, ...]
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
        """Checks the parts of a document, which `DynamicsExplorer` describes."""
        words = check_tokens("tokens", tokens)
        values = Scores.of(scores, len(words), checkpoints, true_relevance)
        labels = check_texts("predicted", predicted, values.checkpoints, "the scores")
        return cls(label, values, words, labels, check_label("gold", gold), typed)


class ScoresExplorer(Explorer):
    """An explorer whose items have scores; a score that is negative in one item is signed in all."""

    token = traitlets.Int(-1, help="The chosen token; -1 for none.").tag(sync=True, addressed=True)

    def _places_within(self) -> dict[str, tuple[int, str]]:
        return super()._places_within() | {"token": (self._shown["places"], "none")}

    def _show(self, items: Sequence[Scored], at: int = 0) -> None:
        signed = frozenset(name for each in items for name in each.scores.negative())
        super()._show([replace(each, scores=replace(each.scores, signed=signed)) for each in items], at)


class ScoresOverTraining(OverTraining, ScoresExplorer):
    """An explorer with the traits that ``scores_view.js`` reads; a subclass chooses the front end."""

    shown = traitlets.List(traitlets.Unicode(), help="Names of the scores shown.").tag(
        sync=True, addressed=True
    )
    colours = strongest("whole")

    def __init__(self, *given: Any, shown: Sequence[str] | None, **how: Any) -> None:
        super().__init__(*given, **how)
        names = self._names()
        for name in names if shown is None else shown:
            check_one_of(names, shown=name)
        self.shown = names if shown is None else list(shown)

    def _reply(self, text: str) -> None:
        before = self._names()
        with self.hold_sync():
            super()._reply(text)
            self.shown = [*self.shown, *(name for name in self._names() if name not in before)]

    def _sizes(self) -> str:
        sizes = f"{counted(len(self.items), self._noun)}, {counted(len(self.steps), 'checkpoint')}"
        return f"{sizes}, scores {', '.join(self._scores())}"

    def _scores(self) -> list[str]:
        """Every score of any item, in the order of their first appearance."""
        return list(dict.fromkeys(name for each in self._all for name in each.scores.values))

    def _names(self) -> list[str]:
        """The names of everything that can be shown."""
        return self._scores()


def _check_score(
    name: str, score: np.ndarray, shape: tuple[int, int]
) -> Float[np.ndarray, "checkpoint token"]:
    values = score.astype(np.float64)
    axes = "[checkpoint token]"
    check_shape(shape, axes, **{f"score {name!r}": values})
    check_finite(axes, **{f"score {name!r}": values})
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
