"""The chapter with what a reader types: a folder of the reader's own."""

import pytest


@pytest.mark.notebook
def test_texts_of_the_readers_own_by_kendalls_tau(papermill, tmp_path):
    # a number is digit by digit: a model knows digits, and can tell one text from the other
    ham = [f"ham\tdear {' '.join(f'{n:03}')} & <b>bring</b> tea number {n}" for n in range(150)]
    spam = [f"spam\tfree {' '.join(f'{n:03}')} prize call now to claim number {n}" for n in range(150)]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "all.tsv").write_text("\n".join(["label\ttext", *ham, *spam]))
    given = {"data": "mine", "folder": "mine", "max_length": "12", "measure": "kendall"}
    words = [part for name, value in given.items() for part in ("-p", name, value)]
    done = papermill("classification_dynamics", *words)
    (file,) = done.records.glob("*.parquet")
    rows = done.rows()
    assert file.name.startswith("mine-")
    assert set(rows["task"]) == {"mine"} and set(rows["split"]) == {"test", "train"}
    assert set(rows["checkpoints"]) == {"held out", "as published"}
    chance = rows.query("metric == 'A_hat, expected' and measure == 'kendall'")["value"]
    assert (chance == 0).all()  # of Kendall's tau
    outputs = done.outputs()
    assert "data-attnlib" in outputs and "first 12 words" in outputs
    assert "<b>bring</b>" not in outputs  # texts are escaped
