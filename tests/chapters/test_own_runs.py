"""A reader's own runs: they change nothing that is recorded, are shown beside it, and are kept on demand."""

import json
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from book.chapters.findings.claims import findings
from book.chapters.findings.readme import table
from book.chapters.records import came_with_the_book, record, records, runs
from book.chapters.records.keep import keep
from book.chapters.records.own import _compared, with_own_runs, your_runs
from book.chapters.records.places import OWN, RECORDED, ROOT, own_files, results_folder
from book.chapters.records.runs import QUICK, SMOKE, read_all
from book.sealing import sealed

CHAPTERS = sorted(path.name for path in (RECORDED / SMOKE).iterdir())
"""Every chapter that records."""

ROWS = pd.DataFrame(
    {
        "metric": ["accuracy", "accuracy", "loss"],
        "run": ["sort", "hist", "sort"],
        "value": [0.9, 0.8, 0.1],
        "low": [0.8, 0.7, 0.05],
        "high": [0.95, 0.9, 0.2],
        "n": [50, 50, 50],
    }
)
WHO = {"notebook": "chapter", "label": "sort", "device": "CPU"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Own runs of every chapter: one with the smoke profile, one with the parameters of a recorded run."""
    folder = tmp_path_factory.mktemp("own") / "runs"
    shutil.copytree(RECORDED / SMOKE, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLIB_RESULTS", str(folder))
        for chapter in CHAPTERS:
            path = runs.paths_of(chapter)[0]
            rows, made = runs.read(path)
            rows = rows.assign(value=0.5, low=0.4, high=0.6, n=10**6)
            label = path.stem.rpartition("-")[0]
            again = record(rows, notebook=chapter, label=label, params=made["parameters"], device="CPU")
            assert again is not None and again.name == path.name
    return folder


@pytest.fixture
def own(filled: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATTNLIB_RESULTS", str(filled))
    return filled


@pytest.fixture
def book_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One recorded run of a chapter, and a folder of one's own; returns the latter."""
    monkeypatch.setattr(runs, "RECORDED", tmp_path / "recorded")
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path / "recorded"))
    record(ROWS, params={"steps": 100, "seeds": [0]}, **WHO)
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path / "own"))
    return tmp_path / "own"


def test_own_runs_change_no_finding_and_no_table_of_recorded_runs(own: Path, monkeypatch) -> None:
    with monkeypatch.context() as without:
        without.setenv("ATTNLIB_RESULTS", str(own / "none"))
        judged = findings()
        before = {chapter: came_with_the_book(chapter) for chapter in CHAPTERS}
        told = {
            name: runs.provenance_of(name) for rows in before.values() for name in rows["record"].unique()
        }
    assert {path.parent.name for path in own_files()} == set(CHAPTERS), "or nothing is tried"
    again = findings.__wrapped__()
    assert again == judged and table(again) == table(judged)
    for chapter in CHAPTERS:
        pd.testing.assert_frame_equal(came_with_the_book(chapter), before[chapter])
        pd.testing.assert_frame_equal(records(chapter, None), before[chapter])
        assert len(with_own_runs(chapter)) > len(before[chapter]), "where they are asked for, they are there"
    assert {name: runs.provenance_of(name) for name in told} == told


def test_runs_record_outside_of_the_books_records_and_of_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTNLIB_RESULTS")
    assert results_folder() == OWN and not OWN.is_relative_to(RECORDED)
    ignored = subprocess.run(["git", "check-ignore", "-q", f"{OWN.name}/chapter/run.json"], cwd=ROOT)
    assert ignored.returncode == 0
    monkeypatch.setenv("ATTNLIB_RESULTS", str(RECORDED))
    assert own_files() == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_an_own_run_of_every_chapter_stands_beside_recorded_numbers(own: Path, chapter: str) -> None:
    listed, numbers = your_runs(chapter)
    recorded = read_all(RECORDED, chapter)
    assert len(listed.data) == 2
    assert {(chapter, name) for name in listed.data["beside"]} <= recorded.keys()
    values = {float(value) for rows, _ in recorded.values() for value in rows["value"]}
    beside = numbers.numbers.dropna(subset="value recorded")
    assert len(beside) and set(beside["value recorded"]) <= values
    assert numbers.data["number"].str.len().gt(0).all()
    html = [shown._repr_mimebundle_()["text/html"] for shown in (listed, numbers)]
    assert all(len(text) < 30_000 for text in html) and "nan" not in html[1]


def test_numbers_are_compared_with_the_same_of_the_run_that_is_most_alike(
    book_of_one: Path, monkeypatch
) -> None:
    monkeypatch.setenv("ATTNLIB_RESULTS", str(runs.RECORDED))
    for steps in (7, 100):
        record(ROWS.assign(value=0.3), params={"steps": steps, "seeds": [0, 1]}, **WHO)
    monkeypatch.setenv("ATTNLIB_RESULTS", str(book_of_one))
    mine = ROWS.iloc[::-1].assign(value=[0.2, 0.4, 0.6], run=["sort", "dyck<1>", "sort"])
    record(mine, params={"steps": 7, "seeds": [0]}, **WHO)
    listed, numbers = your_runs("chapter")
    (run,) = listed.data.to_dict("records")
    assert run["beside"].startswith("sort-") and run["parameters (of the recorded run)"] in (
        "steps 7 (100)",
        "seeds [0] ([0, 1])",
    )
    assert numbers.data["number"].tolist() == ["loss", "accuracy"]  # nothing is recorded of the third
    found = numbers.numbers.set_index("metric")[["value", "value recorded"]]
    assert found.loc["loss", "value"] == 0.2 and len(found) == 3
    assert "&lt;1&gt;" not in numbers._repr_mimebundle_()["text/html"]


def test_a_number_is_compared_with_none_that_may_be_another() -> None:
    """Rows that only a budget tells apart are compared by it; rows that nothing tells apart, with none."""
    told = pd.concat([ROWS.iloc[[0]]] * 2, ignore_index=True).assign(budget=[100.0, 200.0], value=[0.1, 0.2])
    other = told.assign(budget=[200.0, 300.0], value=[0.3, 0.4])
    assert _compared(told, other)["value recorded"].fillna(-1).tolist() == [-1, 0.3]
    untold = told.drop(columns="budget")
    assert _compared(untold, untold)["value recorded"].isna().all() and len(_compared(untold, untold)) == 2


def test_without_own_runs_there_is_nothing_and_a_damaged_one_is_left_out(book_of_one: Path, caplog) -> None:
    assert your_runs("chapter") == []
    path = record(ROWS, params={"steps": 7}, **WHO)
    assert len(your_runs("chapter")) == 2
    path.write_bytes(b"PAR1")
    assert your_runs("chapter") == [] and f"left out: {path}" in caplog.text


def say_clean(path: Path, clean: bool) -> None:
    file = path.with_suffix(".json")
    file.write_text(json.dumps(sealed(json.loads(file.read_text()) | {"clean": clean, "commit": "abc"})))


def test_a_run_is_kept_among_the_books_records_once_it_is_whole_and_its_code_committed(
    book_of_one: Path,
) -> None:
    path = record(ROWS, params={"steps": 7}, **WHO)
    say_clean(path, False)
    with pytest.raises(ValueError, match=r"is marked \[uncommitted changes\].*run the chapter again"):
        keep(path, runs.RECORDED)
    say_clean(path, True)
    kept = keep(path.with_suffix(".json"), runs.RECORDED)
    assert kept == runs.RECORDED / "chapter" / path.name
    pd.testing.assert_frame_equal(runs.read(kept)[0], ROWS)
    assert len(came_with_the_book("chapter")) == 2 * len(ROWS)
    with pytest.raises(ValueError, match="is recorded already"):
        keep(path, runs.RECORDED)
    kept.unlink()
    path.write_bytes(b"PAR1")
    with pytest.raises(ValueError, match="is not what"):
        keep(path, runs.RECORDED)
    assert not kept.exists()


@pytest.mark.slow
def test_one_more_record_of_every_chapter_leaves_every_claim_judged(tmp_path: Path, monkeypatch) -> None:
    """Of each data set one record counts, and a claim names one number where two records have it."""
    more = tmp_path / "more"
    shutil.copytree(RECORDED, more)
    for folder in [*(more / SMOKE).iterdir(), *(more / QUICK).iterdir()]:
        shutil.copytree(folder, more / folder.name, dirs_exist_ok=True)
    monkeypatch.setattr(runs, "RECORDED", more)
    said = {each.claim.words: each.outcome.verdict for each in findings.__wrapped__()}
    monkeypatch.undo()
    before = {each.claim.words: each.outcome.verdict for each in findings()}
    assert {words for words, verdict in said.items() if verdict == "not run"} <= {
        words for words, verdict in before.items() if verdict == "not run"
    }
