r"""Perturbations of prompts: a model's answers if tokens are removed, wholly or in part, and their readings.

An *operator* removes tokens:

    mask        hidden as a key, for every query in all layers; the others keep their positions
    delete      left out, and the others move together
    random      replaced by a random candidate of all questions
    replace     replaced by the token at the same place in another question, if possible of the same length
    resample    replaced by the token at the same place in the question's counterfactual

and one of three *readings* measures the answer y on the perturbed prompt, with z the foil:

    p           p(y) / (p(y) + p(z))
    margin      log p(y) - log p(z)
    log p       log p(y)

Tokens that are no candidates (the query, padding, `<bos>`) always stay.

*Soft* protocols remove a part of every token: channels of its embedding, the more the lower its score.

With $a_k$ the scores of a question's candidates, from 0 (the lowest) to 1 (the highest), every channel of the
embedding of candidate $k$ stays with probability $q_k$, and is 0 else; the other tokens stay whole. With
$p(q)$ the probability of the answer, the mean over draws, and $l(q) = \max(0, p(1) - p(q))$ the loss,

    Soft-NS    max(0, l(0) - l(a)) / l(0)            large: tokens with high scores are sufficient
    Soft-NC    l(1 - a) / l(0)                       large: tokens with high scores are necessary

A measure with high scores on average keeps more channels, whatever its ranking. "At a fixed share" avoids
this: $a$ is scaled to a mean of 1/2 over the candidates, with a maximum of 1 (if too few candidates score
above 0, these get 1, and the others equal parts of the rest).

Channels are removed before positions are added, so that positional information stays intact: the largest
positional channels determine the norm in a compiled model.

References:
    Zhao and Aletras 2023, *Incorporating attribution importance for improving faithfulness metrics*, section
    3. Huang and Chan 2026, *Faithfulness evaluation for decoder-only LLM attributions with controlled
    retained information* (arXiv 2601.03089): the share. The way of scaling scores to it is ours.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt64
from torch import Tensor, nn

from attnlib.attribution.stream import embedding_of, passing
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of
from attnlib.models.causal import is_causal
from attnlib.stats.plausibility import comparable
from book.chapters.attribution_benchmark.measures import logits_seeing
from book.chapters.attribution_benchmark.questions import Questions, alike

READINGS = ("p", "margin", "log p")
"""The readings of an answer; see the module."""

MASK, DELETE = "mask", "delete"

Ids = Int[np.ndarray, "item token"]
Kept = Bool[np.ndarray, "item variant token"]


def _random(questions: Questions, rng: np.random.Generator) -> Ids:
    pool = questions.input_ids[questions.candidates].numpy()
    return rng.choice(pool, size=tuple(questions.input_ids.shape))


def _same_place(questions: Questions, rng: np.random.Generator) -> Ids:
    """The tokens at the same places in random other questions, if possible of the same length."""
    ids, candidates = questions.input_ids.numpy(), questions.candidates.numpy()
    lengths = questions.attention_mask.sum(1).numpy()
    alike = lengths[:, None] == lengths
    chances = rng.random((len(ids), *ids.shape)) + alike[..., None]  # item, other item, place
    chances[~np.broadcast_to(candidates, chances.shape)] = -1
    itself = np.arange(len(ids))
    chances[itself, itself] = -0.5  # where no other question has a token there, it stays
    return np.take_along_axis(ids, chances.argmax(1), 0)


def _counterfactual(questions: Questions, rng: np.random.Generator) -> Ids:
    if questions.counterfactual is None:
        raise ValueError(f"{questions.setting} has no counterfactuals, so nothing can be resampled from them")
    return questions.counterfactual.numpy()


FILLINGS: dict[str, Callable[[Questions, np.random.Generator], Ids]] = {
    "random": _random,
    "replace": _same_place,
    "resample": _counterfactual,
}
"""Operators that replace a removed token: name -> function that returns the replacements."""

OPERATORS = (MASK, DELETE, *FILLINGS)
"""Ways to remove tokens; see the module."""


class Case:
    """A model and its questions, to be evaluated on many subsets of their tokens; answers are cached.

    Answers are means over `draws` random replacements of a token. Every question needs a foil, and masking
    needs a model whose attention mask leaves the positions of the other tokens unchanged.
    """

    def __init__(
        self, model: nn.Module, questions: Questions, *, draws: int = 2, seed: int = 0, batch_size: int = 256
    ) -> None:
        if questions.foil is None or not len(questions):
            raise ValueError(f"{questions.setting}: there should be questions, each with a foil")
        self.model, self.questions, self.batch_size = model, questions.to("cpu"), batch_size
        self.seed, self.draws = seed, draws
        self.candidates: Bool[np.ndarray, "item token"] = self.questions.candidates.numpy()
        self.truth: Bool[np.ndarray, "item token"] = self.questions.truth.numpy()
        self._causal = is_causal(model)
        self._device = next(model.parameters()).device
        self._known: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        coins = np.random.default_rng(seed)
        self._of_token = coins.integers(2**64, size=self.candidates.shape[1], dtype=np.uint64)
        self._of_item = coins.integers(2**64, size=len(self.candidates), dtype=np.uint64)

    def answers(self, operator: str, reading: str, kept: Kept) -> Float[np.ndarray, "item variant"]:
        """The reading of the answer if only the candidates `kept` stay."""
        for name, there in ((operator, OPERATORS), (reading, READINGS)):
            if name not in there:
                raise ValueError(f"should be one of {', '.join(there)}; got {name!r}")
        left = (kept | ~self.candidates[:, None]) & self.questions.attention_mask.numpy()[:, None]
        keys = self._keys(left)
        new, rows = np.unique(keys, return_index=True)
        known, found = self._known.get(operator, (new[:0], np.zeros((0, len(READINGS)))))
        unknown = ~np.isin(new, known)
        if unknown.any():
            item, variant = np.divmod(rows[unknown], keys.shape[1])
            known = np.concatenate([known, new[unknown]])
            found = np.concatenate([found, self._asked(operator, item, left[item, variant])])
            order = np.argsort(known)
            known, found = known[order], found[order]
            self._known[operator] = known, found
        return found[np.searchsorted(known, keys), READINGS.index(reading)]

    def _keys(self, left: Kept) -> UInt64[np.ndarray, "item variant"]:
        """A cache key for every prompt: a sum of random numbers, so that two prompts collide once in 2^64."""
        sums = np.where(left, self._of_token, np.uint64(0)).sum(-1, dtype=np.uint64)
        return sums + self._of_item[:, None]

    def _asked(
        self, operator: str, item: Int[np.ndarray, " row"], left: Bool[np.ndarray, "row token"]
    ) -> Float[np.ndarray, "row reading"]:
        q, which = self.questions, torch.from_numpy(item)
        ids, query, seen = q.input_ids[which], q.query[which], torch.from_numpy(left)
        if operator == MASK:
            return self.readings(ids, self.ends(which), query, which, seen)
        if operator == DELETE:
            order = (~seen).int().argsort(dim=1, stable=True)  # remaining tokens move to the beginning
            before = seen & (torch.arange(seen.shape[1]) < query[:, None])
            packed, moved = ids.gather(1, order), before.sum(1)
            return self.readings(packed, moved + 1 if self._causal else seen.sum(1), moved, which)
        rng, once = np.random.default_rng(self.seed), operator == "resample"
        found = [
            torch.where(seen, ids, torch.from_numpy(FILLINGS[operator](q, rng))[which])
            for _ in range(1 if once else self.draws)
        ]
        ends = self.ends(which)
        return np.mean([self.readings(each, ends, query, which) for each in found], axis=0)

    def ends(self, which: Int[Tensor, " row"]) -> Int[Tensor, " row"]:
        """The number of tokens that the model reads: all, or those up to the query of a causal model."""
        q = self.questions
        return (q.query + 1 if self._causal else q.attention_mask.sum(1))[which]

    @torch.no_grad()
    def readings(
        self,
        ids: Int[Tensor, "row token"],
        ends: Int[Tensor, " row"],
        query: Int[Tensor, " row"],
        which: Int[Tensor, " row"],
        seen: Bool[Tensor, "row token"] | None = None,
    ) -> Float[np.ndarray, "row reading"]:
        """All readings of the answers to prompts of these tokens, up to their ends."""
        q, found = self.questions, torch.zeros(len(ids), len(READINGS), dtype=torch.float64)
        assert q.foil is not None
        with evaluating(self.model):
            for end, rows in alike(ends, most=self.batch_size):
                logits = self._logits(
                    ids[rows, :end], query[rows], None if seen is None else seen[rows, :end]
                )
                log_p = logits.cpu().double().log_softmax(-1)
                right, foil = (log_p.gather(1, each[which[rows], None])[:, 0] for each in (q.target, q.foil))
                found[rows] = torch.stack([(right - foil).sigmoid(), right - foil, right], 1)
        return found.numpy()

    def _logits(
        self,
        ids: Int[Tensor, "row token"],
        query: Int[Tensor, " row"],
        seen: Bool[Tensor, "row token"] | None,
    ) -> Float[Tensor, "row class"]:
        ids, first = ids.to(self._device), int(query.min())
        if seen is None:
            logits = logits_of(self.model, ids, start=first)
        elif "attention_mask" in inspect.signature(self.model.forward).parameters:
            logits = logits_seeing(self.model, ids, seen.to(self._device), first)
        else:
            raise ValueError(
                f"{type(self.model).__name__} does not take a mask, so tokens cannot be hidden from it: "
                f"take another operator than {MASK!r}"
            )
        return logits[torch.arange(len(ids)), query.to(logits.device) - first]


def single_effect(case: Case, operator: str, reading: str) -> Float[np.ndarray, "item token"]:
    """The loss if one candidate alone is removed; 0 for tokens that are no candidates."""
    n = case.candidates.shape[1]
    kept = np.concatenate([np.ones((1, n), bool), ~np.eye(n, dtype=bool)])
    answers = case.answers(operator, reading, np.repeat(kept[None], len(case.candidates), 0))
    return np.where(case.candidates, answers[:, :1] - answers[:, 1:], 0.0)


Shares = Float[np.ndarray, "item variant token"]
Numbers = Float[np.ndarray, "item measure"]

FIXED = 0.5
"""The mean share of channels that stays "at a fixed share"."""

ITEMS_AT_ONCE = 16
"""Questions for which random numbers are in memory at a time."""


def from_0_to_1(scores: Shares, candidates: Bool[np.ndarray, "item token"]) -> Shares:
    """The scores $a$ from 0 to 1; NaN counts as the lowest score, and constant scores become 0."""
    known = np.stack([comparable(scores[:, m], candidates) for m in range(scores.shape[1])], 1)
    inside = np.broadcast_to(candidates[:, None], known.shape) & np.isfinite(known)
    low = np.where(inside, known, np.inf).min(-1, keepdims=True)
    high = np.where(inside, known, -np.inf).max(-1, keepdims=True)
    width = np.where(high > low, high - low, 1.0)
    return np.where(inside, (np.where(inside, known, 0.0) - np.where(np.isfinite(low), low, 0)) / width, 0.0)


def at_share(a: Shares, candidates: Bool[np.ndarray, "item token"], share: float = FIXED) -> Shares:
    """The scores $a$ scaled to a mean of `share` over the candidates; see the module."""
    inside = np.broadcast_to(candidates[:, None], a.shape)
    wanted = share * inside.sum(-1, keepdims=True)
    positive = inside & (a > 0)
    low, high = np.zeros_like(wanted), np.full_like(wanted, 1e12)
    for _ in range(100):  # the sum grows with the factor
        factor = np.sqrt((low + 1e-12) * high)
        enough = np.minimum(1, factor * a).sum(-1, keepdims=True) >= wanted
        low, high = np.where(enough, low, factor), np.where(enough, factor, high)
    found = np.where(positive, np.minimum(1, high * a), 0.0)
    few = positive.sum(-1, keepdims=True) < wanted
    rest = (wanted - positive.sum(-1, keepdims=True)) / np.maximum(
        (inside & ~positive).sum(-1, keepdims=True), 1
    )
    return np.where(few, np.where(positive, 1.0, np.where(inside, rest, 0.0)), found)


def softly(case: Case, stay: Shares) -> Float[np.ndarray, "item variant"]:
    """The probability of the answer if every channel of a candidate stays with the probability `stay`."""
    width = next(embedding_of(case.model).parameters()).shape[1]
    q, found, n = case.questions, np.zeros(stay.shape[:2]), stay.shape[1]
    chances = torch.from_numpy(np.where(case.candidates[:, None], stay, 1.0)).float()
    for draw in range(case.draws):
        rng = np.random.default_rng([case.seed, draw])
        for items in torch.arange(len(stay)).split(ITEMS_AT_ONCE):
            coins = torch.from_numpy(rng.random((len(items), stay.shape[2], width), dtype=np.float32))
            item, variant = torch.arange(len(items) * n) // n, torch.arange(len(items) * n) % n
            for end, rows in alike(case.ends(items[item]), most=case.batch_size):
                some, which = items[item[rows]], variant[rows]
                kept = coins[item[rows], :end] < chances[some, which, :end, None]
                with passing(case.model, partial(_times, kept)):
                    ends = torch.full((len(some),), end)
                    read = case.readings(q.input_ids[some], ends, q.query[some], some)
                found[some.numpy(), which.numpy()] += np.exp(read[:, READINGS.index("log p")]) / case.draws
    return found


def _times(kept: Bool[Tensor, "row token width"], embedded: Tensor) -> Tensor:
    return embedded * kept.to(embedded.device)


def _lost(case: Case, stay: Shares) -> tuple[Numbers, Numbers]:
    """The losses $l$ at these shares, and the loss with no channel left."""
    ends = np.ones((len(stay), 2, stay.shape[-1])) * [[[1.0], [0.0]]]
    p = softly(case, np.concatenate([ends, stay], 1))
    lost = np.maximum(0, p[:, :1] - p)
    return lost[:, 2:], lost[:, 1:2]


def soft_ns(fixed: bool, case: Case, scores: Shares) -> Numbers:
    """Soft normalised sufficiency; 0 where nothing is lost without any channel."""
    lost, most = _lost(case, _shares(fixed, case, scores))
    return np.divide(np.maximum(0, most - lost), most, out=np.zeros_like(lost), where=most > 0)


def soft_nc(fixed: bool, case: Case, scores: Shares) -> Numbers:
    """Soft normalised comprehensiveness; 0 where nothing is lost without any channel."""
    lost, most = _lost(case, 1 - _shares(fixed, case, scores))
    return np.divide(lost, most, out=np.zeros_like(lost), where=most > 0)


def _shares(fixed: bool, case: Case, scores: Shares) -> Shares:
    a = from_0_to_1(scores, case.candidates)
    return at_share(a, case.candidates) if fixed else a


SOFT: dict[str, Callable[[Case, Shares], Numbers]] = {
    "Soft-NS": partial(soft_ns, False),
    "Soft-NC": partial(soft_nc, False),
    "Soft-NS at a fixed share": partial(soft_ns, True),
    "Soft-NC at a fixed share": partial(soft_nc, True),
}
"""Name -> soft protocol; these have neither an operator nor a reading."""
