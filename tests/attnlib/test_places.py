"""Paths as they are printed for a person."""

import subprocess
from pathlib import Path

import pytest

from attnlib.places import pasteable


@pytest.mark.parametrize("name", ["kept/best.safetensors", "my models/it's/best.safetensors"])
@pytest.mark.parametrize("home", ["home", "elsewhere"])
def test_a_path_that_is_printed_is_found_by_a_shell_in_any_folder(tmp_path, monkeypatch, name, home):
    file = tmp_path / "home" / name
    file.parent.mkdir(parents=True)
    file.write_text("weights")
    monkeypatch.setenv("HOME", str(tmp_path / home))
    monkeypatch.chdir(tmp_path)
    printed = pasteable(file.relative_to(Path.cwd()))
    found = subprocess.run(["bash", "-c", f"cat {printed}"], cwd="/", capture_output=True, text=True)
    assert found.stdout == "weights"
    assert printed.startswith("~/") == (home == "home")
