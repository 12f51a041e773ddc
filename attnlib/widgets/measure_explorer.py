"""Two attribution measures side by side, on predictions whose sources may be known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import traitlets
from jaxtyping import Bool

from attnlib.checks import check, check_between, check_mask, check_one_of, check_shape
from attnlib.stats.plausibility import comparable
from attnlib.stats.ragged import numpy_of
from attnlib.widgets.encoding import Array, check_tokens
from attnlib.widgets.front_end import front_end
from attnlib.widgets.naming import check_label, counted, named
from attnlib.widgets.scores import Scored, Scores, ScoresExplorer


@dataclass(frozen=True)
class Question(Scored):
    """A prompt, the scores of its tokens by several measures, and the true sources of the prediction.

    Attributes:
        truth: positions of the true sources; None where they are not known.
        candidates: positions of the tokens that a measure ranks, the sources among them.
        query: the position that predicts.
        found: by measure, the rank of each source among the candidates, from 1; equal scores share the
            last of their ranks.
        missing: by measure, why its scores are missing.
    """

    tokens: tuple[str, ...]
    predicted: str
    expected: str | None
    truth: tuple[int, ...] | None
    candidates: tuple[int, ...]
    query: int
    found: dict[str, tuple[int, ...]]
    missing: dict[str, str]

    @classmethod
    def of(
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
        """Checks and ranks the parts of a question, which `MeasureExplorer` describes."""
        words = check_tokens("tokens", tokens)
        flat = {name: numpy_of(score) for name, score in scores.items()}
        n = len(words)
        needed = _mask("truth", np.zeros(n, bool) if truth is None else truth, n)
        among = _mask("candidates", np.ones(n, bool) if candidates is None else candidates, n)
        check(not (needed & ~among).any(), "truth must be candidates only", np.flatnonzero(needed & ~among))
        check_between(0, n - 1, query=query)
        for name, score in flat.items():
            check_shape((n,), "[token]", **{f"score {name!r}": score})
        return cls(
            label,
            Scores.of({name: np.where(among, score, 0.0)[None] for name, score in flat.items()}, n, 1),
            words,
            check_label("predicted", predicted) or "",
            check_label("expected", expected),
            None if truth is None else tuple(np.flatnonzero(needed).tolist()),
            tuple(np.flatnonzero(among).tolist()),
            query,
            {name: _places(score, needed, among) for name, score in flat.items()},
            dict(missing or {}),
        )

    def parted(self, first: str, second: str) -> float:
        """The mean difference between two measures' ranks of a source, over the number of candidates."""
        places = zip(self.found.get(first, ()), self.found.get(second, ()), strict=False)
        apart = [abs(one - other) / len(self.candidates) for one, other in places]
        return sum(apart) / max(len(apart), 1)


class MeasureExplorer(ScoresExplorer):
    """The scores of two measures for the same prediction, token by token, with known sources outlined.

    Each side is the prompt in the colours of one measure, which a drop-down list chooses: blue for tokens
    that speak for the prediction, orange for those against it, strongest at the measure's own largest score.
    Below stand the ranks of the sources among all candidates. Tokens that are no candidates are faint and
    have no colour. Nothing here needs a kernel: a built page shows the same.

    Args:
        questions: ``{label: {"tokens": [...], "scores": {"rollout": ..., "blank-out": ...}, "truth": ...,
            "query": 7, "candidates": ..., "predicted": "...", "expected": "...", "missing": {...}}}``. Every
            score is float ``[token]``, torch or numpy, finite at candidates; truth and candidates are bool
            ``[token]``, query is the position that predicts, and missing has the reason why a measure has no
            scores. Only tokens, scores and query are required; without candidates, all tokens are candidates.
        title: a line of text above the picture.
        item: index of the question shown first; by default, the one where the two measures differ most in
            the ranks of the sources, relative to the number of candidates.
        first: the measure on the left; by default, the first one.
        second: the measure on the right; by default, the second one.
        noun: what the page calls a measure.
        written: where each question is about one word of the same text, that word, which a reader can click;
            "" for a question about no single word, which is only in the drop-down list.

    Raises:
        ValueError: shapes that disagree, NaN at a candidate, a measure that no question has; the message
            names the question. Or there is not a word for each question.
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

    names = traitlets.List(traitlets.Unicode(), help="Every method of any question.").tag(sync=True)
    first = traitlets.Unicode(help="The method on the left.").tag(sync=True, addressed=True)
    second = traitlets.Unicode(help="The method on the right.").tag(sync=True, addressed=True)

    noun = traitlets.Unicode(help="What gives the scores.").tag(sync=True)
    written = traitlets.List(traitlets.Unicode(), help="The word of each question, of one text.").tag(
        sync=True
    )

    def __init__(
        self,
        questions: Mapping[str, Mapping[str, Any]],
        title: str = "",
        *,
        item: int | None = None,
        first: str | None = None,
        second: str | None = None,
        noun: str = "Method",
        written: Sequence[str] = (),
    ) -> None:
        fits = not written or len(written) == len(questions)
        check(fits, f"written must be {len(questions)} words, one per question", written)
        super().__init__(title=title, noun=noun, written=[*written])
        items = named(Question.of, "question", questions)
        every = list(dict.fromkeys(name for each in items for name in (*each.scores.values, *each.missing)))
        self.names = every
        self.first = every[0] if first is None else first
        self.second = every[min(1, len(every) - 1)] if second is None else second
        parted = [each.parted(self.first, self.second) for each in items]
        self._show(items, parted.index(max(parted)) if item is None else item)

    @traitlets.validate("first", "second")
    def _known(self, proposal: dict[str, Any]) -> str:
        check_one_of(self.names, **{proposal["trait"].name: proposal["value"]})
        return str(proposal["value"])

    def _sizes(self) -> str:
        return f"{counted(len(self.items), 'question')}, measures {', '.join(self.names)}"


def _mask(name: str, given: Array, n: int) -> Bool[np.ndarray, " token"]:
    mask = numpy_of(given)
    check_mask((n,), "[token]", **{name: mask})
    return mask


def _places(score: np.ndarray, needed: np.ndarray, among: np.ndarray) -> tuple[int, ...]:
    values = comparable(score[None], among[None])[0]
    return tuple((values[among] >= values[needed][:, None]).sum(1).tolist())
