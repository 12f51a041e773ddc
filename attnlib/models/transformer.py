"""A transformer with code that is short enough to read, and attention weights that can be returned.

References:
    1) Vaswani et al. 2017, *Attention Is All You Need*: the architecture, and sinusoidal positions (3.5).
    2) Xiong et al. 2020, *On Layer Normalization in the Transformer Architecture*: `norm="pre"`.
    3) torch's `nn.TransformerEncoderLayer`, which computes the same from the same weights (see the tests).
"""

from __future__ import annotations

import math
from dataclasses import dataclass as plain_dataclass
from typing import Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from attnlib.generators.base import moved
from attnlib.models.base import Saved
from attnlib.models.positions import angles, sinusoids, turned


@dataclass(frozen=True, config={"extra": "forbid"})
class TransformerConfig:
    """The settings of a `Transformer`; wrong ones raise a `ValueError` that says what is allowed.

    Attributes:
        vocabulary: how many ids the model reads: `0 .. vocabulary - 1`.
        n_classes: how many scores the model gives per token; `vocabulary` if left out.
        n_layers: number of layers, each of one attention block and one feed-forward block.
        n_heads: attention heads per layer; has to divide `width`.
        width: size of the residual stream (d in the equations).
        ff_width: hidden size of the feed-forward blocks; `4 * width`, as in Vaswani et al., if left out.
        causal: whether a token attends only to itself and those before it (decoder) or to all (encoder).
        positions: position encoding: a fixed "sinusoidal" or a "learned" vector added per position; "rotary",
            queries and keys rotated by their position (see `attnlib.models.positions`); or "none".
        norm: layer normalisation after ("post", Vaswani et al.) or before ("pre", GPT-2) each block.
        activation: activation function of the feed-forward blocks.
        dropout: probability of zeroing, in [0, 1): embeddings, attention weights, feed-forward hidden units
            and both blocks' outputs.
        max_length: the longest sequence accepted, in tokens.
    """

    vocabulary: int = Field(ge=1)
    n_classes: int | None = Field(default=None, ge=1)
    n_layers: int = Field(default=2, ge=1)
    n_heads: int = Field(default=2, ge=1)
    width: int = Field(default=64, ge=1)
    ff_width: int | None = Field(default=None, ge=1)
    causal: bool = False
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal"
    norm: Literal["post", "pre"] = "post"
    activation: Literal["relu", "gelu"] = "relu"
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    max_length: int = Field(default=512, ge=1)

    @model_validator(mode="after")
    def _complete(self) -> TransformerConfig:
        if self.width % self.n_heads:
            allowed = [n for n in range(1, self.width + 1) if self.width % n == 0]
            raise ValueError(f"n_heads must divide width={self.width}: one of {allowed}, not {self.n_heads}")
        if self.positions == "sinusoidal" and self.width % 2:
            raise ValueError(
                f"sinusoidal positions need an even width (sines and cosines in pairs), not {self.width}; "
                'or choose positions="learned" or "none"'
            )
        if self.positions == "rotary" and self.width // self.n_heads % 2:
            raise ValueError(
                "rotary positions need an even number of channels per head (they turn in pairs), not "
                f"{self.width // self.n_heads} = width / n_heads; "
                'choose another width or n_heads, or positions="learned", "sinusoidal" or "none"'
            )
        object.__setattr__(self, "n_classes", self.n_classes or self.vocabulary)
        object.__setattr__(self, "ff_width", self.ff_width or 4 * self.width)
        return self


@plain_dataclass(frozen=True)
class TransformerOutput:
    """What a `Transformer` returns.

    Attributes:
        logits: unnormalised log probability of each class at each token.
        attentions: softmax weights before dropout, rows are queries; `None` unless requested.
    """

    logits: Float[Tensor, "batch token class"]
    attentions: Float[Tensor, "batch layer head query key"] | None = None

    def head(self, name: str) -> Float[Tensor, "batch query key"]:
        """The attention of one head, by name: `"L0H1"` is head 1 of layer 0.

        Raises:
            ValueError: there is no such head (the message lists those there are), or no attention was kept.
        """
        if self.attentions is None:
            raise ValueError("no attention was kept: call the model with output_attentions=True")
        _, n_layers, n_heads, _, _ = self.attentions.shape
        names = head_names(n_layers, n_heads)
        if name not in names:
            raise ValueError(f"no head is called {name!r}; there are {', '.join(names)}")
        return self.attentions[:, *divmod(names.index(name), n_heads)]


def head_names(n_layers: int, n_heads: int) -> list[str]:
    """The names of all heads, layer by layer, both counted from 0: `["L0H0", "L0H1", ...]`."""
    return [f"L{layer}H{head}" for layer in range(n_layers) for head in range(n_heads)]


def attend(
    q: Float[Tensor, "batch head query channel"],
    k: Float[Tensor, "batch head key channel"],
    v: Float[Tensor, "batch head key value"],
    allowed: Bool[Tensor, "#batch 1 #query key"] | None = None,
    *,
    causal: bool = False,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> tuple[Float[Tensor, "batch head query value"], Float[Tensor, "batch head query key"] | None]:
    r"""Scaled dot-product attention (Vaswani et al. 2017, equation 1).

    $$O = A V, \; A_{ij} = \frac{E_{ij}}{\sum_l E_{il}}, \; E_{ij} = M_{ij} e^{q_i \cdot k_j / \sqrt{c}}$$

    with $c$ the number of channels of a head, and $M_{ij}$ = 1 where query $i$ may look at key $j$, else 0. A
    query that may look nowhere has $A = 0$ and $O = 0$.

    Args:
        q: queries.
        k: keys.
        v: values.
        allowed: M; `None` allows everything, or everything up to the query itself if `causal`.
        causal: see `allowed`; ignored when that is given (fold causality into it).
        dropout: probability of dropping an entry of A on its way to O.
        need_weights: return A, before dropout. Otherwise a fused kernel computes O without storing A.

    Returns:
        O, and A or `None`.
    """
    if not need_weights:
        if allowed is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout), None
        nowhere = ~allowed.any(-1, keepdim=True)  # kernels differ on such rows: open them, then zero them
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed | nowhere, dropout_p=dropout)
        return mixed.masked_fill(nowhere, 0.0), None
    if allowed is None:
        allowed = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)[None, None]
        allowed = allowed.tril() if causal else allowed
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~allowed, lowest).softmax(-1).masked_fill(~allowed, 0.0)
    return F.dropout(weights, dropout) @ v, weights


class Attention(nn.Module):
    """Multi-head self-attention, computed by `self.attend`, which `models.attention` observes and changes."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.n_heads, self.causal, self.dropout = config.n_heads, config.causal, config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width)  # queries, keys, values of all heads at once
        self.out = nn.Linear(config.width, config.width)
        self.attend = attend
        nn.init.xavier_uniform_(self.qkv.weight)  # as in torch's nn.MultiheadAttention
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)

    def forward(
        self,
        x: Float[Tensor, "batch token width"],
        allowed: Bool[Tensor, "#batch 1 #token token"] | None = None,
        need_weights: bool = False,
        angle: Float[Tensor, "#batch 1 token pair"] | None = None,
    ) -> tuple[Float[Tensor, "batch token width"], Float[Tensor, "batch head token token"] | None]:
        """Attend among the tokens of `x`; `angle` rotates queries and keys; all else is as in `attend`."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        if angle is not None:
            q, k = turned(q, angle), turned(k, angle)
        dropout = self.dropout if self.training else 0.0
        mixed, weights = self.attend(
            q, k, v, allowed, causal=self.causal, dropout=dropout, need_weights=need_weights
        )
        return self.out(mixed.transpose(1, 2).flatten(2)), weights


class Layer(nn.Module):
    r"""An attention block and a feed-forward block, each with a residual connection.

    $$\text{post: } x \leftarrow N(x + f(x)) \qquad \text{pre: } x \leftarrow x + f(N(x))$$

    with $N$ layer normalisation and $f$ either block; feed-forward is $W_2\,\sigma(W_1 x + b_1) + b_2$.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        hidden = cast(int, config.ff_width)
        self.pre = config.norm == "pre"
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, hidden)
        self.down = nn.Linear(hidden, config.width)
        self.ff_norm = nn.LayerNorm(config.width)
        self.activation = F.relu if config.activation == "relu" else F.gelu
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch token width"],
        allowed: Bool[Tensor, "#batch 1 #token token"] | None = None,
        need_weights: bool = False,
        angle: Float[Tensor, "#batch 1 token pair"] | None = None,
    ) -> tuple[Float[Tensor, "batch token width"], Float[Tensor, "batch head token token"] | None]:
        """One layer; arguments and second return as in `Attention`."""
        source = self.attention_norm(x) if self.pre else x
        mixed, weights = self.attention(source, allowed, need_weights, angle)
        x = x + self.dropout(mixed)
        if self.pre:
            return x + self.feed_forward(self.ff_norm(x)), weights
        x = self.attention_norm(x)
        return self.ff_norm(x + self.feed_forward(x)), weights

    def feed_forward(self, x: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
        """Apply the same two-layer network at every token."""
        return self.dropout(self.down(self.dropout(self.activation(self.up(x)))))


class Transformer(Saved):
    """An encoder (or, if `config.causal`, a decoder-only model) that scores classes at every token.

    Initial weights come from torch's global generator: call `torch.manual_seed` before to fix them.

    Attributes:
        config: its settings.
        layers: the `Layer`s, first to last.
    """

    CONFIG = TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        if config.positions == "learned":
            drawn = torch.randn(config.max_length, config.width)
            self.positions = nn.Parameter(0.02 * drawn)  # GPT-2's scale
        elif config.positions == "sinusoidal":
            table = sinusoids(config.max_length, config.width)
            self.register_buffer("positions", table, persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()
        self.classify = nn.Linear(config.width, cast(int, config.n_classes))

    @property
    def head_names(self) -> list[str]:
        """The names that `TransformerOutput.head` accepts, layer by layer."""
        return head_names(self.config.n_layers, self.config.n_heads)

    def forward(
        self,
        input_ids: Int64[Tensor, "batch token"],
        attention_mask: Bool[Tensor, "batch token"] | None = None,
        *,
        position_ids: Int64[Tensor, "batch token"] | None = None,
        output_attentions: bool = False,
    ) -> TransformerOutput:
        """Score every class at every token.

        Args:
            input_ids: token ids. All tensor arguments are moved to the device of the weights.
            attention_mask: True for tokens, False for padding, on either side; `None` without padding. The
                ids on padding do not affect real tokens, and positions count real tokens only.
            position_ids: the tokens' positions, if they are not consecutive (a token has been left out).
            output_attentions: return the attention of every head (slower, and quadratic memory).

        Raises:
            ValueError: the sequences are longer than `config.max_length`.
        """
        device, length = self.embedding.weight.device, input_ids.shape[1]
        input_ids = moved(input_ids, device)
        attention_mask, position_ids = moved(attention_mask, device), moved(position_ids, device)
        if length > self.config.max_length:
            raise ValueError(
                f"the sequences have {length} tokens, and this model was built for at most "
                f"max_length={self.config.max_length}"
            )
        if attention_mask is not None:
            attention_mask = attention_mask.bool()  # tokenizers give whole numbers
        if position_ids is None and attention_mask is not None:
            position_ids = (attention_mask.cumsum(1) - 1).clamp(min=0)  # padding on the left shifts nothing
        x = self.dropout(self.embedding(input_ids) + self._position_vectors(length, position_ids))
        allowed = None if attention_mask is None else attention_mask[:, None, None, :]
        if allowed is not None and self.config.causal:
            allowed = allowed & torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        angle = self._angles(length, position_ids)
        kept = []
        for layer in self.layers:
            x, weights = layer(x, allowed, output_attentions, angle)
            kept.append(weights)
        attentions = torch.stack(kept, dim=1) if output_attentions else None
        return TransformerOutput(self.classify(self.norm(x)), attentions)

    def _position_vectors(
        self, length: int, places: Int64[Tensor, "batch token"] | None
    ) -> Float[Tensor, "#batch token width"] | float:
        if self.config.positions in ("rotary", "none"):
            return 0.0
        return self.positions[None, :length] if places is None else self.positions[places]

    def _angles(
        self, length: int, places: Int64[Tensor, "batch token"] | None
    ) -> Float[Tensor, "#batch 1 token pair"] | None:
        if self.config.positions != "rotary":
            return None
        if places is None:
            places = torch.arange(length, device=self.embedding.weight.device)[None]
        return angles(places, self.config.width // self.config.n_heads)
