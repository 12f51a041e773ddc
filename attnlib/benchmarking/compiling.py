r"""A program as a transformer that computes it exactly, with weights that may be disguised.

The transformer is `attnlib.models.transformer.Transformer`: pre-norm, learned positions, ReLU. In float64,
its most likely class is the program's output at every token but the first (`wrong_outputs` counts errors).

**Variables** are one-hot in channels of their own, so that $|x|^2$ is the same at every token. Two channels
hold $\pm C$, so that layer normalization divides every token by nearly the same number; this number is
measured, and the normalization's weight undoes it. Sixteen channels hold minus the sum of everything that is
written to the residual stream, so that the mean stays 0.

**The start token** attends to itself alone, so that its variables are the same in all inputs. They are
subtracted from keys and values, so that no variable of this token is selected or copied by accident. It is
the attention sink of queries that select no key, and it makes counting possible: if $c$ selected keys and the
start token have equal scores, the start token gets the attention $1 / (c + 1)$.

**A head** gives selected keys scores that are higher by `SHARPNESS` or more. If it copies the first or the
last of several selected keys, scores also rise by `STEP` from key to key in that direction.
**A lookup** has a hidden unit for each pair of values, $\max(0, \frac43 (u + v) - \frac53)$: 1 for that pair
and 0 for all others, with a margin to the kink of the ReLU. **A count** is a sum of step functions of the
attention on the start token; the feed-forward block that reads this attention erases its channel.

**Disguises** change the weights and not the function (`Disguise`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnlib.benchmarking.programs import COPY, COUNT, ONE_KEY, Program
from attnlib.models.transformer import Layer, Transformer, TransformerConfig

SHARPNESS = 24.0
"""How much higher, at least, the score of a selected key is than that of another; e^-24 is 4e-11."""

STEP = 14.0
"""The difference between the scores of neighbouring keys, if the first or last selected one is copied."""

CONFIDENCE = 10.0
"""How much higher the logit of the right class is than those of other classes."""

HEIGHT = 128.0
"""The constant C: the two constant channels hold C and -C."""

CHECKED = 2_048
"""The number of random inputs on which a compiled program must be right at all tokens but the first."""

_BALANCE, _JUNK = 16, 12
_NOISE = 1.5
_KEPT_IN_SINK, _SINK_VALUE = np.log(4.0), 5.0
_RAMP, _HARD_RAMP = 1.0002, 0.4


@dataclass(frozen=True)
class Disguise:
    """Changes of the weights of a compiled program that leave its function the same.

    Attributes:
        rotated: the residual stream is in a random orthonormal basis.
        split: in each layer, one head that the output depends on is two heads, with .6 and .4 of its output.
        sink: heads that copy from at most one key leave .8 of their attention on the start token, and
            multiply the copied value by 5.
        junk: 24 channels hold noise that no variable depends on, and an additional head per layer moves it.
        hard: counts are saturated steps, through which no gradient flows.
    """

    rotated: bool = False
    split: bool = False
    sink: bool = False
    junk: bool = False
    hard: bool = False

    @classmethod
    def of(cls, seed: int) -> Disguise:
        """The disguise of a program in the population: each change has probability .5, `split` .3."""
        rng = np.random.default_rng([seed, 1])
        return cls(
            **{each.name: bool(rng.random() < (0.3 if each.name == "split" else 0.5)) for each in fields(cls)}
        )


class InexactError(ValueError):
    """A compiled transformer gives a different output than its program."""


def compiled(program: Program, disguise: Disguise | None = None, *, checked: int = CHECKED) -> Transformer:
    """A transformer in float64 whose most likely class is the program's output, at every token but the first.

    Args:
        program: see `attnlib.benchmarking.population.draw`.
        disguise: by default that of the program's seed.
        checked: on how many random inputs the transformer is compared with the program; 0 compares none.

    Raises:
        InexactError: an output of the transformer differs from the program's.
    """
    chosen = Disguise.of(program.seed) if disguise is None else disguise
    model = _Compiler(program, chosen).written()
    if wrong := wrong_outputs(program, model, checked) if checked else 0:
        raise InexactError(
            f"the transformer of seed {program.seed} differs from its program in {wrong} of "
            f"{checked * program.length:,} outputs ({chosen})"
        )
    return model


@torch.no_grad()
def wrong_outputs(program: Program, model: Transformer, n: int = CHECKED) -> int:
    """The number of wrong outputs of the transformer on `n` random inputs, at all tokens but the first."""
    ids = program.draw_inputs(np.random.default_rng([program.seed, 2]), n)
    wanted = torch.from_numpy(program.outputs(ids)[:, 1:].copy())
    given = torch.cat([model(part).logits[:, 1:].argmax(-1) for part in torch.from_numpy(ids).split(512)])
    return int((given != wanted).sum())


class _Compiler:
    """One compilation: assigns channels by name, and writes the weights that read and write them."""

    def __init__(self, program: Program, disguise: Disguise) -> None:
        self.program, self.disguise = program, disguise
        self.rng = torch.Generator().manual_seed(program.seed)
        start = program.draw_inputs(np.random.default_rng(0), 1)
        self.at_start = [int(values[0, 0]) for values in program.values(start)]
        self.channels, self.width = dict[str, slice](), 0
        for number, each in enumerate(program.variables):
            self._reserve(str(number), each.size)
            if each.operation == COUNT:
                self._reserve(f"share {number}", 1)
        self.junk = _JUNK if disguise.junk else 0
        self._reserve("junk", 2 * self.junk)
        for name, size in (("high", 1), ("low", 1), ("balance", _BALANCE)):
            self._reserve(name, size)
        self.plan = [self._heads_of(layer) for layer in range(program.n_layers)]
        n_heads = len(self.plan[0])
        widest = max(each.size for each in program.variables)
        self.per_head = max(widest + program.tokens + 3, 2 * widest, self.junk, -(-self.width // n_heads))
        self.width = n_heads * self.per_head
        config = TransformerConfig(
            program.alphabet + 1,
            program.variables[program.output].size,
            n_layers=program.n_layers,
            n_heads=n_heads,
            width=self.width,
            ff_width=max(1, *(self._units(layer) for layer in range(program.n_layers))),
            causal=program.causal,
            positions="learned",
            norm="pre",
            max_length=program.tokens,
        )
        with torch.random.fork_rng(devices=[]):
            self.model = Transformer(config).double().eval()

    @torch.no_grad()
    def written(self) -> Transformer:
        """The transformer with all weights written."""
        for weight in self.model.parameters():
            weight.zero_()
        self._embed()
        for layer, heads in enumerate(self.plan):
            for place, (number, part) in enumerate(heads):
                self._write_head(layer, place, number, part)
            self._write_feed_forward(layer)
        self.model.classify.weight.copy_(CONFIDENCE * self._reads(self.program.output))
        self._normalize()
        if self.disguise.rotated:
            self._rotate()
        return self.model.requires_grad_(True)

    def _reserve(self, name: str, size: int) -> None:
        self.channels[name] = slice(self.width, self.width + size)
        self.width += size

    def _heads_of(self, layer: int) -> list[tuple[int, float]]:
        """The heads of a layer: the variable that each computes (-1: junk), and its share of the output."""
        numbers = self.program.heads(layer)
        heads = [(number, 1.0) for number in numbers]
        if self.disguise.split:
            used = self.program.used()
            twice = next((number for number in numbers if number in used), numbers[0])
            heads = [(number, 1.0) for number in numbers if number != twice] + [(twice, 0.6), (twice, 0.4)]
        return [*heads, (-1, 1.0)] if self.junk else heads

    def _units(self, layer: int) -> int:
        """The number of hidden units that the feed-forward block of a layer needs."""
        variables = self.program.variables
        looked_up = (variables[number].arguments for number in self.program.lookups(layer))
        counts = (variables[n].size for n in self.program.heads(layer) if variables[n].operation == COUNT)
        return sum(variables[a].size * variables[b].size for a, b in looked_up) + sum(
            2 * n - 1 for n in counts
        )

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(*shape, dtype=torch.float64)

    def _eye(self, n: int) -> Tensor:
        return torch.eye(n, dtype=torch.float64)

    def _reads(self, number: int) -> Float[Tensor, "value width"]:
        """The weights that read a variable, a row per value."""
        size = self.program.variables[number].size
        rows = self._zeros(size, self.width)
        rows[:, self.channels[str(number)]] = self._eye(size)
        return rows

    def _balanced(self, columns: Float[Tensor, "width column"]) -> Float[Tensor, "width column"]:
        """The columns that are written, with balance channels set so that the sum over channels is 0."""
        columns[self.channels["balance"]] -= columns.sum(0, keepdim=True) / _BALANCE
        return columns

    def _noise(self, n: int) -> Tensor:
        """Noise for half of the junk: columns of equal norm and sum 0, as layer normalization needs them."""
        columns = torch.randn(self.junk // 2, n, generator=self.rng, dtype=torch.float64)
        columns -= columns.mean(0)
        return _NOISE * columns / columns.norm(dim=0)

    def _embed(self) -> None:
        symbols = self._zeros(self.width, self.program.alphabet + 1)
        positions = self._zeros(self.width, self.program.tokens)
        symbols[self.channels["0"]] = self._eye(self.program.alphabet + 1)
        positions[self.channels["1"]] = self._eye(self.program.tokens)
        if self.junk:
            start, half = self.channels["junk"].start, self.junk // 2
            symbols[start : start + half] = self._noise(symbols.shape[1])
            positions[start + half : start + self.junk] = self._noise(positions.shape[1])
        symbols, positions = self._balanced(symbols), self._balanced(positions)
        positions[self.channels["high"]] += HEIGHT
        positions[self.channels["low"]] -= HEIGHT
        self.model.embedding.weight.copy_(symbols.T)
        self.model.positions.copy_(positions.T)

    def _write_head(self, layer: int, place: int, number: int, part: float) -> None:
        query, key, value = (self._zeros(self.per_head, self.width) for _ in range(3))
        bias, out = self._zeros(self.per_head), self._zeros(self.width, self.per_head)
        if number < 0:
            self._move_junk(query, key, value, out)
        else:
            self._select(number, query, key, bias)
            self._carry(number, part, value, out)
        query, bias = (each * self.per_head**0.5 for each in (query, bias))  # attention divides by the root
        attention = self._layer(layer).attention
        rows = slice(place * self.per_head, (place + 1) * self.per_head)
        weights, biases = attention.qkv.weight.unflatten(0, (3, -1)), attention.qkv.bias.unflatten(0, (3, -1))
        weights[0, rows], weights[1, rows], weights[2, rows], biases[0, rows] = query, key, value, bias
        attention.out.weight[:, rows] = self._balanced(out)

    def _move_junk(self, query: Tensor, key: Tensor, value: Tensor, out: Tensor) -> None:
        """Moves noise from random positions to channels that nothing reads."""
        tokens, start = self.program.tokens, self.channels["junk"].start
        to = torch.randint(tokens, (tokens,), generator=self.rng)
        query[:tokens, self.channels["1"]] = SHARPNESS * self._eye(tokens)[to].T
        key[:tokens, self.channels["1"]] = self._eye(tokens)
        value[: self.junk, start : start + self.junk] = self._eye(self.junk)
        out[start + self.junk : start + 2 * self.junk, : self.junk] = self._eye(self.junk)

    def _is_sink(self, number: int) -> bool:
        head = self.program.variables[number]
        return self.disguise.sink and head.operation == COPY and head.selector in ONE_KEY

    def _select(self, number: int, query: Tensor, key: Tensor, bias: Tensor) -> None:
        """Writes the scores: `score` for selected keys, less for others, and `rest` for the start token."""
        head, tokens = self.program.variables[number], self.program.tokens
        assert head.relation is not None
        in_order = head.operation == COPY and head.selector not in ONE_KEY
        score = STEP * tokens + SHARPNESS if in_order else SHARPNESS
        n = head.relation.shape[1]
        query[:n, self.channels[str(head.arguments[0])]] = score * torch.from_numpy(head.relation.T).double()
        key[:n] = self._reads(head.arguments[1])
        if head.allowed is not None:
            query[n : n + tokens, self.channels["1"]] = score * torch.from_numpy(head.allowed.T).double()
            key[n : n + tokens] = self._reads(1)
            n, score = n + tokens, 2 * score
        if in_order:
            places = torch.arange(tokens, dtype=torch.float64)
            bias[n], key[n, self.channels["1"]] = STEP, places if head.pick == "last" else tokens - places
            n += 1
        self._without_the_start(key)
        if head.operation == COUNT:
            rest = score
        elif in_order:
            rest = score + STEP - (SHARPNESS + STEP) / 2
        else:
            rest = score + _KEPT_IN_SINK if self._is_sink(number) else score - SHARPNESS / 2
        start = self.channels["0"].stop - 1
        key[n, start], bias[n] = 1.0, rest
        query[n, start] = score + STEP * tokens + 60  # the start token attends to itself

    def _carry(self, number: int, part: float, value: Tensor, out: Tensor) -> None:
        """Writes the values that a head reads at keys, and their output."""
        head, start = self.program.variables[number], self.channels["0"].stop - 1
        if head.operation == COUNT:
            value[0, start], out[self.channels[f"share {number}"], 0] = 1.0, part
            return
        size = head.size - 1
        value[:size] = self._reads(head.arguments[2])
        if self._is_sink(number):  # the key has .2 of the attention: 5 times its value, and "none" subtracted
            value[:size] *= _SINK_VALUE
            value[size, self.channels["0"]] = 1 - _SINK_VALUE
        self._without_the_start(value)
        value[size, start] = 1.0
        out[self.channels[str(number)], : size + 1] = part * self._eye(size + 1)

    def _without_the_start(self, rows: Tensor) -> None:
        """Makes rows read 0 at the start token, whose variables are the same in all inputs."""
        there = self._zeros(self.width)
        for number, value in enumerate(self.at_start):
            there[self.channels[str(number)].start + value] = 1.0
        rows[:, self.channels["0"].stop - 1] -= rows @ there

    def _write_feed_forward(self, layer: int) -> None:
        program, block, unit = self.program, self._layer(layer), 0
        up, bias, down = block.up.weight, block.up.bias, torch.zeros_like(block.down.weight)
        always = self._zeros(self.width, 1)
        for number in program.lookups(layer):
            variable = program.variables[number]
            assert variable.table is not None
            first, second = (self.channels[str(each)].start for each in variable.arguments)
            for (x, y), value in np.ndenumerate(variable.table):
                up[unit, first + x] += 4 / 3
                up[unit, second + y] += 4 / 3
                bias[unit] = -5 / 3
                down[self.channels[str(number)].start + value, unit] = 1.0
                unit += 1
        for number in (n for n in program.heads(layer) if program.variables[n].operation == COUNT):
            share, zero = self.channels[f"share {number}"], self.channels[str(number)].start
            always[zero] = 1.0
            for count in range(1, program.variables[number].size):
                # at least `count` keys: the attention on the start token is 1 / (count + 1) or less
                gap, middle = 1 / count - 1 / (count + 1), (1 / count + 1 / (count + 1)) / 2
                slope = 1 / (gap * (_HARD_RAMP if self.disguise.hard else _RAMP))
                for sign in (1.0, -1.0):
                    up[unit, share], bias[unit] = -slope, slope * middle + sign / 2
                    down[zero + count, unit], down[zero + count - 1, unit] = sign, -sign
                    unit += 1
            up[unit, share], down[share, unit] = 1.0, -1.0
            unit += 1
        block.down.weight.copy_(self._balanced(down))
        block.down.bias.copy_(self._balanced(always)[:, 0])

    def _normalize(self) -> None:
        """Sets each norm's weight to what the norm divides by, which is nearly the same at all tokens."""
        model = self.model
        ids = torch.from_numpy(self.program.draw_inputs(np.random.default_rng(0), 32))

        def undone(norm: Any, x: Tensor) -> Tensor:
            norm.weight.fill_(float((x.var(-1, unbiased=False).mean() + norm.eps) ** 0.5))
            return norm(x)

        x = model.embedding(ids) + model.positions[None, : ids.shape[1]]
        for layer in range(self.program.n_layers):
            each = self._layer(layer)
            x = x + each.attention(undone(each.attention_norm, x))[0]
            x = x + each.feed_forward(undone(each.ff_norm, x))
        undone(model.norm, x)

    def _rotate(self) -> None:
        """Rotates the residual stream by a random `R` with `R 1 = 1`, which commutes with the layer norms."""
        width, model = self.width, self.model
        first = self._zeros(width)
        first[0] = 1
        axis = torch.ones_like(first) / width**0.5 - first
        mirror = self._eye(width) - 2 * torch.outer(axis, axis) / (axis @ axis)
        inner = self._eye(width)
        noise = torch.randn(width - 1, width - 1, generator=self.rng, dtype=torch.float64)
        inner[1:, 1:] = torch.linalg.qr(noise)[0]
        rotation = mirror @ inner @ mirror
        layers = [self._layer(layer) for layer in range(self.program.n_layers)]
        for reading in [model.classify, *(part for each in layers for part in (each.attention.qkv, each.up))]:
            reading.weight.copy_(reading.weight @ rotation.T)
        for writing in [part for each in layers for part in (each.attention.out, each.down)]:
            writing.weight.copy_(rotation @ writing.weight)
            writing.bias.copy_(rotation @ writing.bias)
        model.embedding.weight.copy_(model.embedding.weight @ rotation.T)
        model.positions.copy_(model.positions @ rotation.T)

    def _layer(self, layer: int) -> Layer:
        found = self.model.layers[layer]
        assert isinstance(found, Layer)
        return found
