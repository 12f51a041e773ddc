"""Whether memory stays flat while `stream_with_rollout` writes, text after text, for an hour.

    python benchmarks/streaming.py --record          # an hour of one CPU thread
    python benchmarks/streaming.py --minutes 1

A small model with trained weights (`$ATTNLIB_DATA`) goes on with one story after the other, as far as it
reads, and every row is taken as it comes. Every five minutes a line says how many tokens were written till
then and the most memory that was resident after a text since the line before; the table is written after
each.
"""

from __future__ import annotations

import gzip
import itertools
import os
import time
from pathlib import Path

import pandas as pd
import torch
from rollout import resident
from timing import Line, common_options, report

from attnlib.models.pretrained import load_language_model
from attnlib.rollout import stream_with_rollout

PROMPT, PART = 64, 5
"""Tokens of a story that are given; minutes of a line."""


def main() -> None:
    """Stream until the time is over."""
    parser = common_options(__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="how long (default 60)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if "ATTNLIB_DATA" not in os.environ:
        raise SystemExit("ATTNLIB_DATA must name a folder with lm/ and models/stories260k")
    data = Path(os.environ["ATTNLIB_DATA"])
    model, tokenizer = load_language_model(str(data / "models" / "stories260k"), device="cpu")
    model.generation_config.eos_token_id = None  # every text as long as the model reads
    new = model.config.max_position_embeddings - PROMPT
    with gzip.open(data / "lm" / "tinystories_2k7.tsv.gz", "rt", encoding="utf-8") as file:
        stories = pd.read_csv(file, sep="\t", quoting=3)["text"]

    start, lines, texts, highest = time.monotonic(), list[Line](), 0, 0
    for story in itertools.cycle(stories):
        ids = tokenizer(story, return_tensors="pt")["input_ids"][:, :PROMPT]
        written = sum(1 for _ in stream_with_rollout(model, ids, new, do_sample=True))
        if written != new:
            raise SystemExit(f"A stream of {new} tokens ended after {written}")
        texts, highest = texts + 1, max(highest, resident())
        minutes = (time.monotonic() - start) / 60
        if minutes >= min(PART * (len(lines) + 1), options.minutes):
            lines.append(
                {
                    "minutes": f"{minutes:.0f}",
                    "texts": f"{texts:,}",
                    "tokens": f"{texts * new:,}",
                    "resident, MiB": f"{highest / 2**20:.1f}",
                }
            )
            report("streaming", lines, options.record)
            highest = 0
        if minutes >= options.minutes:
            return


if __name__ == "__main__":
    main()
