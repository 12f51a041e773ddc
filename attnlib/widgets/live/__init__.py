"""The engine that computes a language model in a page, and the parts that a page needs to run it.

`engine.c`, compiled by `build.py` to WebAssembly, computes models of Llama's architecture from an unchanged
GGUF file. A page's own script imports `model.js`: its `LiveModel` opens a file in workers of the page, writes
text word by word, each with the rollout and attention of the row that predicts it, and blanks tokens out. The
page holds the workers' script and the engine (`parts`); the model's file comes from the page or the reader.

The coefficients of the engine's exponential are those of Cephes (S. Moshier, public), its random numbers
mulberry32 (T. Ettinger, public domain); the rest is this project's. A model's weights have a licence of their
own, which a page that holds them names.
"""

import base64
from pathlib import Path
from typing import Any

from attnlib.widgets.front_end import front_end

__all__ = ["LIVE", "parts"]

LIVE = Path(__file__).parent
"""The folder of the engine and its scripts."""

ENGINES = ("engine_fused.wasm", "engine.wasm")
"""Two builds of the engine. The first is faster: it uses fused multiply-add, which not every browser has."""


def parts() -> dict[str, Any]:
    """The argument `parts` of `LiveModel.open`, to be put into a page as JSON: 70 kB.

    Returns:
        `engines`, the compiled engine in base64, the preferred one first; `worker`, the workers' script.
    """
    engines = [base64.b64encode((LIVE / name).read_bytes()).decode() for name in ENGINES]
    return {"engines": engines, "worker": front_end("worker.js", LIVE)[0]}
