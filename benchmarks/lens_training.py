"""Training speed of the transformer that adds, against the original code.

    python benchmarks/lens_training.py --original FOLDER [--steps N] [--record]      # two minutes

The settings are the original's: sums of numbers from 1 to 99, 3 layers of 4 heads, width 128, feed-forward
512, dropout 0.1, batches of 64, Adam at 1e-3, gradients clipped at 1, a loss over all tokens. They are timed
with teacher forcing, and with scheduled sampling half-way through its 50 epochs, where a quarter of the
tokens are the model's own predictions. All train on the same sums, on one thread, in turn; bf16 is timed if
the processor supports it. FOLDER is the original's `src`, which is not part of this repository; without it,
only our model is timed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import ORIGINAL, Line, Way, common_options, compared, report, training
from torch import nn

from attnlib.generators.arithmetic import arithmetic
from attnlib.models import Transformer, TransformerConfig
from attnlib.training import token_loss
from attnlib.training.scheduled_sampling import on_own_predictions, with_own_predictions

BATCH, RATE, CLIP, OWN = 64, 1e-3, 1.0, 0.25
SIZES: dict[str, Any] = {"n_layers": 3, "n_heads": 4, "width": 128, "ff_width": 512, "dropout": 0.1}
PRECISIONS = ["float32", *(["bf16"] if torch.ops.mkldnn._is_mkldnn_bf16_supported() else [])]
TASK = arithmetic("+", (1, 99), operands_too=True)
EPOCH, EPOCHS = 25, 50
"""The epoch in which the original's share of own predictions is `OWN`, and the number of epochs."""

Train = Callable[[int], None]


def ours(sums: Any, sampling: bool, bf16: bool) -> Train:
    """A function that trains our model for a given number of further steps."""
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            len(TASK.tokenizer), causal=True, activation="gelu", max_length=TASK.max_length, **SIZES
        )
    )
    batch_at: Callable[[int], Any] = TASK.batches(sums, BATCH, 0)
    loss: Callable[..., Any] = token_loss()
    if sampling:
        batch_at, loss = with_own_predictions(batch_at, lambda _: OWN, seed=0), on_own_predictions(loss)
    return training(model, batch_at, loss, RATE, bf16=bf16, clip=CLIP)


def original(folder: Path, texts: list[str], sampling: bool) -> Train:
    """A function that trains the original's model, by its own code, for a number of steps of an epoch."""
    sys.path.insert(0, str(folder))
    from train import (  # type: ignore[import-not-found]
        ArithmeticDataset,
        train_epoch_scheduled_sampling,
        train_epoch_teacher_forcing,
    )
    from transformer import TransformerForSequencePrediction  # type: ignore[import-not-found]
    from utils import ArithmeticVocab  # type: ignore[import-not-found]

    vocab = ArithmeticVocab()
    pad = vocab.token2idx[vocab.pad_token]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(texts))
        file.flush()
        loader = torch.utils.data.DataLoader(ArithmeticDataset(file.name, vocab), batch_size=BATCH)
        batches = list(loader)
    model = TransformerForSequencePrediction(
        vocab_size=len(vocab), d_model=128, n_heads=4, n_layers=3, d_ff=512, pad_idx=pad
    )
    how = (nn.CrossEntropyLoss(ignore_index=pad), torch.optim.Adam(model.parameters(), RATE), "cpu", vocab)

    def train(more: int) -> None:
        if sampling:
            train_epoch_scheduled_sampling(model, batches[:more], *how, EPOCH, EPOCHS)
        else:
            train_epoch_teacher_forcing(model, batches[:more], *how)

    return train


def steps(sampling: bool, precision: str, folder: Path | None, of_a_turn: int) -> Line:
    """A row of the table: steps per second, and the ratio to the original."""
    sums = TASK.splits(7800, 1000, 1000).train
    trains = {"": ours(sums, sampling, precision == "bf16")}
    if folder:
        texts = TASK.texts(sums)[: BATCH * of_a_turn]
        trains[ORIGINAL] = original(folder, texts, sampling)
    for train in trains.values():
        train(1)  # the first step only warms up
    ways = {way: Way(of_a_turn, lambda train=train: train(of_a_turn)) for way, train in trains.items()}
    what = "sums, " + ("a quarter own predictions" if sampling else "right tokens only") + f", {precision}"
    return compared(what, ways.pop(""), ways, rounds=5)


def main() -> None:
    """Print steps per second of both implementations in all settings, and ratios."""
    parser = common_options(__doc__, original="Attention Lens")
    parser.add_argument("--steps", type=int, default=10, help="steps of each way in each of five rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = [(sampling, precision) for sampling in (False, True) for precision in PRECISIONS]
    lines = [steps(*each, options.original, options.steps) for each in settings]
    report("lens_training", lines, options.record)


if __name__ == "__main__":
    main()
