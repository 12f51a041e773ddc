"""A language model that a page computes: its engine, and what a page needs of it.

`engine.c`, compiled by `build.py` to WebAssembly, computes models of Llama's shape from a GGUF file as it is.
`model.js` is what a page's own script imports: `LiveModel` opens a file in workers of the page, writes text
word by word, each with the rollout and attention of the row that predicts it, and blanks tokens out. The
workers' script and the engine travel in the page as `parts`; the model's file is the reader's or the page's.

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
"""The engine twice, the faster first: it multiplies and adds in one step, which not every browser can."""


def parts() -> dict[str, Any]:
    """What `LiveModel.open` takes as `parts`, to be put into a page as JSON: 70 kB.

    Returns:
        `engines`, the compiled engine in base64, the preferred one first; `worker`, the workers' script.
    """
    engines = [base64.b64encode((LIVE / name).read_bytes()).decode() for name in ENGINES]
    return {"engines": engines, "worker": front_end("worker.js", LIVE)[0]}
