"""How fast the translator trains, beside the original's own code.

    python benchmarks/translation_training.py [--original FOLDER] [--record]

Both make steps at the original's size (hidden 256, 2 layers, dropout .5, 8,000 tokens, batch 16, Adam) on
Multi30k, from `$ATTNLIB_DATA` or its public source, or on sentences of such lengths where it cannot be had;
on one thread, in turn; the ratio is what to look at. Ours puts sentences of like length together, as it does
when it trains; "in random order" it does not, and has the same batches as the original. `--original` names a
copy of AttentionDynamics. That both reach the same loss from the same weights is a test
(tests/attnlib/models/test_seq2seq.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import torch
from timing import ORIGINAL, Way, common_options, compared, report

from attnlib.files import cache_folder
from attnlib.generators.translation import Pairs, bitext
from attnlib.models.seq2seq import Seq2Seq, Seq2SeqConfig, translation_loss


def stepping(
    loss: Callable[[Any], torch.Tensor], optimizer: torch.optim.Optimizer, batch_at: Callable
) -> Callable:
    """What makes so many more steps."""
    steps = count()

    def train(more: int) -> None:
        for _ in range(more):
            optimizer.zero_grad()
            loss(batch_at(next(steps))).backward()
            optimizer.step()

    return train


def original_model(folder: Path, dropout: float) -> Any:
    """The original's model, at its size."""
    sys.path.insert(0, str(folder / "translation"))
    from seq2seq_model import Seq2seq  # type: ignore[import-not-found]

    return Seq2seq("cpu", 8000, 256, dropout, 2, True, pad_id=0, full_model=True)


def sentences() -> Pairs:
    """Multi30k's training sentences."""
    return bitext("multi30k", cache=cache_folder()).train


def main() -> None:
    """Print steps per second of each, and their ratios."""
    parser = common_options(__doc__ or "", "AttentionDynamics")
    parser.add_argument("--steps", type=int, default=4, help="steps of each way in each of five rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pairs, ways = sentences(), {}
    for name, pool in {"": 50, "in random order": 1}.items():
        torch.manual_seed(0)
        model = Seq2Seq(Seq2SeqConfig(8000)).train()
        adam = torch.optim.Adam(model.parameters(), fused=True)
        ways[name] = stepping(
            lambda batch, model=model: translation_loss(model, batch), adam, pairs.batches(16, pool=pool)
        )
    if options.original:
        theirs = original_model(options.original, 0.5)
        loss = lambda batch: theirs.compute_loss(batch.source.T, batch.target.T)["loss"]  # noqa: E731
        ways[ORIGINAL] = stepping(loss, torch.optim.Adam(theirs.parameters()), pairs.batches(16, pool=1))
    timed = {}
    for name, train in ways.items():
        train(1)  # the first step only warms up
        timed[name] = Way(options.steps, lambda train=train: train(options.steps))
    ours = timed.pop("")
    report("translation_training", [compared("steps of the translator", ours, timed)], options.record)


if __name__ == "__main__":
    main()
