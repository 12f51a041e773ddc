"""The chapter with what a reader types: a folder of the reader's own."""

import pytest


@pytest.mark.notebook
def test_sentences_of_the_readers_own_in_files_of_lines(papermill, tmp_path):
    (tmp_path / "mine").mkdir()
    for code, word in [("xx", "wort"), ("yy", "<b>word</b>")]:
        lines = [f"{word} {n} und {n * 7 % 100} {word}" for n in range(160)]
        (tmp_path / "mine" / f"all.{code}").write_text("\n".join(lines))
    given = {"data": "mine", "folder": "mine", "vocabulary": "50", "context": "added", "measure": "kendall"}
    words = [part for name, value in given.items() for part in ("-p", name, value)]
    done = papermill("translation_dynamics", *words, "-y", "languages: [xx, yy]")
    rows = done.rows()
    assert list(done.records.glob("mine-*.parquet"))
    assert set(rows["measure"]) == {"top match", "kendall"} and set(rows["accuracy"]) == {"tokens", "BLEU"}
    assert not rows["metric"].str.contains("AER").any()  # the truth is not known
    outputs = done.outputs()
    assert "data-attnlib" in outputs and "context added" in outputs
