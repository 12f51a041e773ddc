"""Reproducible build of engine.c: `pip install ziglang==0.17.1`, `python -m attnlib.widgets.live.build`.

The package `ziglang` on PyPI contains clang and its linker for every platform; the same version writes the
same bytes.
"""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from attnlib.widgets.live import LIVE

COMPILER = "0.17.1"
"""The version of `ziglang` that wrote the committed files."""

FLAGS = [
    "--target=wasm32-freestanding",
    "-O3",
    "-msimd128",
    "-nostdlib",
    "-fno-builtin",
    "-fvisibility=hidden",
]
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
LINKING = ["--no-entry", "--export-dynamic", "--export=__heap_base", "-z,stack-size=65536", "--strip-all"]
VARIANTS: dict[str, list[str]] = {"engine.wasm": [], "engine_fused.wasm": ["-DFUSED", "-mrelaxed-simd"]}


def compiler() -> str | None:
    """The installed version of `ziglang`; None if there is none."""
    try:
        return version("ziglang")
    except PackageNotFoundError:
        return None


def build(folder: Path = LIVE) -> None:
    """Compiles both variants into a folder; raises a RuntimeError unless `ziglang` has version `COMPILER`."""
    if compiler() != COMPILER:
        raise RuntimeError(f"pip install ziglang=={COMPILER} first; found {compiler() or 'none'}")
    zig = [sys.executable, "-m", "ziglang", "cc", *FLAGS, *WARNINGS, *(f"-Wl,{flag}" for flag in LINKING)]
    for name, more in VARIANTS.items():
        # compiled inside its folder, by its bare name: no path gets into the output
        subprocess.run([*zig, *more, "-o", str(folder / name), "engine.c"], cwd=LIVE, check=True)
        (folder / name).chmod(0o644)


if __name__ == "__main__":
    build()
