"""The paths that attention rollout sums over, for a text short enough to draw all of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float

from attnlib.plots.drawing import Drawn, drawing
from attnlib.plots.panels import Numbers, finished, of_words
from attnlib.plots.style import visible
from attnlib.plots.themes import COLUMN, POINTS, colour
from attnlib.plots.words import listed


@drawing
def paths(mixed: Float[Numbers, "layer query key"], tokens: Sequence[str], query: int = -1) -> Drawn:
    """All paths from a token's state after the last layer down to the text, with the weight of each edge.

    Args:
        mixed: the matrix of each layer that rollout multiplies: the mean of the attention over heads,
            averaged with the identity.
        tokens: the tokens of the text.
        query: the token whose paths are coloured; the weight of a path is the product of its edges' weights.
    """
    mixed = of_words(mixed, tokens, tokens)
    layers, n, _ = mixed.shape
    reached = {query % n}
    figure, axis = plt.subplots(figsize=(COLUMN, 1.5 * layers + 0.8))
    for layer in range(layers, 0, -1):
        weights, below = mixed[layer - 1], set[int]()
        for q, k in zip(*np.nonzero(weights), strict=True):
            ours = q in reached
            below |= {int(k)} if ours else set()
            look = {"color": colour("accent" if ours else "faint"), "alpha": 1.0 if ours else 0.35}
            weight = float(weights[q, k])
            axis.plot(
                [q, k], [layer, layer - 1], lw=0.8 + 5 * weight, solid_capstyle="round", zorder=1, **look
            )
            if ours:  # the label is nearer to the query, where edges into one token are still apart
                place = (q + 0.4 * (k - q), layer - 0.4)
                said = str(Fraction(weight).limit_denominator(99))
                box = {"boxstyle": "round,pad=0.15", "fc": colour("page"), "linewidth": 0}
                axis.text(*place, said, ha="center", va="center", fontsize=POINTS, bbox=box, zorder=3)
        reached = below
    for layer in range(layers + 1):
        axis.scatter(range(n), [layer] * n, s=330, color=colour("page"), edgecolors=colour("faint"), zorder=2)
        for column, token in enumerate(tokens):
            axis.text(column, layer, visible(token), ha="center", va="center", fontsize=POINTS, zorder=4)
    names = ["the text", *(f"after layer {layer}" for layer in range(1, layers + 1))]
    axis.set(yticks=range(layers + 1), yticklabels=names, xticks=[], xlim=(-0.5, n - 0.5))
    axis.tick_params(length=0)
    axis.margins(y=0.12)
    figure = finished(figure, axes=False)
    for side in axis.spines.values():
        side.set_visible(False)
    rolled = reduce(lambda below, weights: weights @ below, mixed)[query]
    shares = listed(
        f"{token} {Fraction(float(share)).limit_denominator(99)}"
        for token, share in zip(tokens, rolled, strict=True)
    )
    alt = f"Tokens in {layers + 1} rows, joined by edges with their weights. "
    alt += f"All paths from {tokens[query]} down to the text add up to: {shares}."
    return figure, {"mixed": mixed, "tokens": np.array(list(tokens))}, alt
