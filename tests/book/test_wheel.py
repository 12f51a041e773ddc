"""The wheel: it holds every file that the package reads, and works where nothing of the book is installed."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.version import Version

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NOT_INSTALLED = ("jupyter_book", "papermill", "jupytext", "snakemake", "jupyterlab", "matplotlib",
                 "seaborn", "ruff", "pytest", "gguf", "datasets")  # fmt: skip
"""What only the extras bring."""


def setuptools_version() -> Version:
    try:
        return Version(version("setuptools"))
    except PackageNotFoundError:
        return Version("0")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy of what a release holds, by the setuptools that is installed: there is no network."""
    if setuptools_version() < Version("77"):
        pytest.skip("no setuptools of 77 or newer is installed; `make wheel` fetches one")
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("attnlib", "pyproject.toml", "README.md", "LICENSE"):
        subprocess.run(["cp", "-r", ROOT / name, source], check=True)
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    done = subprocess.run([*build, "--wheel-dir", folder, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (made,) = folder.glob("*.whl")
    return made


def test_it_holds_every_file_of_the_package_and_nothing_of_the_book(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    here = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "attnlib").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md"
    }
    assert inside == here
    assert {Path(name).suffix for name in inside} == {".py", ".js", ".css", ".c", ".wasm", ".parquet"}


def test_its_command_works_without_the_book(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    (points,) = (tmp_path / "installed").glob("*.dist-info/entry_points.txt")
    assert "attnlib = attnlib.commands:main" in points.read_text()
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({NOT_INSTALLED!r}))\n"
        "import attnlib; from attnlib.commands import main\n"
        f"assert attnlib.__file__.startswith({str(tmp_path)!r}), attnlib.__file__\n"
        "raise SystemExit(main(['look', 'tiny-random', 'the cat', '--new-tokens', '2']))"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / done.stdout.strip()).read_text().startswith("<!DOCTYPE html>")
