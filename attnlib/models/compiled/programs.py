"""Three programs as weights: `reverse`, `hist` and `sort`. The package's docstring has their principles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlib.generators.base import Head
from attnlib.generators.rasp.definitions import HIGHEST_COUNT
from attnlib.generators.rasp.language import Language
from attnlib.models.compiled.weights import Stream, Weights
from attnlib.models.transformer import Transformer


@dataclass(frozen=True)
class Compiled:
    """A model whose weights implement a RASP program.

    Attributes:
        language: the RASP language that the model computes.
        model: the model, in evaluation mode.
        heads: for each head of `language.target_attention`, the head of the model that implements it.
    """

    language: Language
    model: Transformer
    heads: dict[Head, Head]

    @property
    def run(self) -> str:
        """The model's name in tables."""
        return f"{self.language.name}, compiled"

    @property
    def longest(self) -> int:
        """The largest number of symbols in a sequence."""
        return self.model.config.max_length - self.language.bos


def compiled(language: Language, length: int = 30) -> Compiled:
    """A transformer that is right on every sequence of up to `length` symbols, by construction.

    Args:
        language: `reverse`, with or without a beginning-of-sequence token; `hist` or `sort`, with one.
        length: number of symbols in the longest sequence.

    Raises:
        ValueError: there is no program for the language, `hist` or `sort` lacks the beginning-of-sequence
            token, `length` is below 1, or the model would be too large.

    Example:
        >>> from attnlib.generators.rasp import language
        >>> reverse = compiled(language("reverse", alphabet_size=10), length=8)
        >>> sample = reverse.language.annotate("badge")
        >>> classes = reverse.model(sample.input_ids[None]).logits.argmax(-1)[0]
        >>> "".join(reverse.language.classes[index] for index in classes)
        'egdab'
    """
    if language.name not in PROGRAMS:
        raise ValueError(f"there are programs for {', '.join(PROGRAMS)}; got {language.name!r}")
    if language.name in NEED_BOS and not language.bos:
        raise ValueError(
            f"{language.name} counts by the share of attention on the beginning-of-sequence token: take a "
            "language with bos=True"
        )
    if length < 1:
        raise ValueError(f"length should be at least 1; got {length}")
    return PROGRAMS[language.name](language, length + language.bos)


# ---- the three programs --------------------------------------------------------------------------------


def hist_program(language: Language, tokens: int) -> Compiled:
    r"""The model of `hist`, with one layer.

    Channels: `symbol`, `bos`, `share`, `count` (in tenths).

    * Head (0, 0) selects the keys with the query's symbol, and the beginning: the score is $\beta$ times
      (symbols equal + key is the beginning). Its value is 1 at the beginning: `share` $= 1 / (c + 1)$.
    * The block writes `count` $= \sum_j 2 h_j$, $j \le 10$, which is $c$ up to 10, and above 10 for more.
    * Class $j$ has the logit $10\,(2 c j - j^2)$, which is largest for the class nearest to $c$.
    """
    n = len(language.alphabet)
    stream = Stream(symbol=n, bos=1, share=1, count=1)
    net = Weights(language, tokens, stream, n_layers=1, hidden=HIGHEST_COUNT)
    net.write_head(
        0,
        query=torch.cat([stream.read(symbol=torch.eye(n)), stream.read(1)]),
        always=[0.0] * n + [1.0],
        key=torch.cat([stream.read(symbol=torch.eye(n)), stream.read(bos=1.0)]),
        value=stream.read(bos=1.0),
        out=stream.write(share=1.0),
    )
    net.feed_forward(0, *_count(stream, HIGHEST_COUNT), stream.write(HIGHEST_COUNT, count=2.0 / 10))
    j = torch.arange(HIGHEST_COUNT + 1.0)[:, None]
    net.classify(stream.read(count=10 * 2 * j), -(j[:, 0] ** 2))
    return Compiled(language, net.model, {(0, 0): (0, 0)})


def reverse_program(language: Language, tokens: int) -> Compiled:
    r"""The model of `reverse`, with two layers.

    Channels: `symbol`, `first`, `place` and `square` ($p$ and $p^2$ in units of the length), `share`,
    `length`, `found`.

    * Head (0, 0) selects every key: all scores are 0. (The beginning-of-sequence token looks at itself, as
      in all programs.) Its value is 1 at the first token: `share` $= 1 / N$, $N$ the number of tokens.
    * The block writes `length` $= N$.
    * Head (1, 0) finds the key whose position is $m = N - 1 - q$, or, with a beginning-of-sequence token at
      position 0, $N - q$ (and 0 for that token itself), and copies its symbol to `found`.
    """
    n, units, bos = len(language.alphabet), tokens - 1 or 1, float(language.bos)
    stream = Stream(symbol=n, first=1, place=1, square=1, share=1, length=1, found=n)
    net = Weights(language, tokens, stream, n_layers=2, hidden=units)
    place = torch.arange(tokens) / tokens
    net.at_positions(first=torch.arange(tokens) == 0, place=place, square=place**2)
    net.write_head(
        0,
        query=stream.read(first=bos),
        key=stream.read(first=1.0),
        value=stream.read(first=1.0),
        out=stream.write(share=1.0),
    )
    net.feed_forward(
        0, *_count(stream, units), stream.write(units, length=2.0 / tokens), stream.write(length=1 / tokens)
    )
    mirrored = stream.read(length=2.0, place=-2.0, first=-2 * bos / tokens)
    net.write_head(
        1,
        query=tokens**2 * torch.cat([mirrored, stream.read(1)]),
        always=[-2 * tokens * (1 - bos), float(tokens**2)],
        key=torch.cat([stream.read(place=1.0), stream.read(square=-1.0)]),
        value=stream.read(symbol=torch.eye(n)),
        out=stream.write(n, found=torch.eye(n)),
    )
    net.classify(stream.read(found=torch.eye(n)))
    return Compiled(language, net.model, {(0, 0): (0, 0), (1, 0): (1, 0)})


def sort_program(language: Language, tokens: int) -> Compiled:
    r"""The model of `sort`, with three layers.

    Channels: `symbol`, `bos`, `place` (one for each position), `pair` (one for each symbol and position),
    `share`, `rank` and `square` (in units of the length), `found`.

    The program's first selector, "a smaller symbol, or the same symbol earlier", needs symbol and position
    *together*. From separate channels, a head's score is a term of symbols plus a term of positions. Such a
    sum cannot depend on the key's position if symbols are equal, and be independent of it if the key's symbol
    is smaller. So an additional layer comes first:

    * The head of layer 0 looks at its own token only, and reads nothing. The block writes `pair`: unit
      $(s, p)$ is $\max(0, \text{symbol}_s + \text{place}_p - 1)$.
    * Head (1, 0) is the program's (0, 0): it selects the beginning, and the pairs that come before the
      query's in the order of symbol, then position: `share` $= 1 / (r + 1)$ for a token with $r$ before it.
    * The block writes `rank` $= r + 1$, the token's position in the output (position 0 is the beginning,
      whose rank the next head's key corrects to 0), and `square` $= (r + 1)^2$.
    * Head (2, 0), the program's (1, 0), finds the key whose `rank` is the query's position, and copies its
      symbol to `found`.
    """
    n, symbols = len(language.alphabet), tokens - 1
    stream = Stream(symbol=n, bos=1, place=tokens, pair=n * symbols, share=1, rank=1, square=1, found=n)
    net = Weights(language, tokens, stream, n_layers=3, hidden=n * symbols)
    net.at_positions(place=torch.eye(tokens))
    each, before = torch.eye(n).repeat_interleave(symbols, 0), torch.eye(tokens)[1:].repeat(n, 1)
    everywhere = stream.read(place=torch.eye(tokens))
    net.write_head(0, query=everywhere, key=everywhere, value=stream.read(1), out=stream.write())
    net.feed_forward(
        0,
        stream.read(symbol=each, place=before),
        -torch.ones(n * symbols),
        stream.write(n * symbols, pair=torch.eye(n * symbols)),
    )
    codes = torch.tensor([ord(symbol) for symbol in language.alphabet]).repeat_interleave(symbols)
    order = (codes * tokens + torch.arange(symbols).repeat(n)).argsort().argsort()
    earlier = (order < order[:, None]).float()  # [pair of the query, pair of the key]
    net.write_head(
        1,
        query=torch.cat([stream.read(pair=earlier.T), stream.read(1)]),
        always=[0.0] * (n * symbols) + [1.0],
        key=torch.cat([stream.read(pair=torch.eye(n * symbols)), stream.read(bos=1.0)]),
        value=stream.read(bos=1.0),
        out=stream.write(share=1.0),
    )
    j = torch.arange(1.0, symbols + 1)[None]
    net.feed_forward(
        1,
        *_count(stream, symbols),
        stream.write(symbols, rank=2.0 / tokens, square=6 * j / tokens**2),
        stream.write(rank=1 / tokens, square=1 / tokens**2),
    )
    net.write_head(
        2,
        query=tokens**2
        * torch.cat([stream.read(place=2 * torch.arange(tokens)[None] / tokens), stream.read(1)]),
        always=[0.0, float(tokens**2)],
        key=torch.cat([stream.read(rank=1.0, bos=-1 / tokens), stream.read(square=-1.0, bos=1 / tokens**2)]),
        value=stream.read(symbol=torch.eye(n)),
        out=stream.write(n, found=torch.eye(n)),
    )
    net.classify(stream.read(found=torch.eye(n)))
    return Compiled(language, net.model, {(0, 0): (1, 0), (1, 0): (2, 0)})


PROGRAMS: dict[str, Callable[[Language, int], Compiled]] = {
    "reverse": reverse_program,
    "hist": hist_program,
    "sort": sort_program,
}
"""The functions that build the models, by the name of the language."""

NEED_BOS = {"hist", "sort"}


def _count(stream: Stream, units: int) -> tuple[Tensor, Tensor]:
    """Weights and biases of the hidden units `h_j = max(0, 1 - j share)`."""
    return stream.read(share=-torch.arange(1.0, units + 1)[:, None]), torch.ones(units)
