"""The chapter from the command line: a folder of the reader's own."""

from functools import partial

import pandas as pd
import pytest

from tests.notebooks.command_line import at_smoke, outputs_of

papermill = partial(at_smoke, "translation_dynamics")


@pytest.mark.notebook
def test_sentences_of_the_readers_own_in_files_of_lines(tmp_path):
    (tmp_path / "mine").mkdir()
    for code, word in [("xx", "wort"), ("yy", "<b>word</b>")]:
        lines = [f"{word} {n} und {n * 7 % 100} {word}" for n in range(160)]
        (tmp_path / "mine" / f"all.{code}").write_text("\n".join(lines))
    given = {"data": "mine", "folder": "mine", "vocabulary": "50", "context": "added", "measure": "kendall"}
    words = [part for name, value in given.items() for part in ("-p", name, value)]
    done = papermill(tmp_path, *words, "-y", "languages: [xx, yy]")
    assert done.returncode == 0, done.stderr[-2000:]
    (file,) = (tmp_path / "results" / "translation_dynamics").glob("mine-*.parquet")
    rows = pd.read_parquet(file)
    assert set(rows["measure"]) == {"top match", "kendall"} and set(rows["accuracy"]) == {"tokens", "BLEU"}
    assert not rows["metric"].str.contains("AER").any()  # the truth is not known
    outputs = outputs_of(tmp_path)
    assert "data-attnlib" in outputs and "context added" in outputs
