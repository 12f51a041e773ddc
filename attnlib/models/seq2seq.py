r"""A recurrent translator with single-head attention, all of whose intermediate values can be inspected.

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns*, and the
authors' code. With the same weights, both compute the same; here, sequences are not packed (see `BiLSTM`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass as plain_dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from attnlib.generators.tokenizer import BOS_ID, EOS_ID, PAD_ID
from attnlib.generators.translation import PairBatch
from attnlib.models.base import Saved, evaluating, exact_sum
from attnlib.models.lstm_precision import lstm_precision

# Hidden state and cell state of every layer of the decoder.
State = tuple[Float[Tensor, "layer batch hidden"], Float[Tensor, "layer batch hidden"]]


@dataclass(frozen=True, config={"extra": "forbid"})
class Seq2SeqConfig:
    """The settings of a `Seq2Seq`; wrong ones raise a `ValueError` that says what is allowed.

    Attributes:
        vocabulary: how many ids the model reads and writes, both languages together; 0 is padding.
        hidden: size of a token's embedding and of every state.
        layers: number of layers of the encoder, and of the decoder.
        dropout: probability of zeroing each element of a state between layers in training.
        context: how context and decoder state are combined: "added", or by a "feed-forward" layer (as in the
            authors' published runs).
        uniform: attend to all source tokens equally (beta's "uniform" model); nothing else changes.
    """

    vocabulary: int = Field(ge=1)
    hidden: int = Field(default=256, ge=1)
    layers: int = Field(default=2, ge=1)
    dropout: float = Field(default=0.5, ge=0, lt=1)
    context: Literal["added", "feed-forward"] = "feed-forward"
    uniform: bool = False


@plain_dataclass(frozen=True)
class Encoded:
    """The encoder's outputs for source sentences.

    Attributes:
        states: both directions' states of each token, concatenated; states on padding are meaningless.
        context: each token's context vector: the decoder's context if all attention were on this token.
        real: True for tokens, False for padding.
        state: the decoder's initial state: the last states of both directions, averaged.
    """

    states: Float[Tensor, "batch source both"]
    context: Float[Tensor, "batch source hidden"]
    real: Bool[Tensor, "batch source"]
    state: State

    def repeated(self, times: int) -> Encoded:
        """The encodings with each sentence repeated `times` times in a row."""
        parts = (self.states, self.context, self.real)
        states, context, real = (each.repeat_interleave(times, 0) for each in parts)
        hidden, cell = (each.repeat_interleave(times, 1) for each in self.state)
        return Encoded(states, context, real, (hidden, cell))


@plain_dataclass(frozen=True)
class Decoded:
    """The decoder's outputs for target tokens.

    Attributes:
        joined: the states combined with their context; `to_vocabulary` maps them to logits.
        state: the last hidden and cell states, from which decoding can be continued.
    """

    states: Float[Tensor, "batch target hidden"]
    alpha: Float[Tensor, "batch target source"]
    joined: Float[Tensor, "batch target hidden"]
    state: State


class BiLSTM(nn.LSTM):
    """A bidirectional LSTM over sentences of different lengths, padded on the right, without packing.

    An additional input is 1 on padding and 0 elsewhere. Its weights, which are fixed, close the input gate
    and open the forget gate, so padding leaves a cell state exactly as it is. (A 32-bit sigmoid of 10,000 is
    1, and that of minus 10,000 is 0.) The states of tokens and the last cell states equal those of a packed
    sequence, at nearly twice the speed on a CPU, whose fused kernels do not take packed sequences.
    """

    def __init__(self, width: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__(width, hidden, layers, dropout=dropout, bidirectional=True, batch_first=True)
        gates = torch.tensor([-1e4, 1e4, 0, 0]).repeat_interleave(hidden)  # input, forget, cell, output
        self.register_buffer("keeps", gates[:, None], persistent=False)

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "batch token width"], real: Bool[Tensor, "batch token"]
    ) -> tuple[Float[Tensor, "batch token both"], State]:
        """Both directions' states, concatenated, and each layer's last states, averaged over directions."""
        padding, zero = (~real)[..., None].to(x.dtype), x.new_zeros(2, len(x), self.hidden_size)
        ends = (real.sum(-1) - 1)[:, None, None].expand(-1, -1, self.hidden_size)
        hidden, cells = [], []
        for layer in range(self.num_layers):
            if layer:
                x = F.dropout(x, self.dropout, self.training)
            weights: list[Tensor] = []
            for direction in ("", "_reverse"):
                part = f"l{layer}{direction}"
                weights.append(torch.cat([getattr(self, f"weight_ih_{part}"), self.get_buffer("keeps")], 1))
                weights += [getattr(self, f"{name}_{part}") for name in ("weight_hh", "bias_ih", "bias_hh")]
            with lstm_precision(x.device):
                # biases, layers, dropout, training mode, bidirectional, batch first
                how = (True, 1, 0.0, self.training, True, True)
                x, last, cell = torch.lstm(torch.cat([x, padding], -1), (zero, zero), weights, *how)
            forwards = x[..., : self.hidden_size].gather(1, ends)[:, 0]  # at the last token, before padding
            hidden.append((forwards + last[1]) / 2)
            cells.append(cell.mean(0))
        return x, (torch.stack(hidden), torch.stack(cells))


class Seq2Seq(Saved):
    r"""A translator: a bidirectional LSTM encoder, an LSTM decoder and one attention head.

    $$&h = \mathrm{BiLSTM}(E_x), \quad d_t = \mathrm{LSTM}(E_{y_{<t}}), \\
      &\alpha_{ts} = \mathrm{softmax}_s\big((W_a d_t + b_a) \cdot h_s\big), \\
      &c_t = \sum_s \alpha_{ts} (W_c h_s + b_c)$$

    $$&p(y_t) = \mathrm{softmax}(W_o f(d_t, c_t) + b_o), \\
      &f(d, c) = d + c \;\text{or}\; \mathrm{ReLU}(W_f [d; c] + b_f)$$

    with $x$ and $y$ the tokens of a sentence and of its translation and $E$ their vectors, which both
    languages share. With `config.uniform`, $\alpha_{ts} = 1/n$ for a source of $n$ tokens. Initial weights
    come from torch's global generator.
    """

    CONFIG = Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config, hidden = config, config.hidden
        between = config.dropout if config.layers > 1 else 0.0
        self.embedding = nn.Embedding(config.vocabulary, hidden)
        self.encoder = BiLSTM(hidden, hidden, config.layers, between)
        self.decoder = nn.LSTM(hidden, hidden, config.layers, dropout=between, batch_first=True)
        self.to_query = nn.Linear(hidden, 2 * hidden)
        self.to_context = nn.Linear(2 * hidden, hidden)
        if config.context == "feed-forward":
            self.to_joined = nn.Linear(2 * hidden, hidden)
        self.to_vocabulary = nn.Linear(hidden, config.vocabulary)

    def encode(
        self,
        source: Int64[Tensor, "batch source"],
        lengths: Int64[Tensor, " batch"],
        scale: Float[Tensor, "batch source"] | None = None,
    ) -> Encoded:
        """Encode sources; `scale` multiplies tokens' embeddings: its gradient at 1 is a token's influence."""
        x = self.embedding(source)
        if scale is not None:
            x = x * scale[..., None]
        real = torch.arange(source.shape[1], device=lengths.device) < lengths[:, None]
        states, state = self.encoder(x, real)
        return Encoded(states, self.to_context(states), real, state)

    def decode(
        self, tokens: Int64[Tensor, "batch target"], encoded: Encoded, state: State | None = None
    ) -> Decoded:
        """Decode target tokens, from the start, or continuing from an earlier result's `state`."""
        hidden, cell = state or encoded.state
        with lstm_precision(tokens.device):
            states, state = self.decoder(self.embedding(tokens), (hidden.contiguous(), cell.contiguous()))
        alpha = self._attention(states, encoded)
        return Decoded(states, alpha, self.join(states, alpha @ encoded.context), state)

    def _attention(
        self, states: Float[Tensor, "batch target hidden"], encoded: Encoded
    ) -> Float[Tensor, "batch target source"]:
        real = encoded.real[:, None]
        if self.config.uniform:
            return (real / real.sum(-1, keepdim=True)).expand(-1, states.shape[1], -1)
        scores = self.to_query(states) @ encoded.states.transpose(1, 2)
        return scores.masked_fill(~real, float("-inf")).softmax(-1)

    def join(
        self, states: Float[Tensor, "*#some hidden"], context: Float[Tensor, "*#some hidden"]
    ) -> Float[Tensor, "*some hidden"]:
        """$f(d, c)$, from which the next token is predicted; shapes broadcast (to all pairs of d and c)."""
        if self.config.context == "added":
            return states + context
        # W [d; c] in two parts: T + S products suffice for all T S pairs of T states and S contexts.
        for_states, for_context = self.to_joined.weight.chunk(2, -1)
        return (F.linear(states, for_states) + F.linear(context, for_context, self.to_joined.bias)).relu()

    def forward(
        self,
        source: Int64[Tensor, "batch source"],
        lengths: Int64[Tensor, " batch"],
        target: Int64[Tensor, "batch target"],
    ) -> Decoded:
        """Encode sources and decode given targets; `to_vocabulary` of the result's `joined` gives logits."""
        return self.decode(target, self.encode(source, lengths))


def translation_loss(model: Seq2Seq, batch: PairBatch) -> Tensor:
    """A loss for `fit`: cross entropy of target tokens given those before, as a mean over tokens."""
    joined, asked = model(**batch.inputs).joined, batch.asked
    logits = model.to_vocabulary(joined.flatten(0, 1)[asked])
    return F.cross_entropy(logits, batch.predicted.flatten()[asked])


@torch.no_grad()
def translation_scores(model: Seq2Seq, batches: Iterable[PairBatch]) -> dict[str, float]:
    """Accuracy and perplexity of target tokens, given those before; every token has the same weight.

    `accuracy` is the share of tokens to which the model gave the highest probability, and `perplexity` the
    exponential of the mean cross entropy; both are NaN if there are no tokens.
    """
    device, right, losses, n = next(model.parameters()).device, list[Tensor](), list[Tensor](), 0
    with evaluating(model):
        for batch in batches:
            batch = batch.to(device)
            gold = batch.predicted[batch.real]
            logits = model.to_vocabulary(model(**batch.inputs).joined[batch.real])
            right.append((logits.argmax(-1) == gold).sum())
            losses.append(F.cross_entropy(logits.float(), gold, reduction="sum"))
            n += len(gold)
    return {
        "accuracy": float(exact_sum(right) / n),
        "perplexity": float((exact_sum(losses) / n).exp()),
    }


LOOK = {"cpu": 1}
"""Steps between checks whether all sentences have ended; 8 on other devices, as a check waits for the GPU."""


@torch.no_grad()
def translate(
    model: Seq2Seq,
    source: Int64[Tensor, "batch source"],
    lengths: Int64[Tensor, " batch"],
    width: int = 1,
    max_length: int = 100,
) -> tuple[Int64[Tensor, "batch written"], Float[Tensor, " batch"]]:
    r"""Translate a batch of sentences by beam search: `width` 1 is greedy; the authors use 5.

    Log-probabilities are not divided by length, as in the authors' code. Returns the ids of the best
    translation found, without `<bos>` and with 0 after `<eos>`, and its log-probability
    $\sum_t \log p(y_t)$. The model is called in its present mode: call `eval` before.
    """
    vocabulary, n = model.config.vocabulary, len(source)
    if not 1 <= width <= vocabulary or max_length < 1:
        raise ValueError(
            f"width should be from 1 to the vocabulary's {vocabulary}, and max_length at least 1; got "
            f"{width} and {max_length}"
        )
    encoded = model.encode(source, lengths).repeated(width)
    state, latest = encoded.state, source.new_full((n * width, 1), BOS_ID)
    written = source.new_zeros((n * width, 0))
    # At first all beams of a sentence are the same: only one of them may be continued.
    scores = torch.where(torch.arange(width, device=source.device) == 0, 0.0, float("-inf")).repeat(n, 1)
    ended = torch.zeros(n * width, dtype=torch.bool, device=source.device)
    after_end = torch.full((vocabulary,), float("-inf"), device=source.device)
    after_end[PAD_ID] = 0.0
    took, look = ended.new_zeros((), dtype=torch.long), LOOK.get(source.device.type, 8)
    for step in range(1, max_length + 1):
        took += ~ended.all()
        decoded = model.decode(latest, encoded, state)
        steps = model.to_vocabulary(decoded.joined[:, 0]).float().log_softmax(-1)
        steps = torch.where(ended[:, None], after_end, steps).view(n, width, vocabulary)
        scores, best = (scores[..., None] + steps).flatten(1).topk(width)
        kept = (best // vocabulary + width * torch.arange(n, device=source.device)[:, None]).flatten()
        latest = (best % vocabulary).view(-1, 1)
        hidden, cell = decoded.state
        state = hidden[:, kept], cell[:, kept]
        written = torch.cat([written[kept], latest], 1)
        ended = ended[kept] | (latest[:, 0] == EOS_ID)
        if step % look == 0 and ended.all():
            break
    return written.view(n, width, -1)[:, 0, : int(took)], scores[:, 0]
