r"""Passes of a model that are differentiated by the rules of `attnlib.attribution.lrp`.

Operations are recognised while they are computed, by their arithmetic and not by the names of modules: a
divisor that depends on the tokens is a norm's deviation, and where two factors depend on the tokens, one of
them is a gate. So a model may write them as modules, as functions, or as one projection that it splits.

A module that multiplies each channel by a factor of its own (an RMSNorm, or an activation of several steps)
counts as one operation, whatever it is made of. Such modules are recognised by calling them on a test vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode

from attnlib.attribution.stream import Hook, hooked
from attnlib.undoing import scope, undone

PRODUCTS = {"mul", "multiply", "mul_", "__imul__"}
QUOTIENTS = {"div", "true_divide", "divide", "div_", "__itruediv__"}

IN_PROPORTION = {
    "relu",
    "relu_",
    "leaky_relu",
    "relu6",
    "gelu",
    "silu",
    "tanh",
    "elu",
    "selu",
    "celu",
    "mish",
}
IN_PROPORTION |= {"hardswish", "hardtanh", "softsign", "square", "rms_norm", "normalize"}
"""Functions with `f(0) = 0` that are treated as `y = c x`, with `c` a constant; so are positive powers."""

CONSTANT = {"rsqrt", "reciprocal", "__rdiv__", "__rtruediv__", "sigmoid", "topk"}
"""Functions whose result is treated as a constant factor: a deviation, an open gate, the weight of an
expert; so are all powers that are not positive numbers."""

ADDED: dict[str, tuple[int, ...]] = dict.fromkeys(
    ("add", "add_", "__iadd__", "sub", "sub_", "__isub__", "rsub", "__rsub__"), (0, 1)
)
ADDED |= {"addmm": (0,), "baddbmm": (0,), "linear": (2,), "conv1d": (2,), "layer_norm": (3,)}
"""The positions of those inputs of an operation that are added to its result, such as a bias."""


@scope
def linearised(model: nn.Module, constants: list[Tensor] | None = None) -> Iterator[None]:
    """Differentiate this thread's passes of the model by the LRP rules, inside a `with` block.

    The list `constants` is filled with all summands that do not depend on the tokens, such as biases.
    """
    hooks = [Hook(module, _as_one) for module in model.modules() if not any(module.children())]
    operations = _Operations(constants)
    with hooked(hooks), undone(partial(_end, operations)):
        _push_mode(operations)  # as `with operations` does; an interrupt here is undone, too
        yield


def _end(mode: TorchFunctionMode) -> None:
    while mode in _get_current_function_mode_stack():
        _pop_mode()


class _Operations(TorchFunctionMode):
    """The function mode that applies the rules to single operations."""

    def __init__(self, constants: list[Tensor] | None) -> None:
        super().__init__()
        self.constants, self._known = constants, dict[Any, bool]()

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name, given, named = getattr(function, "__name__", ""), [*args], {**(kwargs or {})}
        if not given and "input" in named:
            given = [named.pop("input")]
        if name in PRODUCTS | QUOTIENTS and len(given) == 1 and "other" in named:
            given.append(named.pop("other"))
        if self.constants is not None and name in ADDED:
            self._keep_added(name, given, named)
        if name in PRODUCTS and all(map(self.depends, given[:2])):
            x = given[0].clone() if name.endswith("_") else given[0]
            product = torch.mul(scaled(x, 1 / 2), scaled(given[1], 1 / 2))
            return given[0].copy_(product) if name.endswith("_") else product
        if name in QUOTIENTS and len(given) > 1 and self.depends(given[1]):
            given[1] = given[1].detach()
        elif name == "layer_norm" and self.depends(given[0]):
            return _layer_norm(*given, **named)
        elif name == "pow":
            power = named.get("exponent", given[-1])
            name = "square" if isinstance(power, int | float) and power > 0 else "rsqrt"
        result = function(*given, **named)
        if name in IN_PROPORTION and self.depends(given[0]):
            return InProportion.apply(given[0], result.detach())
        if name == "topk":
            return type(result)((result[0].detach(), result[1]))
        return result.detach() if name in CONSTANT else result

    def depends(self, x: Any) -> bool:
        """Whether `x` depends on the tokens: whether gradients flow from it to more than parameters."""
        if not isinstance(x, Tensor) or not x.requires_grad:
            return False
        if x.grad_fn is None:
            return not isinstance(x, nn.Parameter)
        known, left = self._known, [x.grad_fn]
        while left:
            node = left[-1]
            if hasattr(node, "variable"):
                known[node] = not isinstance(node.variable, nn.Parameter)
            if node not in known:
                below = [each for each, _ in node.next_functions if each is not None]
                unknown = [each for each in below if each not in known]
                if unknown and not any(map(known.get, below)):
                    left += unknown
                    continue
                known[node] = any(map(known.get, below))
            left.pop()
        return known[x.grad_fn]

    def _keep_added(self, name: str, given: list[Any], named: dict[str, Any]) -> None:
        """In a sum that depends on tokens, replace each summand that does not by a leaf in `constants`."""
        assert self.constants is not None
        made = [x for x in (*given, *named.values()) if self.depends(x)]
        places: list[tuple[Any, Any]] = [(given, at) for at in ADDED[name] if at < len(given)]
        for inputs, at in [*places, (named, "bias")] if made else ():
            in_place = at == 0 and (name.endswith("_") and not name.startswith("__r"))
            added = inputs[at] if at != "bias" else inputs.get(at)
            if added is None or in_place or self.depends(added):
                continue
            if not isinstance(added, Tensor):
                added = torch.tensor(added, dtype=made[0].dtype, device=made[0].device)
            if added.is_floating_point():
                inputs[at] = added.detach().clone().requires_grad_()
                self.constants.append(inputs[at])


def scaled(x: Tensor, share: float) -> Tensor:
    """`x`, to which only the given share of the result's gradient flows back."""
    if x.requires_grad:
        x = x.view_as(x)  # other uses of `x` keep their whole gradient
        x.register_hook(lambda gradient: None if gradient is None else share * gradient)
    return x


class InProportion(Function):
    """`y`, differentiated as a constant times `x`, element by element."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        """`y`."""
        ctx.save_for_backward((y / x).nan_to_num_())  # 0 / 0 becomes 0: an input of 0 has no relevance
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[Tensor, None]:
        """The gradient to `x`."""
        return gradient[0] * ctx.saved_tensors[0], None


class _LayerNorm(Function):
    """`y = w (x - mean x) / c + b`, with `c` a constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Tensor:
        y, _, inverse = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.save_for_backward(inverse if weight is None else inverse * weight.detach())
        ctx.width = len(shape)
        return y

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[Tensor | None, ...]:
        over = tuple(range(-ctx.width, 0))
        x = gradient[0] * ctx.saved_tensors[0]
        bias = gradient[0].flatten(0, -1 - ctx.width).sum(0) if ctx.needs_input_grad[3] else None
        return x - x.mean(over, keepdim=True), None, None, bias, None


def _layer_norm(
    x: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: bool,
) -> Tensor:
    if bias is not None and isinstance(bias, nn.Parameter):
        bias = bias.detach()
    return _LayerNorm.apply(x, normalized_shape, weight, bias, eps)


_kinds: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
"""Whether a module multiplies each channel by a factor of its own, for each module met so far."""


def _as_one(module: nn.Module, given: tuple[Any, ...], output: Any) -> Tensor | None:
    """A module's hook: its output as a multiple of its input, if it multiplies each channel by a factor."""
    tensors = [x for x in (*given, output) if isinstance(x, Tensor) and x.is_floating_point()]
    if len(given) != 1 or len(tensors) != 2 or given[0].shape != output.shape:
        return None
    if module not in _kinds:
        _kinds[module] = _multiplies_channels(module, given[0])
    return InProportion.apply(given[0], output.detach()) if _kinds[module] else None


@torch.no_grad()
def _multiplies_channels(module: nn.Module, like: Tensor) -> bool:
    """Whether a module is an RMSNorm, or an activation made of several steps; linear maps are neither."""
    width = like.shape[-1]
    x = torch.linspace(-7, 9, width, dtype=like.dtype, device=like.device).view(*[1] * (like.ndim - 1), width)

    def same(given: Tensor, expected: Tensor) -> bool:
        found = module.forward(given)
        return found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-2, atol=1e-2)

    try:
        y = module.forward(x)
        if not same(0 * x, 0 * x):
            return False
        if same(-x, -y) and (same(2 * x, y) or same(2 * x, 2 * y)):
            return same(2 * x, y) and not same(x + 4, y)  # a norm that takes no mean off
        other, y[..., 0] = x.clone(), 0
        other[..., 0] = 0
        return same(other, y)  # one channel at a time
    except (RuntimeError, TypeError, ValueError):
        return False
