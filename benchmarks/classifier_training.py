"""How fast the attention classifier trains: two one-directional LSTMs, and a packed bidirectional one.

    python benchmarks/classifier_training.py

"Packed" is the original's way: one bidirectional LSTM on a packed sequence. Both make the same steps (batch
32, width 256, word vectors of 300, Adam) on the same texts of 150 to 250 words, 200 on average, from the same
weights, on one thread, in turn, in processor time; the ratio is what to look at. That the losses of both
differ by next to nothing shows that they compute the same.
"""

from __future__ import annotations

import argparse
import time

import pandas as pd
import torch
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
        """Both states of each word, side by side."""
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]


def main() -> None:
    """Print steps per second of both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5, help="steps of each way in each of three turns")
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    long = Planting(min_words=150, max_words=250)
    corpus = planted(long, train_documents=1000, validation_documents=10, test_documents=10)
    batch_at = corpus.train.batches(32)
    rows, models = [], {}
    for name in ("two LSTMs", "packed"):
        torch.manual_seed(0)
        models[name] = Classifier(ClassifierConfig(len(corpus.vocabulary)))
    models["packed"].encoder = Packed(models["packed"].encoder)
    optimizers = {name: torch.optim.Adam(model.parameters()) for name, model in models.items()}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    losses: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(4):  # in turn, so that a machine that slows down slows both; the first only warms up
        for name, model in models.items():
            start = time.process_time()
            for step in range(turn * steps, (turn + 1) * steps):
                loss = document_loss(model, batch_at(step))
                optimizers[name].zero_grad()
                loss.backward()
                optimizers[name].step()
                losses[name].append(loss.item())
            seconds[name].append(time.process_time() - start)
    for name in models:
        best = sorted(seconds[name][1:])[1] / steps
        rows.append(
            {"way": name, "seconds a step": best, "steps a second": 1 / best, "loss": losses[name][-1]}
        )
    ratios = sorted(packed / two for two, packed in zip(*(seconds[name][1:] for name in models), strict=True))
    print(pd.DataFrame(rows).to_string(index=False, float_format="{:.4f}".format))
    gap = max(abs(a - b) for a, b in zip(*losses.values(), strict=True))
    print(
        f"ratio {ratios[1]:.2f} (three turns: {', '.join(f'{r:.2f}' for r in ratios)}); "
        f"losses differ by at most {gap:.1e}"
    )


if __name__ == "__main__":
    main()
