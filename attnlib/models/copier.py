r"""A recurrent encoder and decoder with attention that copies sequences: many models, trained side by side.

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns*, section 5,
and the authors' SequenceCopying, whose numbers it gives with the same weights (and whose initial weights it
draws from the same seed).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass as plain_dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from attnlib.generators.copying import CopyBatch
from attnlib.models.base import Saved, evaluating, seeded
from attnlib.models.recurrence import gru, lstm


@dataclass(frozen=True, config={"extra": "forbid"})
class CopierConfig:
    """The settings of a `Copier`; wrong ones raise a `ValueError` that says what is allowed.

    Attributes:
        vocabulary: how many ids it reads and writes.
        hidden: size of an id's vector, and of every state.
        seeds: of the initial weights: one for each of the models side by side.
        cell: "lstm", or "gru" as in the authors' multihead.py.
        bidirectional: whether the source is read in both directions.
        n_heads: whose contexts are averaged.
        context: what the decoder sees of the source while it writes: what its "attention" finds, a "uniform"
            mean, or "none".
        shared: whether ids to read and ids to write have the same vectors.
    """

    vocabulary: int = Field(ge=1)
    hidden: int = Field(default=256, ge=1)
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    cell: Literal["lstm", "gru"] = "lstm"
    bidirectional: bool = False
    n_heads: int = Field(default=1, ge=1)
    context: Literal["attention", "uniform", "none"] = "attention"
    shared: bool = True

    @property
    def both(self) -> int:
        """Size of an encoder's state: of both directions, if there are two."""
        return self.hidden * (1 + self.bidirectional)


@plain_dataclass(frozen=True)
class EncodedSources:
    """What the encoders made of the sources.

    Attributes:
        state: what the decoders start from: the last hidden state and, of an LSTM, the last cell; averaged
            over directions.
    """

    states: Float[Tensor, "model batch source both"]
    state: tuple[Float[Tensor, "model batch hidden"], ...]


@plain_dataclass(frozen=True)
class Copied:
    """What the models made of sequences; `alpha` is 0 without context, and `logits` are of the next id."""

    encoded: EncodedSources
    states: Float[Tensor, "model batch target hidden"]
    alpha: Float[Tensor, "model batch head target source"]
    logits: Float[Tensor, "model batch target vocabulary"]


class Copier(Saved):
    r"""Encoder, decoder, attention, next id; every weight has a leading axis `model`.

    $$&h = \mathrm{RNN}(E_x), \quad d_t = \mathrm{RNN}(E_{y_{<t}}), \\
      &\alpha^k_{ts} = \mathrm{softmax}_s\big((Q^k d_t + q^k) \cdot h_s\big), \\
      &c_t = \tfrac{1}{K} \sum_k \Big(C^k \sum_s \alpha^k_{ts} h_s + b^k\Big)$$

    $$p(y_t) = \mathrm{softmax}\big(O \tanh(J [d_t; c_t] + j) + o\big)$$

    with $x$ the source, $y$ what is written, $E$ the ids' vectors and $K$ heads. With `config.context`
    "uniform", $\alpha_{ts} = 1/n$ for $n$ tokens of the source; with "none", $c_t = 0$.

    With the loss a sum over models, each trains to the same numbers as by itself, up to the rounding of sums.
    Initial weights are those that torch's modules draw from the model's own seed, in the original's order.
    """

    CONFIG = CopierConfig

    embedding: Tensor
    to_query_weight: Tensor
    to_query_bias: Tensor
    to_context_weight: Tensor
    to_context_bias: Tensor
    to_joined_weight: Tensor
    to_joined_bias: Tensor
    to_vocabulary_weight: Tensor
    to_vocabulary_bias: Tensor

    def __init__(self, config: CopierConfig) -> None:
        super().__init__()
        self.config = config
        drawn = [initial_weights(config, seed) for seed in config.seeds]
        for name in drawn[0]:
            self.register_parameter(name, nn.Parameter(torch.stack([each[name] for each in drawn])))

    def encode(self, source: Int64[Tensor, "model batch source"]) -> EncodedSources:
        """Read sources."""
        every, ends = [], []
        for direction in ["encoder"] + ["reverse"] * self.config.bidirectional:
            ids = source.flip(-1) if direction == "reverse" else source
            states, *end = self._recur(direction, ids, "embedding")
            every.append(states.flip(0) if direction == "reverse" else states)
            ends.append(end)
        beside = torch.cat(every, -1) if len(every) > 1 else every[0]
        means = tuple(torch.stack(each).mean(0) for each in zip(*ends, strict=True))
        return EncodedSources(_token_last(beside), means)

    def decode(self, target: Int64[Tensor, "model batch target"], encoded: EncodedSources) -> Copied:
        """Read what was written so far, and say what comes next."""
        ids = "embedding" if self.config.shared else "target_embedding"
        states = _token_last(self._recur("decoder", target, ids, *encoded.state)[0])
        alpha, context = self._attend(states, encoded.states)
        return Copied(encoded, states, alpha, self.next_logits(states, context))

    def forward(
        self, source: Int64[Tensor, "model batch source"], target: Int64[Tensor, "model batch target"]
    ) -> Copied:
        """Read sources, and what is to be written, which is given (teacher forcing)."""
        return self.decode(target, self.encode(source))

    def context_of(
        self, states: Float[Tensor, "model batch #head source both"]
    ) -> Float[Tensor, "model batch source hidden"]:
        """The context of one state, or mean of states, per head: $c$ of its definition."""
        heads = states.expand(-1, -1, self.config.n_heads, -1, -1)
        weights = self.to_context_weight / self.config.n_heads
        both = heads.transpose(2, 3).flatten(3)  # [model batch source head*both]
        return _linear(both, weights.transpose(1, 2).flatten(2), self.to_context_bias.mean(1))

    def next_logits(
        self,
        states: Float[Tensor, "model batch *#some hidden"],
        context: Float[Tensor, "model batch *#some hidden"] | None,
    ) -> Float[Tensor, "model batch *some vocabulary"]:
        """Logits of the next id from a decoder's states and context; of all pairs, if they broadcast."""
        for_states, for_context = self.to_joined_weight.chunk(2, -1)
        # J [d; c] in two parts: of T states and S contexts, T + S products make all T S sums.
        joined = _linear(states, for_states, self.to_joined_bias)
        if context is not None:
            joined = joined + _linear(context, for_context)
        return _linear(joined.tanh(), self.to_vocabulary_weight, self.to_vocabulary_bias)

    def _attend(
        self,
        states: Float[Tensor, "model batch target hidden"],
        sources: Float[Tensor, "model batch source both"],
    ) -> tuple[
        Float[Tensor, "model batch head target source"], Float[Tensor, "model batch #target hidden"] | None
    ]:
        models, batch, target = states.shape[:3]
        shape = (models, batch, self.config.n_heads, target, sources.shape[2])
        if self.config.context == "none":
            return states.new_zeros(()).expand(shape), None
        if self.config.context == "uniform":
            even = states.new_full((), 1 / shape[-1]).expand(shape)
            return even, self.context_of(sources.mean(2)[:, :, None, None])
        queries = _linear(states, self.to_query_weight.flatten(1, 2), self.to_query_bias.flatten(1))
        queries = queries.unflatten(-1, (self.config.n_heads, -1)).transpose(2, 3)
        scores = queries.flatten(2, 3) @ sources.mT
        alpha = scores.float().softmax(-1)
        found = alpha.to(scores.dtype) @ sources
        return alpha.view(shape), self.context_of(found.unflatten(2, (self.config.n_heads, -1)))

    def _recur(
        self,
        layer: str,
        ids: Int64[Tensor, "model batch token"],
        vectors: str,
        *state: Float[Tensor, "model batch hidden"],
    ) -> tuple[Tensor, ...]:
        """States of each token [token model batch hidden], then the last state."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        into, weight, bias_into, bias = (getattr(self, f"{layer}_{name}") for name in names)
        # not in autocast's precision: what every token of an id adds to its gates is worth its digits
        with torch.autocast(ids.device.type, enabled=False):
            inputs = getattr(self, vectors) @ into.mT
        zero = inputs.new_zeros(*ids.shape[:2], self.config.hidden)
        if self.config.cell == "lstm":
            hidden, cell = state or (zero, zero)
            states, last = lstm(inputs + (bias_into + bias)[:, None], ids, weight, hidden, cell)
            return states, states[-1], last
        of_gates, of_new = bias.split([2 * self.config.hidden, self.config.hidden], 1)
        both = torch.cat([of_gates, torch.zeros_like(of_new)], 1)
        states = gru(inputs + (bias_into + both)[:, None], ids, weight, of_new, *(state or (zero,)))
        return states, states[-1]


def initial_weights(config: CopierConfig, seed: int) -> dict[str, Tensor]:
    """The weights that one model begins with, by `Copier`'s names, drawn by `seed`, not by `config.seeds`.

    Everything but the heads is drawn first: it does not depend on how many heads there are.
    """
    hidden, both = config.hidden, config.both
    layer = nn.LSTM if config.cell == "lstm" else nn.GRU
    with seeded(seed):
        parts: dict[str, nn.Module] = {"embedding": nn.Embedding(config.vocabulary, hidden)}
        if not config.shared:
            parts["target_embedding"] = nn.Embedding(config.vocabulary, hidden)
        parts["encoder"] = layer(hidden, hidden, bidirectional=config.bidirectional)
        parts["decoder"] = layer(hidden, hidden)
        parts["to_joined"] = nn.Linear(2 * hidden, hidden)
        parts["to_vocabulary"] = nn.Linear(hidden, config.vocabulary)
        heads = [(nn.Linear(hidden, both), nn.Linear(both, hidden)) for _ in range(config.n_heads)]
    found = {}
    for part, module in parts.items():
        for name, weight in module.state_dict().items():
            place = "reverse" if name.endswith("_reverse") else part
            name = name.removesuffix("_reverse").removesuffix("_l0")
            found[part if part.endswith("embedding") else f"{place}_{name}"] = weight
    for name, modules in zip(("to_query", "to_context"), zip(*heads, strict=True), strict=True):
        for kind in ("weight", "bias"):
            found[f"{name}_{kind}"] = torch.stack([getattr(each, kind).detach() for each in modules])
    return found


def _token_last(states: Float[Tensor, "token model batch size"]) -> Float[Tensor, "model batch token size"]:
    """States as all but the recurrence takes them; bf16's products want them close together."""
    turned = states.permute(1, 2, 0, 3)
    return turned.contiguous() if states.dtype == torch.bfloat16 else turned


def _linear(
    x: Float[Tensor, "model *some width"],
    weight: Float[Tensor, "model out width"],
    bias: Float[Tensor, "model out"] | None = None,
) -> Float[Tensor, "model *some out"]:
    """A linear map of every model's own."""
    flat, turned = x.reshape(len(x), -1, x.shape[-1]), weight.mT.contiguous()
    found = flat @ turned if bias is None else torch.baddbmm(bias[:, None], flat, turned)
    return found.view(*x.shape[:-1], -1)


def copying_loss(model: Copier, batch: CopyBatch) -> dict[str, Tensor]:
    """A loss for `fit`: cross entropy, as a mean over each model's ids, and a sum over models."""
    logits = model(**batch.inputs).logits.float()
    each = F.cross_entropy(logits.flatten(0, 2), batch.predicted.flatten(), reduction="none")
    means = each.view(len(logits), -1).mean(1)
    return {"loss": means.sum(), "cross_entropy": means.mean()}


@torch.no_grad()
def copying_scores(model: Copier, batches: Iterable[CopyBatch]) -> dict[str, float]:
    """How well ids are predicted from those before: mean `accuracy` of models, for batches of one size."""
    device, right, asked = model.embedding.device, list[Tensor](), list[int]()
    with evaluating(model):
        for batch in batches:
            batch = batch.to(device)
            predicted = model(**batch.inputs).logits.argmax(-1)
            right.append((predicted == batch.predicted).sum())
            asked.append(predicted.numel())
    shares = torch.stack(right).cpu().double() / torch.tensor(asked)
    return {"accuracy": float(shares.mean())}
