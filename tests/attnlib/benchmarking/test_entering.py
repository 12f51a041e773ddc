"""A method of one's own: its row beside the others, its page, its entry; and the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import attnlib
from attnlib.attribution.registry import METHODS
from attnlib.benchmarking import entering
from attnlib.benchmarking.entering import benchmark
from attnlib.benchmarking.population import draw
from attnlib.benchmarking.scoring import COMPARED, PUBLISHED, published, rows_of
from attnlib.commands import main

ROOT = Path(__file__).parents[3]
SEEDS = range(1000, 1012)


def last_first(model, input_ids, attention_mask=None, query=-1, target=None, foil=None):
    """Later tokens get higher scores."""
    return torch.arange(input_ids.shape[1]).expand(input_ids.shape).double()


@pytest.fixture(scope="module")
def result():
    return benchmark(last_first, SEEDS, progress=False)


def test_recorded_scores_are_found_again() -> None:
    """The scores that come with the package are those of today's code."""
    names = ["rollout", "gradient norm", "activation patching", "AttnLRP", "ContextCite"]
    now = rows_of(range(1000, 1004), {name: METHODS[name] for name in names})
    before = published(range(1000, 1004)).astype({"method": str, "truth": str, "sign": str, "value": float})
    both = now.merge(before, on=["seed", "method", "truth", "sign"], suffixes=("", "_before"))
    assert len(both) == len(now) > 30
    off = both[~np.isclose(both["value"], both["value_before"], rtol=0, atol=2e-5)]
    # AttnLRP divides by sums near 0, which processors round differently: in program 1003 that matters.
    assert set(off["method"]) <= {"AttnLRP"} and set(off["seed"]) <= {1003}


def test_recorded_scores_are_of_at_least_a_thousand_programs_and_all_methods() -> None:
    rows = pd.read_parquet(PUBLISHED)
    assert rows["seed"].nunique() >= 1_000 and set(rows["method"]) == set(COMPARED)


def test_a_method_stands_beside_all_others_with_its_rank(result) -> None:
    table = result.table
    assert set(table["method"]) == {"last_first", *COMPARED}
    own = table.set_index("method").loc["last_first"]
    mean = rows_of(SEEDS, {"last_first": last_first}).query("truth == 'reads'")["value"].mean()
    assert own["reads"] == pytest.approx(mean) and own["reads_low"] < mean < own["reads_high"]
    assert own["reads_rank"] == 1 + (table["reads"] > mean).sum()
    assert result.passes == 0 and result.programs == int(own["n"])
    assert set(result.differences["second"]) >= {"rollout", "gradient norm"}


def test_the_verb_is_the_same_function() -> None:
    assert attnlib.benchmark is benchmark


def test_the_page_needs_nothing_and_shows_the_method(result, tmp_path) -> None:
    text = result.page(tmp_path / "mine.html").read_text()
    assert "<h1>last_first</h1>" in text and "rank" in text
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?https?:", text)


def test_an_entry_holds_the_numbers_and_where_they_are_from(result, tmp_path) -> None:
    entry = json.loads(result.entry(tmp_path / "mine.json").read_text())
    assert entry["method"] == "last_first" and entry["seeds"] == "1000:1012"
    assert entry["population"] == attnlib.benchmarking.POPULATION
    reads = entry["values"]["reads, as given"]
    (row,) = [each for each in entry["summary"] if each["truth"] == "reads"]
    assert row["value"] == pytest.approx(np.mean([*reads.values()]), abs=1e-5)


FILE = """
import torch

def mine(model, input_ids, attention_mask=None, query=-1, target=None, foil=None):
    return torch.ones(input_ids.shape)

def short(model, input_ids, **how):
    return torch.ones(input_ids.shape)[:, 1:]

number = 3
"""


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "my_file.py"
    path.write_text(FILE)
    return path


def test_the_command_prints_the_row_and_writes_a_page(file, tmp_path, capsys) -> None:
    page = tmp_path / "mine.html"
    assert main(["benchmark", f"{file}:mine", "--seeds", "1000:1006", "-o", str(page)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("mine: 6 programs") and "by causes" in said and "minus rollout" in said
    assert page.exists() and str(page) in said


@pytest.mark.parametrize(
    ("method", "more", "message"),
    [
        ("{file}:their", [], "must define a function their; it defines mine, short"),
        ("{file}:number", [], "must define a function number"),
        ("{file}:short", [], "the scores of short must be of the shape"),
        ("nowhere.py:mine", [], "there is no nowhere.py"),
        ("rolout", [], "method must be FILE.py:FUNCTION or one of raw attention, last layer"),
        ("{file}:mine", ["-o", "page.txt"], "--output must end in .html or .json; got page.txt"),
        ("{file}:mine", ["-o", "no/such/page.html"], "there is no folder no/such"),
        ("{file}:mine", ["--name", "rollout"], "name must differ from those of the methods that are there"),
        ("rollout", ["--name", "AttnLRP"], "name must differ from those of the methods that are there"),
    ],
)
def test_what_cannot_be_entered_is_one_line(file, capsys, method, more, message) -> None:
    assert main(["benchmark", method.format(file=file), "--seeds", "1000:1002", *more]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("attnlib benchmark: ") and message in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("first", [5000, 300], ids=["beyond the recorded seeds", "between them"])
def test_of_programs_that_are_not_recorded_all_methods_are_asked(monkeypatch, first: int) -> None:
    monkeypatch.setattr(entering, "COMPARED", ("rollout", "gradient norm"))
    found = benchmark(last_first, range(first, first + 3), progress=False)
    assert set(found.table["method"]) == {"last_first", "rollout", "gradient norm"}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: benchmark(last_first, range(0)), "seeds"),
        (lambda: benchmark(last_first, [1000, 5000]), "seeds"),
        (lambda: benchmark("chess"), "method"),
        (lambda: draw(-1), "seed"),
    ],
)
def test_what_cannot_be_asked_is_refused(call, name) -> None:
    with pytest.raises(ValueError, match=f"^{name} must "):
        call()


CAPTUM = ("captum_integrated_gradients", "captum_occlusion", "captum_shapley_sampling")
OWN = {"kernel_shap": "KernelSHAP", "reagent": "ReAGent"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CAPTUM, *OWN])
def test_entries_of_the_leaderboard_are_computed_again(name: str, tmp_path) -> None:
    """Methods of captum, which enter by a few lines, and of the library."""
    method = OWN.get(name, f"{ROOT / 'book/leaderboard/captum_methods.py'}:{name}")
    out = tmp_path / "entry.json"
    command = [sys.executable, "-m", "attnlib", "benchmark", method, "--seeds", "1000:1004"]
    subprocess.run([*command, "-o", str(out)], check=True, cwd=ROOT, capture_output=True)
    entry = json.loads((ROOT / f"book/leaderboard/{name}.json").read_text())
    now = json.loads(out.read_text())["values"]["reads, as given"]
    assert now == pytest.approx({seed: entry["values"]["reads, as given"][seed] for seed in now}, abs=1e-4)
