"""Compiles engine.c, bit for bit: `pip install ziglang==0.17.1`, then `python -m attnlib.widgets.live.build`.

Zig's package on the Python index carries clang and its linker for every platform; the same version writes the
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
    """The version of `ziglang` that is installed; None for none."""
    try:
        return version("ziglang")
    except PackageNotFoundError:
        return None


def build(folder: Path = LIVE) -> None:
    """Compiles both variants into a folder, by the compiler whose bytes are committed and no other."""
    if compiler() != COMPILER:
        raise RuntimeError(f"pip install ziglang=={COMPILER} first; found {compiler() or 'none'}")
    zig = [sys.executable, "-m", "ziglang", "cc", *FLAGS, *WARNINGS, *(f"-Wl,{flag}" for flag in LINKING)]
    for name, more in VARIANTS.items():
        # the source's name as it stands: no path gets into the file
        subprocess.run([*zig, *more, "-o", str(folder / name), "engine.c"], cwd=LIVE, check=True)
        (folder / name).chmod(0o644)


if __name__ == "__main__":
    build()
