"""The chapter from the command line: other tasks and options."""

from functools import partial

import pandas as pd
import pytest

from tests.notebooks.command_line import at_smoke, outputs_of

papermill = partial(at_smoke, "sequence_copying")


@pytest.mark.notebook
def test_other_options_and_no_head_start(tmp_path):
    given = (
        "-y",
        'options: ["both directions", "without context"]',
        "-y",
        "head_starts: []",
        "-y",
        "between: []",
    )
    done = papermill(tmp_path, *given, "-p", "symbols", "5", "-p", "stacked", "1")
    assert done.returncode == 0, done.stderr[-2000:]
    (file,) = (tmp_path / "results" / "sequence_copying").glob("4-of-5-*.parquet")
    tasks = set(pd.read_parquet(file)["task"])
    assert {
        "4 of 5",
        "4 of 6",
        "4 of 5, repeated",
        "4 of 5, both directions",
        "4 of 6, without context",
    } <= tasks
    assert "data-attnlib" in outputs_of(tmp_path)
