"""Accuracy in BLEU of training sentences and by both measures, beside what is always recorded."""

from itertools import count

import pandas as pd
import pytest

from book.chapters.translation import measures
from tests.parameters import smallest

KEYS = ["measure", "split", "checkpoints", "interval", "accuracy"]


def rows_of(**given):
    p = smallest("translation_dynamics", **given)
    for run in p.runs():
        p.train(run, progress=False)
    p.embedding()
    return p, p.rows()


@pytest.mark.slow
def test_bleu_of_training_sentences_and_by_kendall_joins_what_is_recorded_anyway(monkeypatch):
    numbers = count(1)  # each BLEU is another, though models this small have none
    bleus = {}

    def bleu(model, pairs, *_):
        key = (str(pairs.texts), str(next(model.parameters()).sum().item()))
        return bleus.setdefault(key, next(numbers) / 10)

    monkeypatch.setattr(measures, "bleu", bleu)
    usual, rows = rows_of()
    p, more = rows_of(every_bleu=True)
    assert "every_bleu" in p.recorded_parameters
    assert "every_bleu" not in usual.recorded_parameters  # records of before keep their names
    ways = {tuple(way) for way in more[KEYS].drop_duplicates().values.tolist()}
    before = {tuple(way) for way in rows[KEYS].drop_duplicates().values.tolist()}
    assert {way[:2] for way in before if way[-1] == "BLEU"} == {("top match", "test")}
    grid = {(measure, split) for measure in ("top match", "kendall") for split in ("train", "test")}
    assert {way[:2] for way in ways if way[-1] == "BLEU"} == grid
    shared = more.merge(rows[[*KEYS, "metric"]], on=[*KEYS, "metric"])
    pd.testing.assert_frame_equal(shared[rows.columns], rows.reset_index(drop=True), check_dtype=False)
    gold, best = p.runs()[0].name, more.query("metric == 'xi*' and checkpoints == 'held out'")
    chosen = p.bleu("validation")[gold].idxmax()
    for row in best[best["accuracy"] == "BLEU"].itertuples():
        assert row.value == pytest.approx(p.bleu(row.split)[gold][chosen] / 100)
