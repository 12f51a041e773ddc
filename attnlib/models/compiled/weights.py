r"""Tools for writing a transformer's weights by hand: named channels, heads and feed-forward blocks.

Every channel of the residual stream has one meaning (`symbol`, one channel per symbol of the alphabet;
`share`; ...), and blocks write only to empty channels, so that nothing is overwritten. Layer normalisation
(`norm="pre"`) is made almost the identity: two channels hold $+C$ and $-C$, $C = 4096$, and one (`balance`)
holds minus the sum of all others. So the mean is 0, and for $d$ channels with content $x$

$$N(x) = \gamma \frac{x}{\sqrt{(2 C^2 + |x|^2) / d + \epsilon}}
\approx x \, \Big(1 - \frac{|x|^2}{4 C^2}\Big), \qquad \gamma = \sqrt{2 C^2 / d + \epsilon},$$

which is $x$ to about one part in $10^7$, a rounding error of float32. (Sums that include $\pm C$ are
rounded, so that the mean is 0 only to about $10^{-5}$. Nothing is written to the channel `zero`; every read
subtracts this channel, and thereby the error of the mean.)
"""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib.generators.rasp.language import Language
from attnlib.models.transformer import Layer, Transformer, TransformerConfig

SHARPNESS = 32.0
"""Beta: how much higher the score of a selected key is. e^-32 is 1e-14."""

CONFIDENCE = 10.0
"""How much higher the logit of the right class is. With much more, its probability would round to 1 in
float32, and the gradients of its logarithm, which attribution methods need, would vanish."""

HEIGHT = 4096.0
"""C, the absolute value in the two constant channels."""

WIDEST = 4096
"""The largest width that is built; `sort` needs a channel for each symbol and position."""


class Stream:
    """The named channels of the residual stream, and weights that read from and write to them."""

    def __init__(self, **sizes: int) -> None:
        self.places, self.width = dict[str, slice](), 0
        for name, size in (sizes | {"zero": 1, "balance": 1, "high": 1, "low": 1}).items():
            self.places[name] = slice(self.width, self.width + size)
            self.width += size
        if self.width > WIDEST:
            raise ValueError(
                f"this program would need {self.width} channels, and at most {WIDEST} are built; take a "
                "smaller alphabet or length"
            )

    def read(self, rows: int | None = None, **parts: Tensor | float) -> Float[Tensor, "row width"]:
        """Weights that read one number per row; each part is `[row, channel]`, or one weight for all."""
        given = [part.shape[0] for part in parts.values() if isinstance(part, Tensor)]
        weights = torch.zeros(rows or max([1, *given]), self.width)
        for name, part in parts.items():
            weights[:, self.places[name]] = part
        weights[:, self.places["zero"]] = -weights.sum(1, keepdim=True)
        return weights

    def write(self, columns: int = 1, **parts: Tensor | float) -> Float[Tensor, "width column"]:
        """Weights that write one number per column; each part is `[channel, column]`, or one for all."""
        weights = torch.zeros(self.width, columns)
        for name, part in parts.items():
            weights[self.places[name]] = part
        weights[self.places["balance"]] = -weights.sum(0, keepdim=True)
        return weights


class Weights:
    """A `Transformer` whose weights are 0 except those that this class's methods write."""

    @torch.no_grad()
    def __init__(self, language: Language, tokens: int, stream: Stream, n_layers: int, hidden: int) -> None:
        sizes: dict[str, Any] = {
            "n_layers": n_layers,
            "n_heads": 1,
            "width": stream.width,
            "ff_width": hidden,
        }
        sizes |= {"positions": "learned", "norm": "pre", "max_length": tokens}
        config = TransformerConfig(len(language.tokenizer), len(language.classes), **sizes)
        self.stream, self.model = stream, Transformer(config).eval()
        for weight in self.model.parameters():
            weight.zero_()
        for module in self.model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.fill_((2 * HEIGHT**2 / stream.width + module.eps) ** 0.5)
        ids = language.tokenizer.convert_tokens_to_ids(list(language.alphabet))
        table = self.model.embedding.weight
        table[ids] = stream.write(len(ids), symbol=torch.eye(len(ids))).T
        if "bos" in stream.places:
            table[language.tokenizer.bos_token_id] = stream.write(bos=1.0)[:, 0]
        self.at_positions()

    @torch.no_grad()
    def at_positions(self, **parts: Tensor) -> None:
        """Write the position vectors: `[position]` for one channel, `[position, channel]` for several."""
        rows = {name: part[None] if part.ndim == 1 else part.T for name, part in parts.items()}
        table = self.stream.write(self.model.config.max_length, **rows)
        table[self.stream.places["high"]], table[self.stream.places["low"]] = HEIGHT, -HEIGHT
        self.model.positions.copy_(table.T)

    @torch.no_grad()
    def write_head(
        self,
        layer: int,
        *,
        query: Float[Tensor, "feature width"],
        key: Float[Tensor, "feature width"],
        value: Float[Tensor, "number width"],
        out: Float[Tensor, "width number"],
        always: list[float] | None = None,
    ) -> None:
        """Write a head whose scores are `SHARPNESS` times the dot product of query and key features.

        `always` is added to the query's features. `value` reads numbers at keys, and `out` writes their
        weighted means to channels.
        """
        attention, width = self._layer(layer).attention, self.stream.width
        scale = SHARPNESS * width**0.5  # attention divides by the root of a head's channels
        weight = attention.qkv.weight.unflatten(0, (3, width))
        weight[0, : len(query)], weight[1, : len(key)], weight[2, : len(value)] = scale * query, key, value
        if always is not None:
            attention.qkv.bias[: len(query)] = scale * torch.tensor(always)
        attention.out.weight[:, : len(value)] = out

    @torch.no_grad()
    def feed_forward(
        self,
        layer: int,
        up: Float[Tensor, "unit width"],
        bias: Float[Tensor, " unit"],
        down: Float[Tensor, "width unit"],
        always: Float[Tensor, "width 1"] | None = None,
    ) -> None:
        """Write a feed-forward block, which adds `down max(0, up x + bias) + always` to the stream."""
        block = self._layer(layer)
        block.up.weight[: len(up)], block.up.bias[: len(up)] = up, bias
        block.down.weight[:, : len(up)] = down
        if always is not None:
            block.down.bias[:] = always[:, 0]

    @torch.no_grad()
    def classify(
        self, scores: Float[Tensor, "class width"], bias: Float[Tensor, " class"] | None = None
    ) -> None:
        """Write the output layer: logits are `CONFIDENCE` times the scores."""
        self.model.classify.weight[:] = CONFIDENCE * scores
        if bias is not None:
            self.model.classify.bias[:] = CONFIDENCE * bias

    def _layer(self, layer: int) -> Layer:
        return cast(Layer, self.model.layers[layer])
