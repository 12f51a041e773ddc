"""Training speed of a transformer on a RASP language: packed batches, padded batches, and the original code.

    python benchmarks/rasp_training.py [--original FOLDER] [--steps N] [--record]

All make the same steps at the paper's settings (width 256, feed-forward 512, layers and heads of its Table 1,
26 symbols, lengths 1 to 100, batches of 50, Adam at 3e-4) on the same texts, on one thread, in turn. The
result is the ratio of their speeds. "Plain" is our own model on the padded batch in float32, with the same
weights; the benchmark checks that its losses are the same. The original code needs the FOLDER of RASP-exps,
which is not part of this repository. PyTorch's stack of layers no longer accepts its layers, so a loop calls
them. A step includes making its batch, but the original converts symbols to ids once, before training.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timing import ORIGINAL, PLAIN, Line, Way, common_options, compared, report, training
from torch import Tensor, nn

from attnlib.generators import Batch, EpochBatches
from attnlib.generators.rasp import Language, language
from attnlib.models import Transformer, TransformerConfig
from attnlib.training import token_loss
from attnlib.training.packed import PackedLoss

WIDTH, BATCH, RATE, SUPERVISION = 256, 50, 3e-4, 100.0
SETTINGS = [
    ("sort", False, "float32"),
    ("sort", False, "bf16"),
    ("sort_by_freq", False, "float32"),
    ("sort_by_freq", False, "bf16"),
    ("hist2", True, "float32"),
]
"""Settings: the language, whether heads are supervised, and the precision."""


def ours(
    lang: Language, batch_at: EpochBatches, loss: Callable[..., Any], bf16: bool, losses: list[float]
) -> Callable[[int], None]:
    """A function that trains our model for a given number of further steps, and appends their losses."""
    n_layers, n_heads = lang.size
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"n_layers": n_layers, "n_heads": n_heads, "width": WIDTH, "ff_width": 2 * WIDTH}
    model = Transformer(TransformerConfig(len(lang.tokenizer), len(lang.classes), **sizes))
    return training(model, batch_at, loss, RATE, bf16=bf16, losses=losses)


class Stack(nn.Module):
    """A stack of custom layers, as `nn.TransformerEncoder` accepted them in earlier versions of PyTorch."""

    def __init__(self, layers: nn.ModuleList) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        """One layer after another."""
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=src_key_padding_mask)
        return x


def original(folder: Path, lang: Language, batches: list[Batch], supervised: bool) -> Callable[[int], None]:
    """A function that trains the original's model for a given number of further steps, on the same texts."""
    sys.path.insert(0, str(folder))
    from TransformerClassifier import TransformerEncoderClassifier  # type: ignore[import-not-found]
    from TransformerClassifierTrainer import (  # type: ignore[import-not-found]
        TransformerEncoderClassifierTrainer,
        prep_batch,
    )

    n_layers, n_heads = lang.size
    how = {
        "dropout": 0.0,
        "positional_encoding_type": "sin",
        "is_classifier": False,
        "add_BOS_to_input": False,
    }
    model = TransformerEncoderClassifier(
        list(lang.alphabet), list(lang.classes), WIDTH, n_heads, n_layers, 2 * WIDTH, **how
    )
    model.te = Stack(model.te.layers)
    model.set_training_attn(supervised)
    store = tempfile.mkdtemp()
    trainer = TransformerEncoderClassifierTrainer(
        model, RATE, store, attn_loss_c=SUPERVISION, training_out=io.StringIO()
    )
    trainer.set_loss_func()
    model.train()
    samples = [samples_of(batch, lang, supervised) for batch in batches]
    steps = count()

    def train(more: int) -> None:
        for _ in range(more):
            ready = prep_batch(samples[next(steps) % len(samples)], model.non_token_index)
            trainer.train_loss(trainer.get_batch_loss(ready)[0])

    return train


def samples_of(batch: Batch, lang: Language, supervised: bool) -> list[tuple]:
    """A batch in the original's format: lists of ids, and target attention by layer and head."""
    found = []
    for row, n in enumerate(batch.attention_mask.sum(1).tolist()):
        symbols = [
            lang.alphabet.index(symbol)
            for symbol in lang.tokenizer.convert_ids_to_tokens(batch.input_ids[row, :n])
        ]
        targets: Any = batch.target_ids[row, :n].tolist()
        if supervised:
            attention: dict[int, dict[int, Any]] = {}
            for (layer, head), mask in batch.target_attention.items():
                attention.setdefault(layer, {})[head] = mask[row, :n, :n].int().tolist()
            targets = (targets, attention)
        found.append((symbols, targets))
    return found


def steps(name: str, supervised: bool, precision: str, folder: Path | None, of_a_turn: int) -> Line:
    """A row of the table: steps per second of each implementation, and the ratios."""
    lang = language(name, alphabet_size=26)
    batch_at = lang.batches(lang.sequences(2000), BATCH, target_attention=supervised)
    weight, bf16 = SUPERVISION * supervised, precision == "bf16"
    losses: list[list[float]] = [[], []]
    packed = ours(lang, batch_at, PackedLoss(weight, as_published=True), bf16, losses[0])
    plain = ours(lang, batch_at, token_loss(weight, as_published=True), False, losses[1])
    trains = {"": packed, PLAIN: plain}
    if folder:
        trains[ORIGINAL] = original(folder, lang, [batch_at(step) for step in range(10)], supervised)
    for train in trains.values():
        train(1)  # the first step only warms up
    ways = {way: Way(of_a_turn, lambda train=train: train(of_a_turn)) for way, train in trains.items()}
    what = name + ", supervised" * supervised + f", {precision}"
    line = compared(what, ways.pop(""), ways, rounds=3)
    np.testing.assert_allclose(*losses, rtol=0.05 if bf16 else 1e-4)
    return line


def main() -> None:
    """Print steps per second of all implementations, and ratios."""
    parser = common_options(__doc__, original="RASP-exps")
    parser.add_argument("--steps", type=int, default=2, help="steps of each way in each of three rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = [steps(*setting, options.original, options.steps) for setting in SETTINGS]
    report("rasp_training", lines, options.record)


if __name__ == "__main__":
    main()
