r"""Attention flow: how much attention can get from a query of the last layer to an input token.

Abnar and Zuidema 2020, "Quantifying attention flow in transformers", section 3: the layers make a graph
with one node per token and layer boundary. An edge leads from token `i` above layer `l` to token `j` below
it, of capacity

    M_l[i, j]        M_l = rownorm(mean_h A_lh + I)

with `A_lh` the attention of head `h` and `I` the residual connection, as in rollout. The flow of `(q, k)`
is the maximum flow from `q` at the top to `k` at the bottom, computed for each pair on its own; by default,
the flows of a query are divided by their sum. Rollout multiplies shares along paths; flow is limited by the
narrowest places of the graph (its minimum cut).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float64, Int, Int32
from torch import Tensor

from attnlib.checks import check
from attnlib.options import plain_options
from attnlib.rollout.dense import Attentions, Mixer, token_indices

TOGETHER = 8
"""Pairs of query and key in one call of scipy, whose overhead for a small graph exceeds its computation."""

SCALE = 2**30 // TOGETHER
"""Integer units per unit of capacity. scipy's capacities are int32, and so is what it adds flows up in;
larger ones silently give zero. Rows of `M` sum to 1, so the flows of one call stay within 2**30, and rounding
within int32."""


@plain_options
def attention_flow(
    attentions: Attentions,
    *,
    normalise: bool = True,
    rows: Sequence[int] | Int[Tensor, " row"] | None = None,
    keys: Sequence[int] | Int[Tensor, " column"] | None = None,
) -> Float64[Tensor, "*batch row column"]:
    r"""Maximum flow from the last layer's queries to the input tokens.

    One layer: the edge itself. Two: `sum_j min(M_2[q, j], M_1[j, k])`. More: Dinic's algorithm on capacities
    rounded to integers, on the part of the graph that a pair of query and key can use. Rounding is off by
    at most 4e-9 per edge of the narrowest cut.

    Args:
        attentions: as in `rollout`.
        normalise: divide each row by its sum over all keys (then `keys` are picked afterwards); else the flow
            itself, at most 1.
        rows: query positions to compute; all by default.
        keys: key positions to return; all by default.

    Returns:
        float64, `[batch query key]`, or `[query key]` for 4-D `attentions`.
    """
    mixer = Mixer(attentions)
    matrices = torch.stack([matrix.detach().cpu().double() for matrix in mixer.upwards()], 1).numpy()
    check(not (matrices < 0).any(), "attentions must be at least 0, as capacities", float(matrices.min()))
    n, cpu = matrices.shape[-1], torch.device("cpu")
    queries = np.arange(n) if rows is None else token_indices(rows, n, "rows", cpu).numpy()
    columns = np.arange(n) if keys is None else token_indices(keys, n, "keys", cpu).numpy()
    sinks = np.arange(n) if normalise else columns
    flows = np.stack([_flows(layers, queries, sinks) for layers in matrices])
    if normalise:
        flows /= np.maximum(flows.sum(-1, keepdims=True), np.finfo(float).tiny)
        flows = flows[..., columns]
    result = torch.from_numpy(flows)
    return result if mixer.batched else result[0]


def _flows(
    layers: Float64[np.ndarray, "layer query key"], queries: np.ndarray, keys: np.ndarray
) -> Float64[np.ndarray, "row column"]:
    """Flow of each pair; `layers` is `[layer query key]`, first layer first."""
    if len(layers) == 1:
        return layers[0][np.ix_(queries, keys)]
    if len(layers) == 2:
        below = layers[0][:, keys]
        rows = [np.minimum(row[:, None], below).sum(0) for row in layers[1][queries]]
        return np.array(rows).reshape(len(queries), len(keys))
    graph = _Graph(np.rint(layers * SCALE).astype(np.int32))
    flows = [
        graph.flows(query, keys[start : start + TOGETHER])
        for query in queries.tolist()
        for start in range(0, len(keys), TOGETHER)
    ]
    return np.concatenate([*flows, np.zeros(0)]).reshape(len(queries), len(keys)) / SCALE


class _Graph:
    """The layers as a graph; inner nodes are `boundary * n + token`, with boundary 0 below the last layer."""

    def __init__(self, capacity: Int32[np.ndarray, "layer query key"]) -> None:
        self.top, self.bottom = capacity[-1], capacity[0]
        inner = capacity[-2:0:-1]
        self.n, self.nodes = capacity.shape[-1], (len(inner) + 1) * capacity.shape[-1]
        boundary, above, below = np.nonzero(inner)
        last = np.arange(self.nodes - self.n, self.nodes)  # whose edges lead to the key
        self.tail = np.concatenate([boundary * self.n + above, last])
        self.head = np.concatenate([(boundary + 1) * self.n + below, last])
        self.inner = inner[boundary, above, below]
        reached, reaching = [self.top > 0], [self.bottom.T > 0]  # [query token], [key token] of each boundary
        for layer in inner > 0:
            reached.append(reached[-1] @ layer)
        for layer in inner[::-1] > 0:
            reaching.insert(0, reaching[0] @ layer.T)
        self.reached, self.reaching = np.concatenate(reached, 1), np.concatenate(reaching, 1)

    def flows(self, query: int, keys: Int[np.ndarray, " key"]) -> Int[np.ndarray, " key"]:
        """Maximum flow from a query to each of a few keys, by one graph with inner nodes copied per key."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow

        useful = self.reached[query] & self.reaching[keys]  # [key node]
        sink = 1 + useful.size
        copy, node = useful[:, : self.n].nonzero()
        first = 1 + copy * self.nodes + node
        from_source = self.top[query, node]
        copy, edge = (useful[:, self.tail] & useful[:, self.head]).nonzero()
        capacities = np.concatenate(
            [np.broadcast_to(self.inner, (len(keys), len(self.inner))), self.bottom[:, keys].T], 1
        )
        to_sink = edge >= len(self.inner)
        heads = np.where(to_sink, sink, 1 + copy * self.nodes + self.head[edge])
        starts = np.zeros(sink + 2, dtype=np.int32)
        starts[1:] = len(first)
        starts[2:] += np.bincount(copy * self.nodes + self.tail[edge], minlength=sink).cumsum()
        graph = csr_array(
            (
                np.concatenate([from_source, capacities[copy, edge]]),
                np.concatenate([first, heads]).astype(np.int32),
                starts,
            ),
            shape=(sink + 1, sink + 1),
        )
        flow = maximum_flow(graph, 0, sink, method="dinic").flow[[0]].tocoo()
        return np.bincount((flow.col - 1) // self.nodes, flow.data, minlength=len(keys)).astype(np.int64)
