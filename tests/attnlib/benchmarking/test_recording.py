"""Recording: rows of many programs as one file, and what a reader needs to record them again."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from attnlib.benchmarking import recording
from attnlib.benchmarking.scoring import COMPARED


def test_rows_are_gathered_with_what_records_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gathered = tmp_path / "plain.parquet"
    command = [
        "recording",
        "--plain",
        "--seeds",
        "1000:1002",
        str(tmp_path / "parts"),
        "--gather",
        str(gathered),
    ]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(recording, "COMPARED", ("rollout", "mean attention"))
    assert recording.main() == 0
    rows = pd.read_parquet(gathered)
    assert set(rows["method"]) == {"rollout", "mean attention"} < set(COMPARED)
    told = json.loads(gathered.with_suffix(".json").read_text())
    assert told["seeds"] == sorted(set(rows["seed"])) and told["weights"] == "compiled, without disguise"
    assert told["population"] == "programs-1" and {"attnlib", "torch", "numpy"} == set(told["versions"])
    assert "01000-01001.parquet: 2 programs" in capsys.readouterr().err
    assert recording.main() == 0  # what was recorded is not asked again
    assert "programs" not in capsys.readouterr().err
    pd.testing.assert_frame_equal(pd.read_parquet(gathered), rows)
