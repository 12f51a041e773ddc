"""Records: written whole or not at all, checked when read, and compared with the papers' figures."""

import json

import pandas as pd
import pytest

from attnlib.records import paper_figures, paper_vs_here, record, records
from attnlib.records import runs as record_file
from attnlib.training import cache, cache_folder

PARAMS = {"language": "sort", "steps": 100, "seeds": [0]}
ROWS = pd.DataFrame({"metric": ["accuracy"], "value": [0.9], "low": [0.8], "high": [0.95], "n": [50]})
WHO = {"notebook": "chapter", "label": "sort", "params": PARAMS, "device": "CPU"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path / "here"))
    monkeypatch.setattr(record_file, "RECORDED", tmp_path / "recorded")
    return tmp_path / "here"


def test_a_record_comes_back_with_its_origin(folder):
    path = record(ROWS, seconds=1.0, **WHO)
    assert path.parent == folder / "chapter"
    back = records("chapter")
    pd.testing.assert_frame_equal(back[ROWS.columns], ROWS)
    provenance = json.loads(path.with_suffix(".json").read_text())
    assert provenance["parameters"] == PARAMS
    assert {"torch", "transformers", "python", "attnlib"} <= set(provenance["versions"])
    assert back["run"].item() == provenance["run"] == path.stem


def test_the_same_run_with_the_same_rows_changes_nothing(folder):
    path = record(ROWS, seconds=1.0, **WHO)
    before = path.with_suffix(".json").read_bytes()
    assert record(ROWS, seconds=2.0, **WHO) == path
    assert path.with_suffix(".json").read_bytes() == before
    record(ROWS.assign(value=0.91), seconds=2.0, **WHO)
    assert records("chapter")["value"].tolist() == [0.91]


def test_other_parameters_are_another_run():
    other = {"params": PARAMS | {"steps": 7}}
    assert record(ROWS, seconds=1.0, **WHO) != record(ROWS, seconds=1.0, **WHO | other)
    assert len(records("chapter")) == 2


def test_a_run_made_here_stands_in_place_of_the_books_own(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path / "recorded"))
    record(ROWS, seconds=1.0, **WHO)
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path / "here"))
    assert records("chapter")["value"].tolist() == [0.9]
    record(ROWS.assign(value=0.5), seconds=1.0, **WHO)
    assert records("chapter")["value"].tolist() == [0.5]


def test_a_changed_or_orphaned_record_is_an_error(folder):
    path = record(ROWS, seconds=1.0, **WHO)
    ROWS.assign(value=1.0).to_parquet(path)
    with pytest.raises(ValueError, match="is not what its provenance says"):
        records("chapter")
    path.with_suffix(".json").unlink()
    with pytest.raises(ValueError, match="no provenance beside it"):
        records("chapter")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS.drop(columns="low"), r"missing \['low'\]"),
        (ROWS.iloc[:0], "needs rows"),
        (ROWS.assign(value=float("nan")), "should be finite"),
    ],
)
def test_what_is_no_result_is_not_recorded(rows, message, folder):
    with pytest.raises(ValueError, match=message):
        record(rows, seconds=1.0, **WHO)
    assert not folder.exists()


def test_a_full_disk_leaves_nothing_half_written(folder, monkeypatch):
    import os

    from attnlib.files import CheckpointError

    record(ROWS, seconds=1.0, **WHO)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left"):
        record(ROWS.assign(value=0.1), seconds=1.0, **WHO)
    assert records("chapter")["value"].tolist() == [0.9]
    assert len(list((folder / "chapter").iterdir())) == 2


def test_no_records_is_an_empty_table_and_shows_as_not_run():
    assert records("chapter").empty
    none = pd.DataFrame(columns=["task", "setting", "value", "low", "high", "n"])
    table = paper_vs_here(none, "Thinking Like Transformers Table 1")
    assert set(table["here"]) == {"not run"}


def test_the_paper_column_never_shows_a_remembered_figure_as_the_papers():
    here = ROWS.assign(task="sort", setting="ours")
    table = paper_vs_here(here, "Thinking Like Transformers Table 1").set_index("task")
    assert table.loc["sort", "here"] == "90.00 [80.00, 95.00], n = 50"
    assert table.loc["sort", "our setting"] == "ours"
    assert table.loc["reverse", "here"] == "not run"
    remembered = paper_figures().query("certainty == 'unverified'")["task"]
    assert table.loc[remembered, "paper"].str.endswith("(unverified)").all()
    with pytest.raises(ValueError, match="table should be one of"):
        paper_vs_here(here, "Table 9")


def test_the_cache_knows_settings_and_code(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNLIB_CACHE", str(tmp_path))
    folder = cache_folder("chapter", {"steps": 1})
    assert folder.parent == tmp_path / "chapter"
    assert folder == cache_folder("chapter", {"steps": 1}) != cache_folder("chapter", {"steps": 2})
    monkeypatch.setattr(cache, "code_hash", lambda: "other code")
    assert folder != cache_folder("chapter", {"steps": 1})
