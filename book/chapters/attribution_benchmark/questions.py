"""Predictions of models whose sources are known: one, many of them, and rows of numbers about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of

T = TypeVar("T")

ID, OOD = "ID", "OOD"


@dataclass(frozen=True)
class Questions:
    """Predictions of one model, padded on the right, with the tokens that each of them needs.

    Attributes:
        setting: what is asked, in a few words: "addition", "needle".
        query: the position that predicts.
        target: what is right: a token, or a class.
        truth: the tokens that the algorithm needs, all of them candidates.
        candidates: the tokens that they are among: neither padding, nor what the query cannot see, nor the
            query's own.
        in_distribution: whether the model was trained on questions like this one.
        foil: what else might have stood there; None where nothing is near at hand.
        counterfactual: the same prompts with the tokens of `truth`, and others that have to follow, so that
            the right answer is another one (the foil, where there is one); None where there is none.
    """

    setting: str
    input_ids: Int64[Tensor, "item token"]
    attention_mask: Bool[Tensor, "item token"]
    query: Int64[Tensor, " item"]
    target: Int64[Tensor, " item"]
    truth: Bool[Tensor, "item token"]
    candidates: Bool[Tensor, "item token"]
    right: Bool[Tensor, " item"]
    in_distribution: Bool[Tensor, " item"]
    foil: Int64[Tensor, " item"] | None = None
    counterfactual: Int64[Tensor, "item token"] | None = None

    def __post_init__(self) -> None:
        if bool((self.truth & ~self.candidates).any()):
            raise ValueError(f"{self.setting}: tokens of `truth` should be candidates")

    def __len__(self) -> int:
        """How many predictions there are."""
        return len(self.input_ids)

    def where(self, chosen: Bool[Tensor, " item"] | Int64[Tensor, " some"]) -> Questions:
        """Some of them: where it is True, or by their places."""
        return self._each(lambda part: part[chosen])

    def to(self, device: torch.device | str) -> Questions:
        """The same on another device."""
        return self._each(lambda part: part.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Questions:
        parts: Any = {name: change(part) for name, part in vars(self).items() if isinstance(part, Tensor)}
        return replace(self, **parts)


def alike(*numbers: Int64[Tensor, " row"], most: int) -> Iterator[tuple[Any, ...]]:
    """Rows of which all these numbers are the same, so many at a time: the numbers, and which rows."""
    kinds = torch.stack(numbers, 1)
    for kind in kinds.unique(dim=0):
        for some in (kinds == kind).all(1).nonzero()[:, 0].split(most):
            yield *kind.tolist(), some


AT_ONCE = 8
"""Questions that a model answers at once: all logits of a language model's vocabulary take much memory."""


class Question(NamedTuple):
    """One prediction whose sources are known; see `Questions`."""

    ids: Int64[Tensor, " token"]
    query: int
    target: int
    truth: Bool[Tensor, " token"]
    candidates: Bool[Tensor, " token"]
    foil: int
    counterfactual: Int64[Tensor, " token"]
    in_distribution: bool


def form(text: str) -> str:
    """The form of a text, all letters and digits made the same: "xxxx+xxxx=xxxx" of "1240+4335=5575"."""
    return re.sub(r"\w", "x", text)


class Alike(Generic[T]):
    """Things sorted by their form, to draw one of the same form from."""

    def __init__(self, every: Iterable[T], form: Callable[[T], Hashable]) -> None:
        self.by_form = dict[Hashable, list[T]]()
        for each in every:
            self.by_form.setdefault(form(each), []).append(each)

    def draw(self, form: Hashable, fits: Callable[[T], bool], rng: np.random.Generator) -> T | None:
        """One of a form that fits, or None if there is none."""
        found: Sequence[T] = [each for each in self.by_form.get(form, []) if fits(each)]
        return found[int(rng.integers(len(found)))] if found else None


def some(n: int, *parts: Iterable[Question]) -> Iterator[Question]:
    """The first `n` of each part, each prompt once, in which a measure can be wrong, and right."""
    for part in parts:
        yield from islice(_different(part), n)


def _different(questions: Iterable[Question]) -> Iterator[Question]:
    seen = set[tuple[int, ...]]()
    for each in questions:
        prompt = (each.query, *each.ids.tolist())
        differs = each.ids != each.counterfactual
        if prompt not in seen and bool((each.candidates & ~each.truth).any() and differs[each.truth].any()):
            yield each
        seen.add(prompt)


def gathered(setting: str, model: nn.Module, questions: Iterable[Question], padding: int = 0) -> Questions:
    """Questions to one model, and which of them it answers rightly."""
    asked = [*questions]
    if not asked:
        raise ValueError(f"{setting}: there should be questions; allow more texts, or longer ones")

    def rows(name: str, value: int | bool) -> Tensor:
        return pad_sequence([getattr(each, name) for each in asked], True, value)

    sizes = torch.tensor([len(each.ids) for each in asked])
    numbers = {name: torch.tensor([getattr(each, name) for each in asked]) for name in _NUMBERS}
    parts: dict[str, Any] = numbers | {
        "input_ids": rows("ids", padding),
        "counterfactual": rows("counterfactual", padding),
        "attention_mask": torch.arange(int(sizes.max())) < sizes[:, None],
        "truth": rows("truth", False),
        "candidates": rows("candidates", False),
    }
    inputs = parts["input_ids"], parts["attention_mask"], parts["query"]
    right = predicted(model, *inputs) == parts["target"]
    return Questions(setting, **parts, right=right)


_NUMBERS = ("query", "target", "foil", "in_distribution")


@torch.no_grad()
def predicted(
    model: nn.Module,
    input_ids: Int64[Tensor, "item token"],
    attention_mask: Bool[Tensor, "item token"],
    query: Int64[Tensor, " item"],
) -> Int64[Tensor, " item"]:
    """What a model holds most probable at each item's query."""
    device, found = next(model.parameters()).device, list[Tensor]()
    with evaluating(model):
        for rows in torch.arange(len(query)).split(AT_ONCE):
            ids, mask = (each[rows].to(device) for each in (input_ids, attention_mask))
            first = int(query[rows].min())
            logits = logits_of(model, ids, mask, first)
            found.append(logits[torch.arange(len(rows)), query[rows].to(device) - first].argmax(-1).cpu())
    return torch.cat(found)


def in_random_order(rows: Bool[Tensor, " token"], rng: np.random.Generator) -> Sequence[int]:
    """The places where a row is True."""
    return rng.permutation(rows.nonzero()[:, 0].numpy()).tolist()


def but(mask: Bool[Tensor, " token"], query: int) -> Bool[Tensor, " token"]:
    """A mask without the query's own token."""
    without = mask.clone()
    without[query] = False
    return without


def row_table(
    questions: Questions,
    method: str,
    metric: str,
    value: Float[np.ndarray, " item"],
    chance: Float[np.ndarray, " item"] | float,
    perfect: Float[np.ndarray, " item"] | float,
) -> pd.DataFrame:
    """A row per question, of one measure and one metric."""
    about = {
        "setting": questions.setting,
        "split": np.where(questions.in_distribution.cpu().numpy(), ID, OOD),
        "right": questions.right.cpu().numpy(),
        "item": np.arange(len(questions)),
        "method": method,
        "metric": metric,
    }
    return pd.DataFrame(about | {"value": value, "chance": chance, "perfect": perfect})
