r"""Recurrent layers of many models in parallel, for inputs that are ids of a small vocabulary.

Two things make these layers fast. First, the contribution of an input to the gates is a row of a table,
$E W_{ih}^\top + b$, which takes one product for the whole vocabulary in place of one per token. Second,
backpropagation through time is written by hand: its loop computes only what depends on the following step,
and the gradient of each weight matrix is a single product after the loop.

The loop over tokens cannot be avoided, since each state depends on the one before it.
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
    r"""The states of an LSTM at every token, in autocast's precision where it is on, and its last cell.

    $$&(i, f, g, o) = T_{x_t} + W h_{t-1}, \\
      &c_t = \sigma(f)\, c_{t-1} + \sigma(i) \tanh(g), \quad h_t = \sigma(o) \tanh(c_t)$$

    with $T$ the table (which includes the biases), $x$ the ids and $W$ the weight.
    """
    return _LSTM.apply(table, ids, weight, hidden, cell, _precision(weight))


def gru(table: Table, ids: Ids, weight: Weight, bias: Float[Tensor, "model hidden"], hidden: Start) -> States:
    r"""The states of a GRU at every token, in autocast's precision where it is on.

    $$&r = \sigma(T^r_{x_t} + W^r h_{t-1}), \quad z = \sigma(T^z_{x_t} + W^z h_{t-1}), \\
      &n = \tanh(T^n_{x_t} + r\,(W^n h_{t-1} + b)), \quad h_t = (1 - z)\, n + z\, h_{t-1}$$

    with $T$ the table (columns $r$, $z$, $n$; it includes both biases of $r$ and $z$, but only the input's
    bias of $n$), $x$ the ids, $W$ the weight and $b$ the recurrent bias of $n$.
    """
    return _GRU.apply(table, ids, weight, bias, hidden, _precision(weight))


def _precision(weight: Tensor) -> torch.dtype:
    """The precision of matrix products: autocast's where it is on, else that of the weight."""
    kind = weight.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype


def _rows(ids: Ids, vocabulary: int) -> Int64[Tensor, "token model_batch"]:
    """For each token, its row in the stacked tables of all models."""
    first = torch.arange(len(ids), device=ids.device)[:, None, None] * vocabulary
    return (ids + first).permute(2, 0, 1).flatten(1)


def _by_model(states: States, dtype: torch.dtype) -> States:
    """A new tensor of the shape of `states`, contiguous per model, so that sums over tokens need no copy."""
    tokens, models, *rest = states.shape
    return states.new_empty(models, tokens, *rest, dtype=dtype).transpose(0, 1)


def _summed_by_id(gradients: Float[Tensor, "token model batch gates"], ids: Ids, vocabulary: int) -> Table:
    """The gradient of a table, as a product with one-hot ids, which is faster than adding row by row."""
    chosen = torch.zeros(*ids.shape, vocabulary, dtype=gradients.dtype, device=ids.device)
    chosen.scatter_(-1, ids[..., None], 1)
    return chosen.transpose(1, 2).flatten(1, 2).mT @ gradients.transpose(0, 1).flatten(1, 2)


def _outer(gradients: Float[Tensor, "token model batch gates"], states: States) -> Weight:
    """The gradient of recurrent weights: the sum over tokens and batch of gradient times state before."""
    # transposed product: bf16's kernel for the direct one is three times slower
    return (states.transpose(0, 1).flatten(1, 2).mT @ gradients.transpose(0, 1).flatten(1, 2)).mT


def _tanh_(x: Tensor) -> Tensor:
    """tanh(x / 2) in place, by the logistic function, which is far faster on a CPU; accurate to 1e-7."""
    return x.sigmoid_().mul_(2).sub_(1)


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Any, ids: Any, weight: Any, hidden: Any, cell: Any, precision: Any) -> Any:
        models, batch, size = hidden.shape
        # tanh(g) = 2 sigmoid(2 g) - 1: with g's weights doubled, one sigmoid call serves all gates
        doubled = torch.ones(4 * size, device=table.device, dtype=table.dtype)
        doubled[2 * size : 3 * size] = 2
        rows, flat = _rows(ids, table.shape[1]), (table * doubled).flatten(0, 1)
        turned = (weight * doubled[:, None]).mT.to(precision).contiguous()
        n = len(rows)
        gates = table.new_empty(n, models, batch, 4 * size)
        states, cells = table.new_empty(n + 1, *hidden.shape), table.new_empty(n + 1, *hidden.shape)
        short = states if precision == table.dtype else states.new_empty(states.shape, dtype=precision)
        tanhs = table.new_empty(n, *hidden.shape)
        states[0], short[0], cells[0] = hidden, hidden, cell
        for t in range(n):
            gate = gates[t]
            torch.index_select(flat, 0, rows[t], out=gate.view(models * batch, -1))
            if precision == table.dtype:
                gate.baddbmm_(states[t], turned)
            else:
                gate += short[t] @ turned
            gate.sigmoid_()
            i, f, g, o = gate.split(size, -1)
            g.mul_(2).sub_(1)
            torch.mul(f, cells[t], out=cells[t + 1]).addcmul_(i, g)
            torch.mul(cells[t + 1], 2, out=tanhs[t])
            torch.mul(o, _tanh_(tanhs[t]), out=states[t + 1])
            if short is not states:
                short[t + 1] = states[t + 1]
        ctx.save_for_backward(ids, weight, gates, short, cells, tanhs)
        ctx.vocabulary = table.shape[1]
        return short[1:], cells[-1]

    @staticmethod
    def backward(ctx: Any, states_gradient: Any, cell_gradient: Any) -> Any:
        ids, weight, gates, states, cells, tanhs = ctx.saved_tensors
        size, straight = weight.shape[2], weight.to(states.dtype).contiguous()
        gradients, apart = _by_model(gates, states.dtype), states.dtype != gates.dtype
        gradient = torch.empty_like(gates[0])
        to_hidden, to_cell = torch.zeros_like(cells[0]), cell_gradient.clone()
        for t in reversed(range(len(gates))):
            to_hidden = states_gradient[t] + to_hidden
            tanh = tanhs[t]
            i, f, g, o = gates[t].split(size, -1)
            to_i, to_f, to_g, to_o = (gradient if apart else gradients[t]).split(size, -1)
            _sigmoid_backward(to_hidden * tanh, o, to_o)
            to_cell += _tanh_backward(to_hidden.mul_(o), tanh)
            _sigmoid_backward(to_cell * g, i, to_i)
            _sigmoid_backward(to_cell * cells[t], f, to_f)
            _tanh_backward(to_cell * i, g, to_g)
            to_cell *= f
            if apart:
                gradients[t] = gradient
            to_hidden = gradients[t] @ straight
        to_table = _summed_by_id(gradients, ids, ctx.vocabulary).to(weight.dtype)
        to_weight = _outer(gradients, states[:-1]).to(weight.dtype)
        return to_table, None, to_weight, to_hidden.to(weight.dtype), to_cell, None


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Any, ids: Any, weight: Any, bias: Any, hidden: Any, precision: Any) -> Any:
        models, batch, size = hidden.shape
        # tanh(n) = 2 sigmoid(2 n) - 1: n's weights and biases are doubled, as `_tanh_` halves its argument
        doubled = torch.ones(3 * size, device=table.device, dtype=table.dtype)
        doubled[2 * size :] = 2
        rows, flat = _rows(ids, table.shape[1]), (table * doubled).flatten(0, 1)
        turned = (weight * doubled[:, None]).mT.to(precision).contiguous()
        bias = 2 * bias[:, None]
        n = len(rows)
        gates = table.new_empty(n, models, batch, 3 * size)
        states, before = table.new_empty(n + 1, *hidden.shape), table.new_empty(n, *hidden.shape)
        short = states if precision == table.dtype else states.new_empty(states.shape, dtype=precision)
        states[0], short[0] = hidden, hidden
        for t in range(n):
            gate = gates[t]
            torch.index_select(flat, 0, rows[t], out=gate.view(models * batch, -1))
            product = short[t] @ turned
            torch.add(bias, product[..., 2 * size :], out=before[t])
            gate[..., : 2 * size] += product[..., : 2 * size]
            gate[..., : 2 * size].sigmoid_()
            r, z, new = gate.split(size, -1)
            _tanh_(new.addcmul_(r, before[t]))
            torch.lerp(new, states[t], z, out=states[t + 1])
            if short is not states:
                short[t + 1] = states[t + 1]
        ctx.save_for_backward(ids, weight, gates, states, short, before)
        ctx.vocabulary = table.shape[1]
        return short[1:]

    @staticmethod
    def backward(ctx: Any, states_gradient: Any) -> Any:
        ids, weight, gates, states, short, before = ctx.saved_tensors
        size, straight = weight.shape[2], weight.to(short.dtype).contiguous()
        inner = _by_model(gates, short.dtype)  # gradients of W h + b; the table's differ in the part of n
        news = torch.empty_like(before, dtype=short.dtype)
        gradient, to_hidden = torch.empty_like(gates[0]), torch.zeros_like(before[0])
        to_r, to_z, to_before = gradient.split(size, -1)
        for t in reversed(range(len(gates))):
            to_hidden = states_gradient[t] + to_hidden
            r, z, new = gates[t].split(size, -1)
            _sigmoid_backward(to_hidden * (states[t] - new), z, to_z)
            through = to_hidden * z
            to_new = _tanh_backward(to_hidden - through, new)
            _sigmoid_backward(to_new * before[t] * 0.5, r, to_r)
            torch.mul(to_new, r, out=to_before)
            news[t], inner[t] = to_new, gradient
            to_hidden = through + inner[t] @ straight
        to_weight = _outer(inner, short[:-1]).to(weight.dtype)
        to_bias = inner[..., 2 * size :].sum((0, 2), dtype=weight.dtype)
        inner[..., 2 * size :] = news
        to_table = _summed_by_id(inner, ids, ctx.vocabulary).to(weight.dtype)
        return to_table, None, to_weight, to_bias, to_hidden, None


def _sigmoid_backward(gradient: Tensor, value: Tensor, out: Tensor) -> Tensor:
    return torch.ops.aten.sigmoid_backward(gradient, value, grad_input=out)


def _tanh_backward(gradient: Tensor, value: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        return torch.ops.aten.tanh_backward(gradient, value)
    return torch.ops.aten.tanh_backward(gradient, value, grad_input=out)
