"""The chapter from the command line: a folder of the reader's own, and what stops it at once."""

from functools import partial

import pandas as pd
import pytest

from tests.notebooks.command_line import assert_stopped_before_training, at_smoke, outputs_of

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


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-p", "data", "invent"), "did you mean 'invented'?"),
        (("-p", "data", "mine", "-p", "folder", "nowhere"), "there is no such folder"),
        (("-p", "dropout", "1.0"), "should be less than 1; got 1.0"),
        (("-y", "checkpoints: [700]"), "checkpoints should be from 0 to steps"),
        (("-y", "languages: [de, en]"), "languages cannot be given for invented"),
    ],
)
def test_wrong_parameters_stop_the_chapter_before_it_trains(tmp_path, words, message):
    done = papermill(tmp_path, *words)
    assert_stopped_before_training("translation_dynamics", tmp_path, done, message)
