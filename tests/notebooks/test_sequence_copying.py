"""The chapter with what a reader types: other tasks and options."""

import pytest


@pytest.mark.slow
@pytest.mark.notebook
def test_other_options_and_no_head_start(papermill):
    options = 'options: ["both directions", "without context"]\nhead_starts: []\nbetween: []'
    done = papermill("sequence_copying", "-y", options, "-p", "symbols", "5", "-p", "stacked", "1")
    assert list(done.records.glob("4-of-5-*.parquet"))
    assert {
        "4 of 5",
        "4 of 6",
        "4 of 5, repeated",
        "4 of 5, both directions",
        "4 of 6, without context",
    } <= set(done.rows()["task"])
    assert "data-attnlib" in done.outputs()
