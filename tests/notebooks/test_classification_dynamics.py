"""The chapter from the command line: a folder of the reader's own."""

from functools import partial

import pandas as pd
import pytest

from tests.notebooks.command_line import at_smoke, outputs_of

papermill = partial(at_smoke, "classification_dynamics")


@pytest.mark.notebook
def test_texts_of_the_readers_own_by_kendalls_tau(tmp_path):
    # a number is digit by digit: a model knows digits, and can tell one text from the other
    ham = [f"ham\tdear {' '.join(f'{n:03}')} & <b>bring</b> tea number {n}" for n in range(150)]
    spam = [f"spam\tfree {' '.join(f'{n:03}')} prize call now to claim number {n}" for n in range(150)]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "all.tsv").write_text("\n".join(["label\ttext", *ham, *spam]))
    words = (
        "-p",
        "data",
        "mine",
        "-p",
        "folder",
        "mine",
        "-p",
        "max_length",
        "12",
        "-p",
        "measure",
        "kendall",
    )
    done = papermill(tmp_path, *words)
    assert done.returncode == 0, done.stderr[-2000:]
    (file,) = (tmp_path / "results" / "classification_dynamics").glob("mine-*.parquet")
    rows = pd.read_parquet(file)
    assert set(rows["task"]) == {"mine"} and set(rows["split"]) == {"test", "train"}
    assert set(rows["checkpoints"]) == {"held out", "as published"}
    chance = rows.query("metric == 'A_hat, expected' and measure == 'kendall'")["value"]
    assert (chance == 0).all()  # of Kendall's tau
    outputs = outputs_of(tmp_path)
    assert "data-attnlib" in outputs and "first 12 words" in outputs
    assert "<b>bring</b>" not in outputs  # texts are escaped
