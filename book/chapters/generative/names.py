"""Names, not one example: does a measure name the name that the country was said by?

The study shows one prompt, "My name is Putin, I am from", and one word, "Russia". Here are many names, in its
words and in a text that holds two of them, one of which decides:

    My name is Olga, I am from                                          Russia, not Italy
    My friend is Olga and my name is Luigi. I am from                   Italy, not Russia

An item counts if the answer hinges on the names: of the two countries the model gives the right one the
higher probability, and with the names exchanged, the other. Then what it drew on is known: the name that
decides. The exchanged text, which has as many tokens, is the counterfactual of the measures that need one.

Candidates are the prompt's tokens without the query (rollout's residual would put it first) and without those
that the study's filter passes over.
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
"""How many there are."""

FORMS = {
    "one name": "My name is {0}, I am from",
    "two names": "My friend is {1} and my name is {0}. I am from",
}
"""The texts, by what they hold; {0} is the name that decides."""

_NAMED = ("rollout", "mean attention", "gradient x embedding", "AttnLRP", "blank-out", "activation patching")
MEASURES: Mapping[str, Any] = {MEAN_ROLLOUT: from_attention(mean_rolled)} | {name: name for name in _NAMED}
"""The study's reading of rollout, what it is made of, and measures that ask for the answer."""


class Item(NamedTuple):
    """A prompt of one of `FORMS`, the name that decides in it, and what is known of it.

    Attributes:
        ids: of the prompt, and of what both countries begin with.
        exchanged: of the same text with the other name in its place (and it in the other's).
        target: the token that tells the name's country from the other name's, `foil`.
        right: the tokens of the name that decides; `other`: of the other one, none in a text of one name.
        candidates: what a measure may name.
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
    """A form with each of the first `n` names, beside the next one of another country and as many tokens."""
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
    """A text of these people; None if the exchange of their names changes the places of tokens."""
    (name, country), (other, elsewhere) = one, two
    text, exchanged = FORMS[form].format(name, other), FORMS[form].format(other, name)
    said = [tokenizer(f" {each}", add_special_tokens=False)["input_ids"] for each in (country, elsewhere)]
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(*said, strict=False))
    same = [token for token, _ in shared]  # what both countries begin with is given, too

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
    """What every measure says of every item that counts."""
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
    """Whether the names' exchange exchanges which of the two countries is the likelier."""
    texts = torch.stack([item.ids, item.exchanged]).to(model.device)
    logits = model(texts, use_cache=False).logits[:, -1]
    margin = logits[:, item.target] - logits[:, item.foil]
    return bool(margin[0] > 0 > margin[1])
