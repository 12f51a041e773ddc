r"""Recurrent encoder-decoders with attention that copy sequences: many models, trained in parallel.

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns*, section 5,
and the authors' SequenceCopying code. With the same weights, this implementation computes the same numbers
as theirs; with the same seed, it draws the same initial weights.
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
        vocabulary: how many ids the model reads and writes.
        hidden: size of an id's embedding, and of every state.
        seeds: seeds of the initial weights, one for each of the parallel models.
        cell: "lstm", or "gru" as in the authors' multihead.py.
        bidirectional: whether the source is read in both directions.
        n_heads: number of attention heads; their contexts are averaged.
        context: the decoder's context vector: a mean of encoder states weighted by "attention", their
            "uniform" mean, or "none".
        shared: whether source and target ids share one embedding.
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
        """Size of an encoder's state: `hidden` times the number of directions."""
        return self.hidden * (1 + self.bidirectional)


@plain_dataclass(frozen=True)
class EncodedSources:
    """The encoders' outputs for a batch of sources.

    Attributes:
        states: the encoder's state at each source token, with directions concatenated.
        state: the decoder's initial state: the last hidden state and, for an LSTM, the last cell state,
            averaged over directions.
    """

    states: Float[Tensor, "model batch source both"]
    state: tuple[Float[Tensor, "model batch hidden"], ...]


@plain_dataclass(frozen=True)
class Copied:
    """A `Copier`'s outputs; `alpha` is 0 without context, and `logits` score the next id."""

    encoded: EncodedSources
    states: Float[Tensor, "model batch target hidden"]
    alpha: Float[Tensor, "model batch head target source"]
    logits: Float[Tensor, "model batch target vocabulary"]


class Copier(Saved):
    r"""An encoder-decoder with attention; every weight has a leading axis `model`.

    $$&h = \mathrm{RNN}(E_x), \quad d_t = \mathrm{RNN}(E_{y_{<t}}), \\
      &\alpha^k_{ts} = \mathrm{softmax}_s\big((Q^k d_t + q^k) \cdot h_s\big), \\
      &c_t = \tfrac{1}{K} \sum_k \Big(C^k \sum_s \alpha^k_{ts} h_s + b^k\Big)$$

    $$p(y_t) = \mathrm{softmax}\big(O \tanh(J [d_t; c_t] + j) + o\big)$$

    with $x$ the source, $y$ the target, $E$ the embedding and $K$ heads. With `config.context`
    "uniform", $\alpha_{ts} = 1/n$ for $n$ tokens of the source; with "none", $c_t = 0$.

    As the loss is a sum over models, each model trains as it would alone, up to the rounding of sums. Its
    initial weights are drawn by torch's modules from its own seed, in the order of the authors' code.
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
        """Run the encoder over source ids."""
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
        """Run the decoder over the target ids so far, and score the next id at each."""
        ids = "embedding" if self.config.shared else "target_embedding"
        states = _token_last(self._recur("decoder", target, ids, *encoded.state)[0])
        alpha, context = self._attend(states, encoded.states)
        return Copied(encoded, states, alpha, self.next_logits(states, context))

    def forward(
        self, source: Int64[Tensor, "model batch source"], target: Int64[Tensor, "model batch target"]
    ) -> Copied:
        """Encode sources, and decode given targets (teacher forcing)."""
        return self.decode(target, self.encode(source))

    def context_of(
        self, states: Float[Tensor, "model batch #head source both"]
    ) -> Float[Tensor, "model batch source hidden"]:
        """The context $c$, given each head's weighted mean of encoder states, or one mean for all heads."""
        heads = states.expand(-1, -1, self.config.n_heads, -1, -1)
        weights = self.to_context_weight / self.config.n_heads
        both = heads.transpose(2, 3).flatten(3)  # [model batch source head*both]
        return _linear(both, weights.transpose(1, 2).flatten(2), self.to_context_bias.mean(1))

    def next_logits(
        self,
        states: Float[Tensor, "model batch *#some hidden"],
        context: Float[Tensor, "model batch *#some hidden"] | None,
    ) -> Float[Tensor, "model batch *some vocabulary"]:
        """Logits of the next id from decoder states and contexts, whose shapes broadcast (to all pairs)."""
        for_states, for_context = self.to_joined_weight.chunk(2, -1)
        # J [d; c] in two parts: T + S products suffice for all T S pairs of T states and S contexts.
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
        """The states at each token [token model batch hidden], then the last state (and cell, of an LSTM)."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        into, weight, bias_into, bias = (getattr(self, f"{layer}_{name}") for name in names)
        # not in autocast's precision: this table is small, and every token's gates are computed from it
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
    """One model's initial weights, by `Copier`'s parameter names, drawn from `seed`, not `config.seeds`.

    The heads' weights are drawn last, so that all others do not depend on the number of heads.
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
    """States with the token axis moved behind `batch`; contiguous in bf16, for faster products."""
    turned = states.permute(1, 2, 0, 3)
    return turned.contiguous() if states.dtype == torch.bfloat16 else turned


def _linear(
    x: Float[Tensor, "model *some width"],
    weight: Float[Tensor, "model out width"],
    bias: Float[Tensor, "model out"] | None = None,
) -> Float[Tensor, "model *some out"]:
    """Apply to each model's vectors that model's own linear map."""
    flat, turned = x.reshape(len(x), -1, x.shape[-1]), weight.mT.contiguous()
    found = flat @ turned if bias is None else torch.baddbmm(bias[:, None], flat, turned)
    return found.view(*x.shape[:-1], -1)


def copying_loss(model: Copier, batch: CopyBatch) -> dict[str, Tensor]:
    """A loss for `fit`: each model's mean cross entropy over ids, as a sum (`loss`) and mean over models."""
    logits = model(**batch.inputs).logits.float()
    each = F.cross_entropy(logits.flatten(0, 2), batch.predicted.flatten(), reduction="none")
    means = each.view(len(logits), -1).mean(1)
    return {"loss": means.sum(), "cross_entropy": means.mean()}


@torch.no_grad()
def copying_scores(model: Copier, batches: Iterable[CopyBatch]) -> dict[str, float]:
    """The models' mean `accuracy` at predicting each id from those before; batches should have one size."""
    device, right, asked = model.embedding.device, list[Tensor](), list[int]()
    with evaluating(model):
        for batch in batches:
            batch = batch.to(device)
            predicted = model(**batch.inputs).logits.argmax(-1)
            right.append((predicted == batch.predicted).sum())
            asked.append(predicted.numel())
    shares = torch.stack(right).cpu().double() / torch.tensor(asked)
    return {"accuracy": float(shares.mean())}
