"""A GPU that is only pretended: `pretend:0` computes on the processor, and refuses what GPUs refuse.

A tensor of the device holds one of the processor's. What mixes devices, reads a tensor in NumPy, draws by the
processor's generator, or multiplies whole numbers raises what CUDA would, and a number in double precision
what Apple's GPU would; what makes the processor wait for a GPU is counted in `waits`, by kind and line of the
project. Nothing is said of kernels, precision, memory and speed. It stands on torch's private back end for
Python, and stays for good: give it a process of its own.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._decomp import decompositions
from torch.utils import _pytree as trees
from torch.utils import backend_registration

HOUSE = str(Path(__file__).parents[1] / "attnlib")
NAME = "pretend"
aten = torch.ops.aten

waits: Counter[tuple[str, str]] = Counter()
"""(kind, line of the project) -> how often the processor had to wait."""

SIZE_UNKNOWN = {"nonzero", "masked_select", "_unique2", "unique_dim", "bincount", "repeat_interleave"}
READ = {"_local_scalar_dense", "equal"}
COPIES = {"copy_", "_to_copy"}
BY_INDEX = {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"}
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "addmm_", "baddbmm_"}


class OnDevice(Tensor):
    """A tensor of the device; `held` is where its numbers are."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> OnDevice:
        """The tensor that holds another."""
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        made = Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, device=f"{NAME}:0", **layout)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """One operation."""
        return operation(func, args, kwargs or {})

    def __repr__(self, **_: Any) -> str:
        """The numbers, and where they are."""
        return f"OnDevice({self.held})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Another tensor of the device, a parameter if this is one."""
        copied: Any = OnDevice(self.held.clone())
        copied = nn.Parameter(copied) if isinstance(self, nn.Parameter) else copied
        return memo.setdefault(id(self), copied.requires_grad_(self.requires_grad))

    def tolist(self) -> Any:
        """The numbers, waited for."""
        return self.cpu().tolist()

    def numpy(self, **_: Any) -> Any:
        """What CUDA refuses."""
        raise TypeError(f"can't convert cuda:0 device type tensor to numpy, at {line()}")


def line() -> str:
    """The innermost line of the project that is running."""
    frame: Any = sys._getframe(1)
    while frame and not frame.f_code.co_filename.startswith(HOUSE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename.removeprefix(HOUSE)}:{frame.f_lineno}" if frame else "elsewhere"


def operation(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute an operation on what its tensors hold, if CUDA would, and count what it waits for."""
    name = func._schema.name.removeprefix("aten::")
    leaves, tree = trees.tree_flatten((args, kwargs))
    ours = {id(each.held): each for each in leaves if isinstance(each, OnDevice)}
    device = kwargs.get("device")
    there = bool(ours) if device is None else torch.device(device).type == NAME
    if name in COPIES:
        there = _copy(name, args, kwargs, there)
    elif name in BY_INDEX and ours:
        _by_index(args)
    elif ours and any(
        not isinstance(each, OnDevice) and each.dim() for each in leaves if isinstance(each, Tensor)
    ):
        raise RuntimeError(f"Expected all tensors to be on the same device (aten::{name}), at {line()}")
    if name in PRODUCTS and ours and not any(each.is_floating_point() for each in ours.values()):
        raise NotImplementedError(f"aten::{name} is not implemented for whole numbers on CUDA, at {line()}")
    if there and any(isinstance(each, torch.Generator) and each.device.type != NAME for each in leaves):
        raise RuntimeError(f"Expected a 'cuda' device type for generator (aten::{name}), at {line()}")
    if name in SIZE_UNKNOWN | READ:
        waits["read" if name in READ else "size", line()] += 1
    args, kwargs = trees.tree_unflatten([_inside(each) for each in leaves], tree)
    if "pin_memory" in kwargs:
        kwargs["pin_memory"] = False
    made = func(*args, **kwargs)
    doubles = [
        each for each in trees.tree_leaves(made) if isinstance(each, Tensor) and each.dtype == torch.float64
    ]
    if there and doubles:
        raise TypeError(f"Cannot convert a MPS Tensor to float64 (aten::{name}), at {line()}")
    return trees.tree_map_only(
        Tensor, lambda t: ours[id(t)] if id(t) in ours else OnDevice(t) if there else t, made
    )


def _inside(leaf: Any) -> Any:
    if isinstance(leaf, torch.device):
        return torch.device("cpu")
    return leaf.held if isinstance(leaf, OnDevice) else leaf


def _copy(name: str, args: Any, kwargs: dict[str, Any], there: bool) -> bool:
    """Whether a copy ends on the device; counted if it is waited for."""
    source = args[1] if name == "copy_" else args[0]
    there = isinstance(args[0], OnDevice) if name == "copy_" else there
    queued = kwargs.get("non_blocking") or (name == "copy_" and args[2:] == (True,))
    queued = queued and (hasattr(source, "pinned") or not there)
    if isinstance(source, OnDevice) is not there and source.numel() and not queued:
        waits["copy", line()] += 1
    return there


def _by_index(args: Any) -> None:
    """What indices cost: those on the processor are copied, and a mask's size has to be known."""
    if not isinstance(args[0], OnDevice):
        raise RuntimeError(f"indices should be on the device of what they index, at {line()}")
    if any(isinstance(each, Tensor) and not isinstance(each, OnDevice) and each.dim() for each in args[2:3]):
        raise RuntimeError(f"Expected all tensors to be on the same device (values), at {line()}")
    for index in trees.tree_leaves(args[1]):
        if isinstance(index, Tensor) and index.numel():
            kind = "size" if index.dtype is torch.bool else "copy"
            waits[kind, line()] += kind == "size" or not isinstance(index, OnDevice)


def _pinned(tensor: Tensor, *_: Any) -> Tensor:
    tensor = tensor.clone()
    tensor.pinned = True  # type: ignore[attr-defined]
    return tensor


def _to(module: nn.Module, *args: Any, _own: Callable = nn.Module.to, **kwargs: Any) -> nn.Module:
    """`Module.to`, after which tied weights are still one: on CUDA they are changed in place."""
    tables = [each._parameters for each in module.modules()]
    before = [(table, name, id(weight)) for table in tables for name, weight in table.items()]
    _own(module, *args, **kwargs)
    after: dict[int, Any] = {}
    for table, name, was in before:
        table[name] = after.setdefault(was, table[name])
    return module


class _Untrained(torch.autograd.Function):
    """The identity, and cuDNN's refusal on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        raise RuntimeError("cudnn RNN backward can only be called in training mode")


def _recurrent(steps: Callable[..., Any]) -> Callable[..., Any]:
    """A recurrent layer, step by step."""

    def layer(*args: Any) -> Any:
        states, *last = steps(*args)
        refused = torch.backends.cudnn.enabled and not args[6] and states.requires_grad
        return (_Untrained.apply(states) if refused else states, *last)

    return layer


def _install() -> torch.library.Library:
    """Make torch know the device."""
    module = backend_registration._DummyBackendModule()  # type: ignore[attr-defined]
    module.get_amp_supported_dtype = lambda: [torch.bfloat16]
    module.get_rng_state = lambda _: torch.get_rng_state()  # one stream of random numbers, the processor's
    module.set_rng_state = lambda state, _: torch.set_rng_state(state)
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=module)
    torch.autograd.set_multithreading_enabled(False)  # so that `line` sees who asked for gradients
    library = torch.library.Library("aten", "IMPL")
    for full in torch._C._dispatch_get_all_op_names():  # those that have no tensor to know the device by
        name, _, overload = full.removeprefix("aten::").partition(".")
        if full.startswith("aten::") and not any(
            part in name for part in ("sparse", "quantized", "cudnn", "dep_t")
        ):
            one = getattr(getattr(aten, name), overload or "default")
            kinds = {argument.name: str(argument.type) for argument in one._schema.arguments}
            if "device" in kinds and not any("Tensor" in kind for kind in kinds.values()):
                library.impl(
                    full.removeprefix("aten::"),
                    lambda *a, _one=one, **k: operation(_one, a, k),
                    "PrivateUse1",
                )
    library.impl("_copy_from", lambda x, to, *_: operation(aten.copy_.default, (to, x), {}), "PrivateUse1")
    for name in ("lstm", "gru"):
        library.impl(
            f"{name}.input", _recurrent(getattr(decompositions, f"{name}_impl")), "AutogradPrivateUse1"
        )
    nn.Module.to, Tensor.pin_memory = _to, _pinned  # type: ignore[method-assign,assignment]
    torch.accelerator.synchronize = lambda *_: waits.update([("copy", line())])  # type: ignore[assignment]
    return library


_installed = _install()
