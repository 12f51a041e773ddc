"""How the page on faithfulness metrics says what was recorded."""

import myst_nb
import pandas as pd
import pytest

from book.chapters.faithfulness_metrics import sentences
from book.chapters.faithfulness_metrics.figures import kept
from book.chapters.faithfulness_metrics.sentences import gains_clause
from book.chapters.faithfulness_metrics.tables import Kept, of_record
from book.chapters.records.runs import table_of


def test_only_significant_gains_are_listed():
    columns = ["method", "value", "low", "high", "n"]
    rows = pd.DataFrame([("a", 0.2, 0.1, 0.3, 5), ("b", 0.2, -0.1, 0.5, 5)], columns=columns)
    assert gains_clause(rows) == "a 0.20" and gains_clause(rows[1:]) == "none"


def told_of(kept: Kept) -> dict:
    told = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(myst_nb, "glue", lambda name, value, display: told.update({name: value}))
        sentences.tell_recorded(kept)
        sentences.tell_exercises(kept)
    return told


def test_without_a_record_the_page_says_that_it_was_not_run():
    recorded, absent = told_of(kept()), told_of(of_record(table_of([])))
    assert all(name.startswith(("ahead, ", "significance, ")) for name in recorded.keys() - absent.keys())
    for name in ("tau usual, all", "best 1", "score best 1", "measured all: rollout", "known lead"):
        assert absent[name] == "not run" != recorded[name]
    assert absent["before usual, said"] == "was not run" and absent["came out: all"] == 0
