"""Texts of names: who decides, with whom a name is exchanged, and what is asked of a measure."""

import pandas as pd
import pytest
import torch

from attnlib.models.pretrained import TINY, load_language_model
from book.chapters.generative import names
from book.chapters.generative.measures import CHANCE
from book.chapters.generative.names import FORMS, MOST, PEOPLE, items, name_rows
from book.chapters.generative.tables import names_table


@pytest.fixture(scope="module")
def tiny():
    return load_language_model(TINY)


def letters(tokenizer, ids) -> str:
    return tokenizer.decode(ids, skip_special_tokens=True).replace(" ", "")


@pytest.mark.parametrize("form", FORMS)
def test_an_item_marks_the_name_that_decides(tiny, form) -> None:
    _, tokenizer = tiny
    # Letters that this tokenizer does not know are none of a name's.
    spelt = {name: letters(tokenizer, tokenizer(name)["input_ids"]) for of in PEOPLE.values() for name in of}
    home = {spelt[name]: country for country, several in PEOPLE.items() for name in several}
    found = items(tokenizer, MOST, form)
    assert len({item.name for item in found}) == len(found) > 10
    for item in found:
        assert letters(tokenizer, item.ids[item.right]) == spelt[item.name]
        partner = letters(tokenizer, item.exchanged[item.right])
        assert home[partner] != home[spelt[item.name]] and len(item.ids) == len(item.exchanged)
        if form == "two names":
            assert letters(tokenizer, item.ids[item.other]) == partner
        assert not (item.right & item.other).any() and item.other.any() == (form == "two names")
        assert item.target != item.foil and not item.candidates[-1] and item.candidates[item.right].any()
        countries = [f" {home[name]}" for name in (spelt[item.name], partner)]
        target, foil = (tokenizer(each, add_special_tokens=False)["input_ids"] for each in countries)
        at = next(place for place, (one, two) in enumerate(zip(target, foil, strict=False)) if one != two)
        assert (item.target, item.foil) == (target[at], foil[at])
        assert item.ids.tolist()[len(item.ids) - at :] == target[:at]


def test_first_names_are_of_as_many_countries(tiny) -> None:
    _, tokenizer = tiny
    first = {item.name for item in items(tokenizer, len(PEOPLE), "one name")}
    assert first <= {of_it[0] for of_it in PEOPLE.values()}
    with pytest.raises(ValueError, match="no two of the first 1 have equally many tokens; there are 55"):
        items(tokenizer, 1, "one name")


def test_the_truth_is_right_of_everything_and_its_opposite_of_nothing(tiny) -> None:
    model, tokenizer = tiny
    asked = items(tokenizer, MOST, "two names")[:5]
    truth = {tuple(item.ids.tolist()): item.right.double()[None] for item in asked}
    measures = {
        "truth": lambda model, ids, *_, **__: truth[tuple(ids[0].tolist())],
        "opposite": lambda model, ids, *_, **__: -truth[tuple(ids[0].tolist())],
    }
    table = names_table(name_rows(model, asked, measures, only_answered=False))
    value = table.set_index(["method", "asked"])["value"]
    assert (value["truth"][["first", "share", "right"]] == 1).all()
    assert (value["opposite"][["first", "right"]] == 0).all() and value["opposite", "share"] == 1
    n = table.set_index(["method", "asked"])["n"]
    assert (n == 5).all() and value[CHANCE, "right"] == 0.5
    even = sum(float((i.right & i.candidates).sum() / i.candidates.sum()) for i in asked) / 5
    assert value[CHANCE, "first"] == pytest.approx(even)


class Knows(torch.nn.Module):
    """Prefers one token of two, or by what the text holds."""

    device = torch.device("cpu")

    def __init__(self, item, knows: bool) -> None:
        super().__init__()
        self.item, self.knows = item, knows

    def forward(self, ids, use_cache):
        logits = torch.zeros(*ids.shape, 1 + max(self.item.target, self.item.foil))
        logits[0, -1, self.item.target] = 1
        logits[1, -1, self.item.foil if self.knows else self.item.target] = 1
        return type("Output", (), {"logits": logits})


@pytest.mark.parametrize("knows", [True, False])
def test_an_item_counts_if_the_answer_hinges_on_the_name(tiny, knows) -> None:
    _, tokenizer = tiny
    item = items(tokenizer, MOST, "one name")[0]
    assert names._hinges(Knows(item, knows), item) == knows
    rows = name_rows(Knows(item, False), [item])
    assert rows.to_dict("records") == [
        {"form": "one name", "name": item.name, "method": "model", "answered": False}
    ]


def test_a_table_has_no_interval_for_chance_and_nothing_where_nothing_counted() -> None:
    rows = pd.DataFrame([{"form": "one name", "name": "Olga", "method": "model", "answered": False}] * 3)
    (only,) = names_table(rows.assign(first=None, share=None, right=None)).itertuples()
    assert (only.asked, only.method, only.value, only.n) == ("answered", "model", 0, 3)
