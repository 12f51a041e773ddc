r"""Recurrent layers of many models side by side, whose inputs are ids out of few.

Two things make them fast where vocabularies are tiny. What an input adds to the gates is a row of a table,
$E W_{ih}^\top + b$, one product for the whole vocabulary in place of one per token. And the way back through
time is written by hand: inside the loop it does nothing but what has to wait for the step after it, and the
gradients of all weights are one product each once the loop is over.

The loop over tokens itself must be: a state needs the one before it.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

Table = Float[Tensor, "model vocabulary gates"]
Ids = Int64[Tensor, "model batch token"]
Weight = Float[Tensor, "model gates hidden"]
Start = Float[Tensor, "model batch hidden"]
States = Float[Tensor, "token model batch hidden"]


def lstm(table: Table, ids: Ids, weight: Weight, hidden: Start, cell: Start) -> tuple[States, Start]:
    r"""The states of an LSTM at every token, and its last cell.

    $$(i, f, g, o) = T_{x_t} + W h_{t-1}, \quad
      c_t = \sigma(f)\, c_{t-1} + \sigma(i) \tanh(g), \quad h_t = \sigma(o) \tanh(c_t)$$

    Args:
        table: T: what every id adds to the gates input, forget, cell and output, biases among it.
        ids: x.
        weight: W.
        hidden: h before the first token.
        cell: c before it.
    """
    return _LSTM.apply(table, ids, weight, hidden, cell, _precision(weight))


def gru(table: Table, ids: Ids, weight: Weight, bias: Float[Tensor, "model hidden"], hidden: Start) -> States:
    r"""The states of a GRU at every token.

    $$r = \sigma(T^r_{x_t} + W^r h_{t-1}), \quad z = \sigma(T^z_{x_t} + W^z h_{t-1}), \quad
      n = \tanh(T^n_{x_t} + r\,(W^n h_{t-1} + b)), \quad h_t = (1 - z)\, n + z\, h_{t-1}$$

    Args:
        table: T: what every id adds to the gates reset, update and new; biases of reset and update among it,
            and of new that of the input.
        ids: x.
        weight: W.
        bias: b.
        hidden: h before the first token.
    """
    return _GRU.apply(table, ids, weight, bias, hidden, _precision(weight))


def _precision(weight: Tensor) -> torch.dtype:
    """That of products: autocast's, where it is on."""
    kind = weight.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype


def _rows(ids: Ids, vocabulary: int) -> Int64[Tensor, "token model_batch"]:
    """The rows of all models' tables, one below the other, that the tokens stand for: token by token."""
    first = torch.arange(len(ids), device=ids.device)[:, None, None] * vocabulary
    return (ids + first).permute(2, 0, 1).flatten(1)


def _summed_by_id(
    gradients: Float[Tensor, "token model batch gates"], ids: Ids, vocabulary: int, precision: torch.dtype
) -> Table:
    """The gradient of a table: as a product with ones and zeros, which is faster than adding row by row."""
    chosen = torch.zeros(*ids.shape, vocabulary, dtype=precision, device=ids.device)
    chosen.scatter_(-1, ids[..., None], 1)
    tokens = gradients.to(precision).permute(1, 2, 0, 3).flatten(1, 2)
    return (chosen.flatten(1, 2).mT @ tokens).to(gradients.dtype)


def _outer(
    gradients: Float[Tensor, "token model batch gates"], states: States, precision: torch.dtype
) -> Weight:
    """The gradient of recurrent weights: the sum over tokens and batch of gradient times state before."""
    left = gradients.to(precision).transpose(0, 1).flatten(1, 2)
    right = states.to(precision).transpose(0, 1).flatten(1, 2)
    return (left.mT @ right).to(gradients.dtype)


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Any, ids: Any, weight: Any, hidden: Any, cell: Any, precision: Any) -> Any:
        models, batch, size = hidden.shape
        rows, flat = _rows(ids, table.shape[1]), table.flatten(0, 1)
        turned = weight.to(precision).mT.contiguous()
        n = len(rows)
        gates = table.new_empty(n, models, batch, 4 * size)
        states, cells = table.new_empty(n + 1, *hidden.shape), table.new_empty(n + 1, *hidden.shape)
        tanhs = table.new_empty(n, *hidden.shape)
        states[0], cells[0] = hidden, cell
        for t in range(n):
            gate = gates[t]
            torch.index_select(flat, 0, rows[t], out=gate.view(models * batch, -1))
            if precision == table.dtype:
                gate.baddbmm_(states[t], turned)
            else:
                gate += states[t].to(precision) @ turned
            gate[..., : 2 * size].sigmoid_()
            gate[..., 2 * size : 3 * size].tanh_()
            gate[..., 3 * size :].sigmoid_()
            i, f, g, o = gate.split(size, -1)
            torch.mul(f, cells[t], out=cells[t + 1]).addcmul_(i, g)
            torch.tanh(cells[t + 1], out=tanhs[t])
            torch.mul(o, tanhs[t], out=states[t + 1])
        ctx.save_for_backward(ids, weight, gates, states, cells, tanhs)
        ctx.vocabulary, ctx.precision = table.shape[1], precision
        return states[1:], cells[-1]

    @staticmethod
    def backward(ctx: Any, states_gradient: Any, cell_gradient: Any) -> Any:
        ids, weight, gates, states, cells, tanhs = ctx.saved_tensors
        precision, size = ctx.precision, weight.shape[2]
        straight = weight.to(precision).contiguous()
        gradients = torch.empty_like(gates)
        to_hidden = torch.zeros_like(states[0])
        to_cell = cell_gradient.clone()
        for t in reversed(range(len(gates))):
            to_hidden += states_gradient[t]
            gate, gradient, tanh = gates[t], gradients[t], tanhs[t]
            i, f, g, o = gate.split(size, -1)
            to_i, to_f, to_g, to_o = gradient.split(size, -1)
            torch.mul(to_hidden, tanh, out=to_o)
            to_hidden *= o
            to_cell += torch.ops.aten.tanh_backward(to_hidden, tanh)
            torch.mul(to_cell, g, out=to_i)
            torch.mul(to_cell, cells[t], out=to_f)
            torch.mul(to_cell, i, out=to_g)
            to_cell = to_cell * f
            both = slice(0, 2 * size)
            gradient[..., both] = torch.ops.aten.sigmoid_backward(gradient[..., both], gate[..., both])
            to_g.copy_(torch.ops.aten.tanh_backward(to_g, g))
            to_o.copy_(torch.ops.aten.sigmoid_backward(to_o, o))
            to_hidden = (gradient.to(precision) @ straight).to(gates.dtype)
        to_table = _summed_by_id(gradients, ids, ctx.vocabulary, precision)
        return to_table, None, _outer(gradients, states[:-1], precision), to_hidden, to_cell, None


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Any, ids: Any, weight: Any, bias: Any, hidden: Any, precision: Any) -> Any:
        models, batch, size = hidden.shape
        rows, flat = _rows(ids, table.shape[1]), table.flatten(0, 1)
        turned = weight.to(precision).mT.contiguous()
        n = len(rows)
        gates = table.new_empty(n, models, batch, 3 * size)
        states, before = table.new_empty(n + 1, *hidden.shape), table.new_empty(n, *hidden.shape)
        states[0] = hidden
        for t in range(n):
            gate = gates[t]
            torch.index_select(flat, 0, rows[t], out=gate.view(models * batch, -1))
            product = (states[t].to(precision) @ turned).to(table.dtype)
            torch.add(product[..., 2 * size :], bias[:, None], out=before[t])
            gate[..., : 2 * size] += product[..., : 2 * size]
            gate[..., : 2 * size].sigmoid_()
            r, z, new = gate.split(size, -1)
            new.addcmul_(r, before[t]).tanh_()
            torch.lerp(new, states[t], z, out=states[t + 1])
        ctx.save_for_backward(ids, weight, gates, states, before)
        ctx.vocabulary, ctx.precision = table.shape[1], precision
        return states[1:]

    @staticmethod
    def backward(ctx: Any, states_gradient: Any) -> Any:
        ids, weight, gates, states, before = ctx.saved_tensors
        precision, size = ctx.precision, weight.shape[2]
        straight = weight.to(precision).contiguous()
        inner = torch.empty_like(gates)  # of W h + b; of the table it differs in the part of n
        to_new = torch.empty_like(before)
        to_hidden = torch.zeros_like(states[0])
        for t in reversed(range(len(gates))):
            to_hidden = to_hidden + states_gradient[t]
            r, z, new = gates[t].split(size, -1)
            to_r, to_z, to_before = inner[t].split(size, -1)
            to_z.copy_(torch.ops.aten.sigmoid_backward(to_hidden * (states[t] - new), z))
            through = to_hidden * z
            to_new[t] = torch.ops.aten.tanh_backward(to_hidden - through, new)
            to_r.copy_(torch.ops.aten.sigmoid_backward(to_new[t] * before[t], r))
            torch.mul(to_new[t], r, out=to_before)
            to_hidden = through + (inner[t].to(precision) @ straight).to(gates.dtype)
        to_weight = _outer(inner, states[:-1], precision)
        to_bias = inner[..., 2 * size :].sum((0, 2))
        inner[..., 2 * size :] = to_new
        to_table = _summed_by_id(inner, ids, ctx.vocabulary, precision)
        return to_table, None, to_weight, to_bias, to_hidden, None
