"""Time and memory of rollout from 4,096 to 131,072 tokens, against a plain forward pass of the same model.

    python benchmarks/longest_context.py --record               # 45 to 100 minutes of one CPU thread
    python benchmarks/longest_context.py --sizes 4096 8192      # one minute

A small trained model reads real stories, concatenated (`$ATTNLIB_DATA`); rollout is computed for 64 keys. The
texts are longer than those of training, so predictions are meaningless, but costs are those of any model of
this shape. NaN ends the benchmark. Every measurement has a process of its own, as in `rollout.py`, in which
short passes are repeated. The table is written after each size; rows of other kinds of processors are kept.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
import time
from argparse import SUPPRESS
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from rollout import KEYS, resident
from timing import PAGES, common_options, shown, write_machine, write_table
from torch import Tensor

from attnlib.models.pretrained import load_language_model
from attnlib.rollout import rollout_of

SIZES = [4096, 8192, 16384, 32768, 65536, 131072]
KIND = "instructions"
"""The column with PyTorch's name of the processor's vector instructions, such as AVX2 or AVX512."""

PLAIN, OURS = "plain forward", f"rollout_of, {KEYS} keys"
LONG_ENOUGH, MOST = 20.0, 5
"""Total seconds after which a pass is not repeated, and the most runs of a pass."""


def stories(tokenizer: Any, folder: Path, n: int) -> Tensor:
    """The first `n` tokens of the stories, as a batch of one text."""
    with gzip.open(folder / "lm" / "tinystories_2k7.tsv.gz", "rt", encoding="utf-8") as file:
        table = pd.read_csv(file, sep="\t", quoting=3)
    ids = tokenizer(" ".join(table["text"].iloc[: n // 50]), add_special_tokens=False)["input_ids"]
    if len(ids) < n:
        raise SystemExit(f"The stories have {len(ids):,} tokens: --sizes must not be above that. Got {n:,}")
    return torch.tensor([ids[:n]])


def measure(method: str, n: int, data: Path) -> dict[str, float]:
    """Processor seconds (the least of all runs) and peak MiB of one pass over `n` tokens."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    model, tokenizer = load_language_model(str(data / "models" / "stories260k"), device="cpu")
    model.config.max_position_embeddings = n  # rotary positions have no maximum
    ids = stories(tokenizer, data, n)
    before, times, peak = resident(), [], 0.0
    while not times or (sum(times) < LONG_ENOUGH and len(times) < MOST):
        started = time.process_time()
        states = (
            model.model(ids, use_cache=False).last_hidden_state
            if method == PLAIN
            else rollout_of(model, ids, keys=range(KEYS))
        )
        times.append(time.process_time() - started)
        if not states.isfinite().all():
            raise SystemExit(f"{method} of {n:,} tokens gave NaN or infinity")
        # The peak of the first run: later runs would include memory that the allocator keeps.
        peak = peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    return {"seconds": min(times), "MiB": peak / 2**20}


def in_a_process(method: str, n: int) -> dict[str, float]:
    """The result of `measure` in a fresh process, so that its peak memory is not that of earlier passes."""
    command = [sys.executable, __file__, "--pass", method, "--sizes", str(n)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def beside_others(table: pd.DataFrame) -> pd.DataFrame:
    """The table below the recorded rows of other kinds of processors."""
    recorded = pd.read_csv(PAGES / "longest_context.csv", dtype=str)
    return pd.concat([recorded[~recorded[KIND].isin(table[KIND])], table])


def main() -> None:
    """Measure one size after the other, the plain pass and rollout in turn."""
    parser = common_options(__doc__)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, help="tokens (default 4,096 to 131,072)"
    )
    parser.add_argument("--pass", dest="one", help=SUPPRESS)
    arguments = parser.parse_args()
    if "ATTNLIB_DATA" not in os.environ:
        raise SystemExit("ATTNLIB_DATA must name a folder with lm/ and models/stories260k")
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.sizes[0], Path(os.environ["ATTNLIB_DATA"]))))
        return
    rows = []
    for n in arguments.sizes:
        plain, ours = in_a_process(PLAIN, n), in_a_process(OURS, n)
        rows.append(
            {
                KIND: torch.backends.cpu.get_cpu_capability(),
                "tokens": str(n),
                "plain forward, s": plain["seconds"],
                f"{OURS}, s": ours["seconds"],
                "times the plain pass": ours["seconds"] / plain["seconds"],
                "plain forward, MiB": plain["MiB"],
                f"{OURS}, MiB": ours["MiB"],
            }
        )
        table = pd.DataFrame([{name: shown(value) for name, value in row.items()} for row in rows])
        print(table.tail(1).to_string(index=False), flush=True)
        if arguments.record:
            write_table(beside_others(table), "longest_context")
            write_machine("longest_context", threads=1)


if __name__ == "__main__":
    main()
