"""A build's numbers beside the recorded ones: what is the same, how closely, and what was not run."""

from pathlib import Path

import pandas as pd
import pytest

from book.chapters.records import provenance, record, runs
from book.chapters.records.reproduced import (
    compare,
    found_again,
    line,
    main,
    reproduced,
    summary,
    write_found_again,
)

RESULTS = Path(__file__).parents[2] / "results"
ROWS = pd.DataFrame(
    {
        "run": ["sort", "sort", "hist"],
        "metric": ["accuracy", "exact match", "accuracy"],
        "value": [0.9, 0.3, 0.25],
        "low": [0.8, 0.1, float("-inf")],
        "high": [0.95, 0.4, float("nan")],
        "n": [50, 50, 7],
        "setting": ["2 layers", "2 layers", "1 layer"],
    }
)
ORIGIN = {"commit": "abc", "clean": True, "versions": {}, "processor": "A, AVX2"}
PARAMETERS = {"steps": 100, "seeds": [0], "measure": "top match"}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The book's folder of records and a build's; `make` writes to either."""
    return tmp_path / "results", tmp_path / "build"


def put(folder: Path, rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, **parameters: object) -> None:
    """Record rows in a folder."""
    monkeypatch.setenv("ATTNLIB_RESULTS", str(folder))
    params = PARAMETERS | parameters
    record(rows, notebook="chapter", label="run", params=params, seconds=1.0, device="CPU")


def test_the_same_numbers_are_so_in_any_order_of_rows_and_other_words():
    again = ROWS.iloc[::-1].assign(setting="said another way")
    assert set(compare(ROWS, again)["verdict"]) == {"bit for bit"}


@pytest.mark.parametrize(
    ("column", "number", "verdict"),
    [
        ("high", 0.95 * (1 + 7e-16), "to rounding"),
        ("value", 0.9 * (1 + 1e-11), "within the interval"),
        ("high", 0.96, "within the interval"),
        ("value", 0.81, "within the interval"),
        ("value", 0.79, "differs"),
        ("value", float("nan"), "differs"),
        ("n", 51, "within the interval"),  # another n is no rounding
    ],
)
def test_how_close_a_number_is(column: str, number: float, verdict: str) -> None:
    made = ROWS.copy()
    made.loc[0, column] = number
    assert compare(ROWS, made)["verdict"].value_counts().to_dict() == {"bit for bit": 2, verdict: 1}


def test_an_interval_without_width_or_without_ends_holds_no_other_number():
    flat = ROWS.assign(low=ROWS["value"], high=[0.9, 0.3, float("nan")])
    moved = flat.assign(value=flat["value"] + 1e-9)
    assert set(compare(flat, moved)["verdict"]) == {"differs"}
    nought = ROWS.assign(value=0.0, low=0.0, high=0.0)
    assert set(compare(nought, nought.assign(high=0.1))["verdict"]) == {"within the interval"}


def test_rows_that_came_and_went_are_told():
    made = ROWS.iloc[1:].replace({"metric": {"accuracy": "tokens right"}})
    table = compare(ROWS, made).set_index("row")["verdict"]
    assert table.to_dict() == {
        "sort, accuracy": "missing",
        "sort, exact match": "bit for bit",
        "hist, accuracy": "missing",
        "hist, tokens right": "new",
    }


def test_a_column_that_was_a_parameter_is_filled_in(folders, monkeypatch):
    results, build = folders
    put(results, ROWS, monkeypatch)
    both = pd.concat([ROWS.assign(measure="kendall", value=0.1), ROWS.assign(measure="top match")])
    put(build, both, monkeypatch)
    assert reproduced(build, results)["verdict"].value_counts().to_dict() == {"bit for bit": 3, "new": 3}


def test_a_chapter_with_one_more_parameter_has_the_same_run(folders, monkeypatch):
    results, build = folders
    put(results, ROWS, monkeypatch)
    put(build, ROWS, monkeypatch, tensorboard=False)
    assert line(reproduced(build, results)) == "3 of 3 recorded numbers reproduced"
    put(build, ROWS, monkeypatch, tensorboard=True)  # two that may be meant: neither is
    assert line(reproduced(build, results)).startswith("None of the 3 recorded numbers")


def test_the_line_counts_what_was_run_and_says_what_was_not(folders, monkeypatch):
    results, build = folders
    put(results, ROWS, monkeypatch)
    put(results, ROWS, monkeypatch, steps=200)
    put(build, ROWS, monkeypatch)
    left = "another 3, in 1 records, come from runs that this build did not repeat"
    assert line(reproduced(build, results)) == f"3 of 3 recorded numbers reproduced; {left}"

    put(build, ROWS.assign(value=[0.9 * (1 + 4e-16), 0.35, 0.0]), monkeypatch)
    put(build, ROWS, monkeypatch, steps=7)
    table = reproduced(build, results)
    closely = "1 to rounding, 1 within the interval"
    assert line(table) == f"2 of 3 recorded numbers reproduced; {closely}; 1 differs; {left}"
    assert sorted(summary(table).values()) == [
        "1 of 3 to rounding, 1 of 3 within the interval, 1 of 3 differs",
        "3 new",
        "3 of 3 not run",
    ]


def test_the_command_prints_what_moved_and_fails(folders, monkeypatch, capsys):
    results, build = folders
    put(results, ROWS, monkeypatch)
    monkeypatch.setattr("sys.argv", ["reproduced", str(build), "--recorded", str(results)])
    put(build, ROWS, monkeypatch)
    assert main() == 0
    assert capsys.readouterr().out.endswith("No number moved.\n3 of 3 recorded numbers reproduced\n")
    put(build, ROWS.assign(value=[0.9, 0.3 + 1e-16, 0.25]), monkeypatch)
    assert main() == 0
    said = capsys.readouterr().out
    assert "sort, exact match" in said and "to rounding" in said and "hist, accuracy" not in said
    put(build, ROWS.assign(value=[0.9, 0.3, 0.0]), monkeypatch)
    assert main() == 1
    said = capsys.readouterr().out
    assert "hist, accuracy" in said and "sort, accuracy" not in said
    assert said.endswith("2 of 3 recorded numbers reproduced; 1 differs\n")


def test_a_folder_without_records_and_a_damaged_record_are_told_in_a_line(folders, monkeypatch, capsys):
    results, build = folders
    put(build, ROWS, monkeypatch)
    monkeypatch.setattr("sys.argv", ["", str(build), "--recorded", str(results)])
    with pytest.raises(SystemExit):
        main()
    assert f"{results} holds no records: a folder per chapter is meant" in capsys.readouterr().err
    put(results, ROWS, monkeypatch)
    (damaged,) = results.glob("*/*.json")
    damaged.write_text("{")
    with pytest.raises(SystemExit, match="is damaged: it is no JSON"):
        main()


def test_the_books_own_records_are_themselves():
    table = reproduced(RESULTS)
    assert set(table["verdict"]) == {"bit for bit"} and len(summary(table)) >= 13
    assert line(table) == f"{len(table):,} of {len(table):,} recorded numbers reproduced"


def test_a_damaged_record_is_named(folders, monkeypatch):
    results, build = folders
    put(results, ROWS, monkeypatch)
    put(build, ROWS, monkeypatch)
    (path,) = (build / "chapter").glob("*.json")
    path.write_text(path.read_text()[:100])
    with pytest.raises(ValueError, match=rf"{path} is damaged: it is no JSON. Delete run-27a68514"):
        reproduced(build, results)


SEEDS = pd.DataFrame(
    {
        "run": [f"sort, seed {seed}" for seed in range(3)],
        "seed": range(3),
        "metric": "accuracy",
        "value": [0.90, 0.92, 0.94],
        "low": [0.89, 0.91, 0.93],
        "high": [0.91, 0.93, 0.95],
        "n": 50,
    }
)


@pytest.mark.parametrize(
    ("value", "verdict"),
    # One more of three seeds: .92 +- 4.303 * .02 * sqrt(4 / 3), that is from .8206 to 1.0194.
    [(0.88, "within seeds"), (0.8207, "within seeds"), (0.8205, "differs"), (0.905, "within the interval")],
)
def test_a_model_trained_again_may_move_as_seeds_do(value, verdict):
    made = SEEDS.assign(value=[value, 0.92, 0.94])
    assert compare(SEEDS, made)["verdict"].tolist()[0] == verdict
    # Two seeds say too little, and so do rows that are of no seed.
    for fewer in (SEEDS[:2], SEEDS.drop(columns="seed")):
        assert "within seeds" not in set(compare(fewer, made[: len(fewer)])["verdict"])


class Steps:
    steps, seconds, interrupted = 10, 1.0, False


def trained(folder, rows, monkeypatch, processor, training, **parameters):
    monkeypatch.setattr(provenance, "processor", lambda: processor)
    monkeypatch.setenv("ATTNLIB_RESULTS", str(folder))
    told = {"model": Steps()} if training else None
    params = PARAMETERS | parameters
    record(rows, notebook="chapter", label="run", params=params, device="CPU", training=told)


@pytest.mark.parametrize(
    ("processor", "training", "verdict"),
    [("A, AVX2", True, "differs"), ("B, AVX512", True, "another processor"), ("B, AVX512", False, "differs")],
)
def test_only_training_moves_numbers_from_processor_to_processor(
    folders, monkeypatch, processor, training, verdict
):
    results, build = folders
    trained(results, ROWS, monkeypatch, "A, AVX2", training)
    trained(build, ROWS.assign(value=[0.9, 0.3, 0.1], low=[0.8, 0.1, 0.0]), monkeypatch, processor, training)
    table = reproduced(build, results)
    assert table["verdict"].value_counts().to_dict() == {"bit for bit": 2, verdict: 1}
    assert f"1 {verdict}" in line(table)


@pytest.mark.parametrize(
    ("processor", "verdict"), [("A, AVX2", "missing"), ("B, AVX512", "another processor")]
)
def test_a_row_named_after_a_choice_is_another_one_on_another_processor(
    folders, monkeypatch, processor, verdict
):
    results, build = folders
    trained(results, ROWS, monkeypatch, "A, AVX2", True)
    trained(build, ROWS.iloc[1:], monkeypatch, processor, True)
    assert reproduced(build, results)["verdict"].value_counts().to_dict() == {"bit for bit": 2, verdict: 1}


@pytest.mark.parametrize(
    ("processor", "verdict"), [("A, AVX2", "differs"), ("B, AVX512", "another processor")]
)
def test_who_takes_trained_models_has_numbers_that_move_with_them(folders, monkeypatch, processor, verdict):
    results, build = folders
    moved = ROWS.assign(value=[0.9, 0.3, 0.1], low=[0.8, 0.1, 0.0])
    trained(results, ROWS, monkeypatch, "A, AVX2", False, models="quick")
    trained(build, moved, monkeypatch, processor, False, models="quick")
    assert reproduced(build, results)["verdict"].value_counts().to_dict() == {"bit for bit": 2, verdict: 1}


@pytest.mark.parametrize(("processor", "verdict"), [("A, AVX2", "differs"), ("B, AVX512", "to rounding")])
def test_single_precision_is_rounded_otherwise_on_another_processor(folders, monkeypatch, processor, verdict):
    results, build = folders
    rows = ROWS.assign(low=ROWS["value"], high=ROWS["value"])  # as the least of some numbers
    trained(results, rows, monkeypatch, "A, AVX2", False)
    other = rows[["value", "low", "high"]] * (1 + 1e-7)
    trained(build, rows.assign(**other), monkeypatch, processor, False)
    assert set(reproduced(build, results)["verdict"]) == {verdict}


def test_records_that_a_clean_build_gave_again_are_noted(folders, monkeypatch):
    results, build = folders
    put(results, ROWS, monkeypatch)
    put(results, ROWS, monkeypatch, steps=200)
    for steps, folder in enumerate((runs.SMOKE, runs.QUICK), 1):
        put(results / folder, ROWS, monkeypatch, steps=steps)
    monkeypatch.setattr(runs, "origin", lambda: ORIGIN | {"clean": False})
    put(build, ROWS, monkeypatch)
    assert write_found_again(build, results) == 0 and found_again(results).empty  # uncommitted changes
    monkeypatch.setattr(runs, "origin", lambda: ORIGIN | {"commit": "then"})
    put(build, ROWS, monkeypatch)
    put(build, ROWS.assign(value=[0.9, 0.3, 0.1], low=0.0), monkeypatch, steps=200)  # a number moved
    put(build, ROWS, monkeypatch, steps=1)
    put(build, ROWS, monkeypatch, steps=2)
    monkeypatch.setattr("sys.argv", ["", str(build), "--recorded", str(results), "--write"])
    assert main() == 1
    assert found_again(results)["numbers"].tolist() == ["3 of 3 bit for bit"] * 3
    before = {path: path.read_bytes() for path in results.rglob("*.parquet")}
    monkeypatch.setattr(runs, "origin", lambda: ORIGIN | {"commit": "now"})
    put(build, ROWS, monkeypatch, steps=200)
    assert write_found_again(build, results) == 4
    assert len(found_again(results)) == 4 and "now" in set(found_again(results)["commit"])
    assert {path: path.read_bytes() for path in before} == before
