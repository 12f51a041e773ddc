"""A test with many names: does a measure find the name from which the model inferred the country?

The study shows one prompt, "My name is Putin, I am from", and one word, "Russia". Here, many names are put
into the study's text, and into a text with two names, one of which decides:

    My name is Olga, I am from                                          Russia, not Italy
    My friend is Olga and my name is Luigi. I am from                   Italy, not Russia

An item counts if the answer depends on the names: of two countries, the model gives the right one the higher
probability and, with the names exchanged, the other one. Then the source of the answer is known: the decisive
name. The exchanged text, with equally many tokens, is the counterfactual for measures that need one.

Candidates are the prompt's tokens without the query (rollout's residual would rank it first) and without
those that the study's filter leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlib.attribution.attention import from_attention, mean_rolled
from attnlib.attribution.registry import Methods, attributions
from attnlib.rollout.generative import informative
from book.chapters.generative.measures import CHANCE, MEAN_ROLLOUT
from book.chapters.generative.study import filtered_by_study

PEOPLE = {
    "Russia": ("Putin", "Vladimir", "Olga"),
    "Italy": ("Giovanni", "Luigi"),
    "Sweden": ("Sven", "Björn"),
    "France": ("Pierre", "Jean-Pierre"),
    "Germany": ("Hans", "Wolfgang", "Klaus"),
    "Mexico": ("Carlos", "Guadalupe"),
    "Brazil": ("João", "Thiago"),
    "Japan": ("Yuki", "Hiroshi", "Takeshi"),
    "China": ("Li", "Xiaoming", "Wei"),
    "India": ("Rajesh", "Priya", "Sanjay"),
    "Ireland": ("Patrick", "Seamus"),
    "Greece": ("Dimitris", "Yannis"),
    "Turkey": ("Mehmet", "Mustafa"),
    "Poland": ("Andrzej", "Kowalski"),
    "Spain": ("Juan", "José"),
    "Argentina": ("Santiago", "Diego"),
    "Egypt": ("Ahmed",),
    "Pakistan": ("Abdul",),
    "Vietnam": ("Nguyen",),
    "Hungary": ("László",),
    "Ukraine": ("Oleksandr",),
    "Norway": ("Lars",),
    "Finland": ("Mika",),
    "Netherlands": ("Wim",),
    "Ghana": ("Kwame",),
    "Nigeria": ("Chinedu",),
    "Kenya": ("Wanjiru",),
    "Ethiopia": ("Abebe",),
    "Israel": ("Moshe",),
    "Iran": ("Reza",),
    "Iraq": ("Hassan",),
    "Thailand": ("Somchai",),
    "Indonesia": ("Budi",),
    "Morocco": ("Fatima",),
}
"""Names that are common in a country; two of them, Putin and Abdul, are the study's."""

MOST = sum(map(len, PEOPLE.values()))
"""The number of names."""

FORMS = {
    "one name": "My name is {0}, I am from",
    "two names": "My friend is {1} and my name is {0}. I am from",
}
"""The texts, by the names in them; {0} is the decisive name."""

_NAMED = ("rollout", "mean attention", "gradient x embedding", "AttnLRP", "blank-out", "activation patching")
MEASURES: Mapping[str, Any] = {MEAN_ROLLOUT: from_attention(mean_rolled)} | {name: name for name in _NAMED}
"""The study's readout of rollout, rollout, mean attention, and measures that depend on the answer."""


class Item(NamedTuple):
    """A prompt of one of `FORMS`, the name that decides in it, and what is known of it.

    Attributes:
        ids: the tokens of the prompt, and of the common beginning of both countries.
        exchanged: the same with the two names exchanged.
        target: the first token by which the name's country differs from the other name's (`foil`).
        right: the tokens of the decisive name; `other`: those of the other name, if the text has it.
        candidates: the tokens that a measure ranks.
    """

    form: str
    name: str
    ids: Int[Tensor, " token"]
    exchanged: Int[Tensor, " token"]
    target: int
    foil: int
    right: Bool[Tensor, " token"]
    other: Bool[Tensor, " token"]
    candidates: Bool[Tensor, " token"]


def items(tokenizer: Any, n: int, form: str) -> list[Item]:
    """Items of a form for the first `n` names, each with a name of another country and as many tokens."""
    turns = range(max(map(len, PEOPLE.values())))
    people = [(name, home) for k in turns for home, several in PEOPLE.items() for name in several[k : k + 1]]
    people = people[:n]
    found: list[Item] = []
    for place, (name, country) in enumerate(people):
        others = [each for each in [*people[place + 1 :], *people[:place]] if each[1] != country]
        made = (_item(tokenizer, form, (name, country), other) for other in others)
        found += islice(filter(None, made), 1)
    if not found:
        raise ValueError(
            f"names should be more: no two of the first {n} have equally many tokens; there are {MOST}"
        )
    return found


def _item(tokenizer: Any, form: str, one: tuple[str, str], two: tuple[str, str]) -> Item | None:
    """The item of two people; None if exchanging their names changes the positions of tokens."""
    (name, country), (other, elsewhere) = one, two
    text, exchanged = FORMS[form].format(name, other), FORMS[form].format(other, name)
    said = [tokenizer(f" {each}", add_special_tokens=False)["input_ids"] for each in (country, elsewhere)]
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(*said, strict=False))
    same = [token for token, _ in shared]  # the common beginning of both countries is part of the prompt

    read = {each: tokenizer(each, return_offsets_mapping=True) for each in (text, exchanged)}
    ids, other_ids = (torch.tensor([*each["input_ids"], *same]) for each in read.values())

    def tokens_of(word: str, text: str) -> Bool[Tensor, " token"]:
        at, spans = text.find(word), read[text]["offset_mapping"]
        found = [at >= 0 and start < at + len(word) and end > at for start, end in spans]
        return torch.tensor(found + [False] * len(same))

    right, beside = tokens_of(name, text), tokens_of(other, text)
    if not torch.equal(right, tokens_of(other, exchanged)):
        return None
    candidates = informative(ids, tokenizer, filtered_by_study)
    candidates[-1] = False
    target, foil = (each[len(same)] for each in said)
    return Item(form, name, ids, other_ids, target, foil, right, beside, candidates)


def name_rows(
    model: Any, items: Sequence[Item], measures: Methods = MEASURES, *, only_answered: bool = True
) -> pd.DataFrame:
    """The results of every measure on every item that counts."""
    rows = []
    for item in items:
        about: dict[str, Any] = {"form": item.form, "name": item.name}
        answered = _hinges(model, item)
        rows.append(about | {"method": "model", "answered": answered})
        if only_answered and not answered:
            continue
        ids, other = (each.to(model.device) for each in (item.ids, item.exchanged))
        asked: dict[str, Any] = {"target": item.target, "foil": item.foil, "counterfactual": other}
        even = float((item.right & item.candidates).sum() / item.candidates.sum())
        chance = {"first": even, "share": even} | ({"right": 0.5} if item.other.any() else {})
        rows.append(about | {"method": CHANCE} | chance)
        for method, scores in attributions(model, ids, measures, **asked).items():
            scores = scores.detach().cpu().double().masked_fill(~item.candidates, 0)
            best = scores.masked_fill(~item.candidates, -torch.inf).argmax()
            sizes = scores.abs()
            found = {"first": bool(item.right[best]), "share": float(sizes[item.right].sum() / sizes.sum())}
            if item.other.any():
                found["right"] = bool(scores[item.right].sum() > scores[item.other].sum())
            rows.append(about | {"method": method} | found)
    return pd.DataFrame(rows)


@torch.no_grad()
def _hinges(model: Any, item: Item) -> bool:
    """Whether exchanging the names also exchanges which of the two countries is more probable."""
    texts = torch.stack([item.ids, item.exchanged]).to(model.device)
    logits = model(texts, use_cache=False).logits[:, -1]
    margin = logits[:, item.target] - logits[:, item.foil]
    return bool(margin[0] > 0 > margin[1])
