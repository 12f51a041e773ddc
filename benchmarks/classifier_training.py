"""Training speed of the attention classifier: two one-directional LSTMs against a packed bidirectional one.

    python benchmarks/classifier_training.py [--record]

"Plain" is the original implementation: one bidirectional LSTM on a packed sequence. Both make the same steps
(batch 32, width 256, word vectors of 300, Adam) on the same texts, long ones (150 to 250 words) and short
ones (10 to 30), from the same weights, on one thread, in turn. The result is the ratio of their speeds. The
benchmark checks that both have the same losses.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
import torch
from timing import PLAIN, Line, Way, common_options, compared, report
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnlib.generators.classification import Planting, planted
from attnlib.models import BiLSTM, Classifier, ClassifierConfig, document_loss


class Packed(nn.Module):
    """A bidirectional LSTM on a packed sequence, with the weights of a `BiLSTM`."""

    def __init__(self, ours: BiLSTM) -> None:
        super().__init__()
        one = ours.forwards
        self.lstm = nn.LSTM(one.input_size, one.hidden_size, batch_first=True, bidirectional=True)
        back = {f"{name}_reverse": weight for name, weight in ours.backwards.state_dict().items()}
        self.lstm.load_state_dict(one.state_dict() | back)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """The states of both directions of each word, concatenated."""
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]


def training(model: Classifier, batch_at: Callable, losses: list[float]) -> Callable[[int], None]:
    """A function that trains a model for a given number of further steps, and appends their losses."""
    optimizer, steps = torch.optim.Adam(model.parameters()), count()

    def train(more: int) -> None:
        for _ in range(more):
            loss = document_loss(model, batch_at(next(steps)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

    return train


def steps(name: str, texts: Planting, of_a_turn: int) -> Line:
    """A row of the table: steps per second of both implementations, and their ratio."""
    corpus = planted(texts, train_documents=1000, validation_documents=10, test_documents=10)
    losses: list[list[float]] = [[], []]
    ways = []
    for packed, own_losses in zip((False, True), losses, strict=True):
        torch.manual_seed(0)
        model = Classifier(ClassifierConfig(len(corpus.vocabulary)))
        if packed:
            model.encoder = Packed(model.encoder)  # type: ignore[assignment]
        train = training(model, corpus.train.batches(32), own_losses)
        train(1)  # the first step only warms up
        ways.append(Way(of_a_turn, lambda train=train: train(of_a_turn)))
    line = compared(f"steps of the attention classifier, {name}", ways[0], {PLAIN: ways[1]})
    np.testing.assert_allclose(*losses, rtol=1e-3)
    return line


def main() -> None:
    """Print steps per second of both implementations, and their ratio."""
    parser = common_options(__doc__)
    parser.add_argument("--steps", type=int, default=3, help="steps of each way in each of five rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        steps("150 to 250 words", Planting(min_words=150, max_words=250), options.steps),
        steps("10 to 30 words", Planting(min_words=10, max_words=30), 5 * options.steps),
    ]
    report("classifier_training", lines, options.record)


if __name__ == "__main__":
    main()
