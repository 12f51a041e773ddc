"""The chapter from the command line: fine-tuning, and a text of one's own."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROFILES = ROOT / "notebooks/profiles/algorithmic_reasoning"

TINY = """
tasks: [string_reversal]
override:
  string_reversal: {train: {length: [2, 4]}, id: {length: [2, 4]}, ood: {length: [5, 6]}}
supervised: [string_reversal]
width: 16
steps: 3
batch_size: 4
test_samples: 6
strengths: [1.0]
reinforced_heads: 2
"""


def papermill(folder, settings):
    """Run the chapter with these settings, as a reader would."""
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    chapter = str(ROOT / "notebooks/algorithmic_reasoning.ipynb")
    command = [sys.executable, "-m", "papermill", chapter, "out.ipynb", "-f", "settings.yaml"]
    environment = os.environ | {"ATTNLIB_CACHE": str(folder), "ATTNLIB_RESULTS": str(folder / "results")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def outputs(folder):
    return str([cell.get("outputs") for cell in nbformat.read(folder / "out.ipynb", 4).cells])


@pytest.mark.notebook
def test_fine_tuning_with_chat_instruction_and_examples(tmp_path):
    """The `finetune` profile, with a model of random weights and in a few steps."""
    settings = yaml.safe_load((PROFILES / "finetune.yaml").read_text()) | yaml.safe_load(TINY)
    settings |= {"model": "tiny-random", "precision": "float32", "device": "cpu"}
    done = papermill(tmp_path, settings)
    assert done.returncode == 0, done.stderr[-2000:]
    (file,) = (tmp_path / "results" / "algorithmic_reasoning").glob("*.parquet")
    rows = pd.read_parquet(file)
    assert set(rows["run"]) == {"string reversal", "string reversal, supervised"}
    assert rows["setting"].str.startswith("tiny-random, fine-tuned, chat, instruction, examples").all()
    assert rows[["value", "low", "high"]].notna().all(axis=None)


@pytest.mark.notebook
def test_a_text_of_ones_own_and_an_untrained_model(tmp_path):
    settings = yaml.safe_load(TINY) | {
        "model": "tiny-random",
        "steps": 0,
        "supervised": [],
        "text": "abc=cba",
    }
    done = papermill(tmp_path, settings | {"strengths": []})
    assert done.returncode == 0, done.stderr[-2000:]
    shown = outputs(tmp_path)
    assert "yours, heads: abc=cba" in shown and "yours, rollout: abc=cba" in shown
