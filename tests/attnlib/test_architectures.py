"""Every architecture of the transformers that is pinned: followed to rounding, or refused in words."""

import pytest
import torch

from book.chapters.own_model.architectures import outcomes as in_the_book
from tests.attnlib.architectures import NOT_BUILT
from tests.attnlib.campaign import model_types, outcomes
from tests.attnlib.ways import WAYS

torch.set_num_threads(1)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", model_types())
def test_each_way_of_asking_is_right_or_refused_in_words(model_type):
    found = outcomes(model_type)
    bad = {
        f"{kind}, {name}": f"{said}: {why}"
        for kind, ways in found.items()
        for name, (said, why) in ways.items()
        if said in ("raw", "wrong")
    }
    assert not bad
    today = {kind: {name: said for name, (said, _) in ways.items() if said} for kind, ways in found.items()}
    table = in_the_book().loc[model_type]
    book = {kind: {name: said for name, said in row.items() if said} for kind, row in table.iterrows()}
    assert book == today, "the table is of other code: python -m tests.attnlib.campaign writes it again"


def test_the_books_table_has_every_model_type_and_way():
    table = in_the_book()  # else: python -m tests.attnlib.campaign
    assert sorted(set(table.index.get_level_values("model type"))) == sorted([*model_types(), *NOT_BUILT])
    assert list(table.columns) == list(WAYS)
