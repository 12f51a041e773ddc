"""Records: written whole or not at all, checked when read, and compared with the papers' figures."""

import json
import re
import threading
import time
from dataclasses import dataclass

import pandas as pd
import pytest

from attnlib.files import CheckpointError, write_atomically
from book.chapters.records import (
    came_with_the_book,
    paper_figures,
    paper_grid,
    paper_verdicts,
    paper_vs_here,
    provenance,
    record,
    records,
)
from book.chapters.records import runs as record_file
from book.chapters.records.runs import read
from book.sealing import sealed

PARAMS = {"language": "sort", "steps": 100, "seeds": [0]}
ROWS = pd.DataFrame({"metric": ["accuracy"], "value": [0.9], "low": [0.8], "high": [0.95], "n": [50]})
WHO = {"notebook": "chapter", "label": "sort", "params": PARAMS, "device": "CPU"}


@dataclass
class Done:
    """What a training says of itself."""

    steps: int
    seconds: float
    interrupted: bool = False


def say(path, told):
    """Other provenance in place of a record's own, as if it had been written so."""
    path.with_suffix(".json").write_text(json.dumps(sealed(told)))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where runs record here, and where the book's records are read."""
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path / "here"))
    monkeypatch.setattr(record_file, "RECORDED", tmp_path / "here")
    return tmp_path / "here"


def test_a_record_comes_back_with_its_origin(folder):
    path = record(ROWS, seconds=1.0, **WHO)
    assert path.parent == folder / "chapter"
    back = came_with_the_book("chapter")
    pd.testing.assert_frame_equal(back[ROWS.columns], ROWS)
    provenance = json.loads(path.with_suffix(".json").read_text())
    assert provenance["parameters"] == PARAMS
    assert {"torch", "transformers", "python", "attnlib"} <= set(provenance["versions"])
    assert {"commit", "clean", "processor", "threads"} <= set(provenance)
    assert provenance["run"] == path.stem and back["record"].item().split(" ")[0] == path.stem


def test_the_same_run_with_the_same_rows_changes_nothing(folder):
    path = record(ROWS, seconds=1.0, **WHO)
    before = path.with_suffix(".json").read_bytes()
    assert record(ROWS, seconds=2.0, **WHO) == path
    assert path.with_suffix(".json").read_bytes() == before
    record(ROWS.assign(value=0.91), seconds=2.0, **WHO)
    assert came_with_the_book("chapter")["value"].tolist() == [0.91]


def test_a_second_run_with_the_same_rows_clears_a_record_of_what_no_longer_holds(monkeypatch):
    path = record(ROWS, seconds=1.0, **WHO)
    rows = path.read_bytes()
    made = json.loads(path.with_suffix(".json").read_text())
    stale = made | {"commit": "abc", "clean": False}
    say(path, stale)
    monkeypatch.setattr(record_file, "origin", lambda: {**made, "commit": "def", "clean": True})
    record(ROWS, seconds=1.0, **WHO)
    assert json.loads(path.with_suffix(".json").read_text())["commit"] == "def"
    # A tree that was not clean is no reason to replace one that was.
    say(path, stale | {"clean": True})
    monkeypatch.setattr(record_file, "origin", lambda: {**made, "commit": "def", "clean": False})
    record(ROWS, seconds=1.0, **WHO)
    assert json.loads(path.with_suffix(".json").read_text())["commit"] == "abc"
    assert path.read_bytes() == rows


def test_what_is_to_be_said_against_a_record_is_said_in_tables():
    path = record(ROWS.assign(setting="2 layers"), seconds=1.0, **WHO)
    made = json.loads(path.with_suffix(".json").read_text())
    told = {
        "": {"clean": True},
        " [uncommitted changes]": {"clean": False},
    }
    for mark, changed in told.items():
        say(path, made | {"commit": "abc"} | changed)
        row = came_with_the_book("chapter").iloc[0]
        assert row["record"] == path.stem + mark and row["setting"] == "2 layers" + mark
    older = {name: value for name, value in made.items() if name != "clean"}
    say(path, older | {"commit": "abc+"})
    assert came_with_the_book("chapter").iloc[0]["setting"] == "2 layers [uncommitted changes]"
    oldest = {name: value for name, value in made.items() if name != "checksum"} | {"clean": True}
    path.with_suffix(".json").write_text(json.dumps(oldest))
    assert came_with_the_book("chapter").iloc[0]["setting"] == "2 layers [no checksum]"


def test_a_file_edited_during_a_run_is_an_uncommitted_change(monkeypatch):
    monkeypatch.setattr(provenance, "_git", lambda *words: "" if words[0] == "status" else "abc")
    assert provenance.origin()["clean"] is True
    monkeypatch.setattr(provenance, "_STARTED", 0.0)
    assert provenance.origin()["clean"] is False
    # To a clock that was set back, every file is of a time to come: none was edited since.
    monkeypatch.setattr(provenance.time, "time", lambda: 1.0)
    assert provenance.origin()["clean"] is True


def test_seconds_and_steps_are_those_of_training_whoever_ran_it():
    done = {"sort": Done(100, 30.25), "sort, supervised": Done(70, 20.5)}
    path = record(ROWS, seconds=1.0, training=done, **WHO)
    made = json.loads(path.with_suffix(".json").read_text())
    assert (made["steps"], made["seconds"]) == (170, 50.8)
    assert made["training"]["sort, supervised"] == {"steps": 70, "seconds": 20.5}


def test_an_interrupted_training_is_not_recorded(caplog, folder):
    record(ROWS, seconds=1.0, **WHO)
    done = {"sort": Done(100, 30.0), "sort, supervised": Done(3, 0.5, interrupted=True)}
    assert record(ROWS.assign(value=0.1), seconds=1.0, training=done, **WHO) is None
    assert "not recorded: training was interrupted (sort, supervised after 3 steps)" in caplog.text
    assert came_with_the_book("chapter")["value"].tolist() == [0.9]


@pytest.mark.parametrize("n_writes", [0, 1, 2])
def test_a_kill_between_two_files_leaves_a_record_or_none(folder, monkeypatch, n_writes):
    def killed_after(n):
        left = iter(range(n))

        def write(path, data):
            if next(left, None) is None:
                raise KeyboardInterrupt
            write_atomically(path, data)

        return write

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(record_file, "write_atomically", killed_after(min(n_writes, 1)))
        record(ROWS, seconds=1.0, **WHO)
    assert came_with_the_book("chapter").empty
    record(ROWS, seconds=1.0, **WHO)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(record_file, "write_atomically", killed_after(n_writes))
        record(ROWS.assign(value=0.5), seconds=1.0, **WHO)
    assert came_with_the_book("chapter")["value"].tolist() == [0.9 if n_writes < 2 else 0.5]
    record(ROWS.assign(value=0.5), seconds=1.0, **WHO)
    assert came_with_the_book("chapter")["value"].tolist() == [0.5]


def test_who_reads_while_another_run_writes_the_record_waits_for_its_rows(monkeypatch, caplog):
    halfway = threading.Event()

    def slowly(path, data):
        if path.suffix == ".parquet":
            halfway.set()
            time.sleep(0.3)
        write_atomically(path, data)

    monkeypatch.setattr(record_file, "write_atomically", slowly)
    writer = threading.Thread(target=record, args=(ROWS,), kwargs=WHO)
    writer.start()
    assert halfway.wait(10)
    assert len(came_with_the_book("chapter")) == len(ROWS) and not caplog.text
    writer.join()


def test_a_run_under_way_stands_in_place_of_the_books_own_and_no_other_run_does(
    monkeypatch, tmp_path, caplog
):
    record(ROWS, seconds=1.0, **WHO)
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path / "own"))
    this = record(ROWS.assign(value=0.5), seconds=1.0, **WHO)
    record(ROWS.assign(value=0.1), seconds=1.0, **WHO | {"params": PARAMS | {"steps": 7}})
    assert came_with_the_book("chapter")["value"].tolist() == [0.9]
    assert records("chapter", None)["value"].tolist() == [0.9]
    assert records("chapter", this)["value"].tolist() == [0.5] and not caplog.text
    this.write_bytes(b"PAR1")
    assert records("chapter", this)["value"].tolist() == [0.9] and "left out" in caplog.text


def test_a_changed_or_orphaned_record_is_left_out_and_named(folder, caplog):
    path = record(ROWS, seconds=1.0, **WHO)
    made = json.loads(path.with_suffix(".json").read_text())
    rows = path.read_bytes()

    def left_out(message):
        caplog.clear()
        assert came_with_the_book("chapter").empty
        assert message in caplog.text and f"Delete {path.stem}.parquet and .json" in caplog.text
        with pytest.raises(ValueError, match=re.escape(message)):
            read(path)

    path.with_suffix(".json").write_text(json.dumps(made | {"steps": 7}))
    left_out(f"{path.stem}.json was changed after it was written")
    ROWS.assign(value=1.0).to_parquet(path)
    say(path, made)
    left_out(f"{path} is not what {path.stem}.json says that it is")
    path.write_bytes(rows)
    say(path, {name: value for name, value in made.items() if name != "versions"})
    left_out(f"{path.stem}.json is damaged: it does not say versions")
    for text in ("{", "[]", "\xff", "[" * 100_000):
        path.with_suffix(".json").write_text(text, encoding="latin-1")
        left_out(f"{path.stem}.json is damaged: it")
    path.with_suffix(".json").unlink()
    left_out(f"{path.stem}.json is missing")
    say(path, made)
    path.unlink()
    left_out(f"{path.stem}.parquet is missing")
    path.mkdir()
    left_out(f"{path} cannot be read (Is a directory)")
    path.rmdir()
    for kind, content in ((".parquet", rows), (".json", path.with_suffix(".json").read_bytes())):
        path.with_name(f"copy{kind}").write_bytes(content)
    path.write_bytes(rows)
    assert len(came_with_the_book("chapter")) == 1
    assert f"copy.parquet is a copy: it is the record of chapter/{path.stem}" in caplog.text


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("../../../outside", "outside"),
        ("..", "run"),
        ("two\nlines\r\0\ttab", "two-lines-tab"),
        ("\u202egnp.exe", "gnp.exe"),
        ("x" * 5000, "x" * 120),
        ("long_addition+successor", "long_addition+successor"),
    ],
)
def test_a_label_becomes_a_safe_name_and_stands_inside(folder, label, name):
    path = record(ROWS, seconds=1.0, **WHO | {"label": label})
    assert path.parent == folder / "chapter" and path.stem.rpartition("-")[0] == name
    assert json.loads(path.with_suffix(".json").read_text())["label"] == label
    assert len(came_with_the_book("chapter")) == 1


def test_a_place_that_can_hold_no_records_is_named(folder):
    folder.mkdir()
    (folder / "chapter").touch()
    with pytest.raises(CheckpointError, match=r"chapter cannot be made a folder of records \(File exists\)"):
        record(ROWS, seconds=1.0, **WHO)


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


def test_the_paper_column_never_shows_a_remembered_figure_as_the_papers():
    none = pd.DataFrame(columns=["task", "setting", "value", "low", "high", "n"])
    assert set(paper_vs_here(none, "Thinking Like Transformers Table 1")["ours"]) == {"not run"}
    here = ROWS.assign(task="sort", setting="ours")
    table = paper_vs_here(here, "Thinking Like Transformers Table 1").set_index("task")
    assert table.loc["sort", ["ours", "n"]].tolist() == ["90.00 [80.00, 95.00]", "50"]
    assert table.loc["sort", "our setting"] == "ours"
    assert table.loc["reverse", "ours"] == "not run"
    remembered = paper_figures().query("certainty == 'unverified' and table.str.endswith('Table 1')")["task"]
    assert table.loc[remembered, "original"].str.endswith("(unverified)").all()


def test_runs_that_differ_in_a_rate_or_a_size_keep_their_rows_and_say_so(tmp_path):
    rows = ROWS.assign(task="sort", setting="2 layers")
    for value, other in enumerate(
        ({"rate": 0.1, "test": 20}, {"rate": 0.2, "test": 20}, {"rate": 0.2, "test": 9})
    ):
        record(rows.assign(value=value / 10), seconds=1.0, **WHO | {"params": PARAMS | other})
    here = came_with_the_book("chapter").sort_values("value")
    told = ["2 layers; rate 0.1; test 20", "2 layers; rate 0.2; test 20", "2 layers; rate 0.2; test 9"]
    assert [words.split(" [")[0] for words in here["setting"]] == told
    table = paper_vs_here(here, "Thinking Like Transformers Table 1").set_index("task").loc["sort"]
    assert len(table) == 3 and table["our setting"].is_unique
    seeds = [rows.assign(run=f"sort, seed {seed}", task="hist") for seed in (0, 1)]
    record(pd.concat(seeds), seconds=1.0, **WHO | {"label": "seeds"})
    here = came_with_the_book("chapter").query("task == 'hist'")
    assert [words.split(" [")[0] for words in here["setting"]] == [
        *("2 layers; sort, seed 0", "2 layers; sort, seed 1"),
    ]


def test_a_run_with_another_measure_stands_beside_the_first():
    rows = ROWS.assign(task="IMDB", setting="500 steps", metric="A_hat")
    record(rows, seconds=1.0, **WHO | {"params": PARAMS | {"measure": "kendall"}})
    both = pd.concat([rows.assign(measure="top match"), rows.assign(measure="kendall")])
    record(both, seconds=1.0, **WHO)
    here = came_with_the_book("chapter")
    assert sorted(here["measure"]) == ["kendall", "kendall", "top match"]
    table = "Approximating How Single Head Attention Learns Table 1"
    assert len(paper_grid(here.query("measure == 'kendall'"), table, ["A_hat"]).query("by == 'ours'")) == 4
    with pytest.raises(ValueError, match=r"several numbers for IMDB / 500 steps.* / A_hat: tell them apart"):
        paper_grid(here, table, ["A_hat"])


def test_a_task_is_the_papers_however_it_is_written():
    rows = ROWS.assign(task="furd", setting="ours", metric="A_hat")
    grid = paper_grid(rows, "Approximating How Single Head Attention Learns Table 1", ["A_hat"])
    ours = grid.query("by == 'ours'").set_index("task")["A_hat"]
    assert ours["Furd"] == "90.0 [80.0, 95.0]" and "furd" not in ours
    table = paper_vs_here(ROWS.assign(task="SORT", setting="ours"), "Thinking Like Transformers Table 1")
    assert table.set_index("task").loc["sort", "our setting"] == "ours"


def test_verdicts_ask_for_chance_and_for_the_papers_figure():
    table = "Approximating How Single Head Attention Learns Table 1"
    intervals = {"imdb": (0.50, 0.60), "Furd": (0.05, 0.15), "Amazon": (0.6, 0.7), "SST": (0.2, 0.3)}
    rows = []
    for task, (low, high) in intervals.items():
        place = {"task": task, "setting": "ours", "n": 9}
        rows.append(
            place | {"metric": "A(alpha, beta_uf)", "value": (low + high) / 2, "low": low, "high": high}
        )
        rows.append(place | {"metric": "A_hat", "value": 0.08, "low": 0.07, "high": 0.09})
    found = paper_verdicts(pd.DataFrame(rows), table, "A(alpha, beta_uf)", "A_hat").set_index("task")
    told = found["verdict"].to_dict()
    assert told["IMDB"] == "above chance, not significantly different from the original's"
    assert told["Furd"] == "not significantly above chance, lower than the original's"
    assert told["Amazon"] == "above chance, higher than the original's"
    assert told["SST"] == "above chance" and found.loc["SST", "original"] == "not found"
    assert found.loc["IMDB", "original"] == "52.55" and found.loc["IMDB", "ours"] == "55.0 [50.0, 60.0]"


def test_records_that_came_with_the_book_are_found_by_their_parameters():
    for value, seeds in {0.8: [0], 0.6: [0, 1]}.items():
        record(ROWS.assign(value=value), **WHO | {"params": PARAMS | {"seeds": seeds}})
    assert came_with_the_book("chapter", language="sort", seeds=[0])["value"].tolist() == [0.8]
    assert sorted(came_with_the_book("chapter", language="sort")["value"]) == [0.6, 0.8]
    for nothing in ({"language": "hist"}, {"steps": 7}, {"no such": None}):
        assert came_with_the_book("chapter", **nothing).empty
