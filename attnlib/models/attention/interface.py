"""Interception of a model's attention function, for Hugging Face models and our own `Transformer`.

Hugging Face models look up their attention function by name (`AttentionInterface`) at every call; our own
`Transformer` has an attribute `attend` in each layer. While a block of `changing` or `watching` is open,
these names and attributes lead to functions of this module; nothing else about the model changes. A context
variable holds the open blocks, so blocks may be nested and open in several threads at once. Calls of other
models, and calls in threads without an open block, are passed on to the original function. (A new thread
starts without open blocks. To share the present ones, run it in a copy of the context,
`contextvars.copy_context`.)

Changes act in the order in which their blocks were entered. Observers see the attention after all changes.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from operator import index
from typing import Any

from torch import Tensor, nn

from attnlib.generators.base import Head
from attnlib.models.attention.call import AttentionCall, Change, Observer
from attnlib.models.attention.kernels import EagerCall, NamedCall, OwnCall, SdpaCall
from attnlib.models.base import Shared, Ways, evaluating
from attnlib.models.transformer import Attention, Transformer
from attnlib.undoing import scope, undone


@dataclass(eq=False)
class Block:
    """The effects of an open `with` block. Modules that call attention are identified by their `id`.

    Attributes:
        changes: for each calling module, the change of its attention.
        observers: the observers of calls.
        watched: the modules whose calls the observers see.
        gradients: whether the observers' computations are to be differentiated.
        instead: for each calling module, the function that computes attention instead; its first argument is
            the original function. Observers and changes do not apply to these calls.
    """

    changes: Mapping[int, Change] = field(default_factory=dict)
    observers: Sequence[Observer] = ()
    watched: frozenset[int] = frozenset()
    gradients: bool = False
    instead: Mapping[int, Callable[..., tuple[Tensor, Tensor | None]]] = field(default_factory=dict)


_open: ContextVar[tuple[Block, ...]] = ContextVar("_open", default=())
_led_here = Shared()
"""The names and layers that lead here at present, with the functions that restore the originals."""


@scope
def changing(model: nn.Module, changes: Mapping[int, Change]) -> Iterator[None]:
    """Change the attention that `model` computes in this context, and thereby its outputs.

    Args:
        model: a Hugging Face model with one self-attention per layer that uses the attention interface, or
            our own `Transformer`; in any mode, with or without gradients.
        changes: for each layer to change, counted from 0, its change.

    Raises:
        ValueError: the model is of another kind, or has no such layer.
    """
    modules = attention_modules(model)
    if beyond := [layer for layer in changes if not 0 <= layer < len(modules)]:
        raise ValueError(f"changes must be of layers from 0 to {len(modules) - 1}; got {beyond}")
    with _opened(model, Block({id(modules[layer]): change for layer, change in changes.items()})):
        yield


@scope
def watching(model: nn.Module, *observers: Observer, gradients: bool = False) -> Iterator[None]:
    """Show every attention call that `model` makes in this context to `observers`.

    The model is in evaluation mode meanwhile, so that dropout does not alter the attention at random.

    Raises:
        ValueError: the model is neither a Hugging Face model that uses the attention interface, nor ours.
    """
    block = Block({}, observers, frozenset(map(id, followed(model).modules())), gradients)
    with evaluating(model), _opened(model, block):
        yield


@scope
def every_call(model: nn.Module, change: Change) -> Iterator[None]:
    """Apply one change to every attention call of `model` in this context, in evaluation mode."""
    with evaluating(model), _opened(model, Block(dict.fromkeys(map(id, followed(model).modules()), change))):
        yield


@scope
def alone() -> Iterator[None]:
    """Suspend all open blocks of this context inside a `with` block."""
    with undone(partial(_open.set, _open.get())):
        _open.set(())
        yield


def followed(model: nn.Module) -> nn.Module:
    """The part of a model whose attention is followed: for a multimodal model, its language model."""
    config: Any = getattr(model, "config", None)
    decoder = getattr(model, "get_decoder", None)
    if decoder is None or not hasattr(config, "get_text_config") or config.get_text_config() is config:
        return model
    return decoder()


@scope
def replacing(model: Transformer, function: Callable[..., tuple[Tensor, Tensor | None]]) -> Iterator[None]:
    """Compute the attention of every layer of our own `Transformer` by another function in this context.

    Args:
        model: the model.
        function: its first argument is the original function; the others are those of the original.

    Raises:
        ValueError: a block that is open in this context watches or changes the model's attention.
    """
    modules = set(map(id, attention_modules(model)))
    if any(modules & (block.changes.keys() | block.watched | block.instead.keys()) for block in _open.get()):
        raise ValueError(
            f"the attention of this {type(model).__name__} is watched or changed by an open block of "
            "attnlib.models.attention, and cannot be replaced there: call the model itself"
        )
    with _opened(model, Block(instead=dict.fromkeys(modules, function))):
        yield


def attention_modules(model: nn.Module) -> list[nn.Module]:
    """The modules that compute attention, one per layer, first to last."""
    if isinstance(model, Transformer):
        return [layer.attention for layer in model.layers]  # type: ignore[misc]
    modules = [m for m in followed(model).modules() if isinstance(getattr(m, "layer_idx", None), int)]
    modules = [m for m in modules if "Attention" in type(m).__name__]
    if not implementations(model) or len({m.layer_idx for m in modules}) != len(modules) or not modules:
        raise ValueError(
            f"{type(model).__name__} is neither an attnlib Transformer nor a Hugging Face decoder with one "
            "self-attention per layer: its attention cannot be changed from outside"
        )
    return sorted(modules, key=lambda m: m.layer_idx)  # type: ignore[arg-type, return-value]


def heads_by_layer(model: nn.Module, heads: Sequence[Head] | None) -> dict[int, list[int]]:
    """The chosen heads of every layer that has any; all heads for None. Wrong heads raise a `ValueError`."""
    modules: list[Any] = attention_modules(model)
    sizes = [m.n_heads if isinstance(m, Attention) else m.config.num_attention_heads for m in modules]
    if heads is None:
        return {layer: list(range(size)) for layer, size in enumerate(sizes)}
    try:
        pairs = [(index(layer), index(head)) for layer, head in heads]
    except (TypeError, ValueError):
        raise ValueError(f"heads must be pairs (layer, head), such as [(0, 1)]; got {heads!r}") from None
    chosen: dict[int, list[int]] = {}
    for layer, head in pairs:
        if not (0 <= layer < len(sizes) and 0 <= head < sizes[layer]):
            raise ValueError(
                f"there is no head L{layer}H{head}; the model has {len(sizes)} layers of {sizes[0]} heads"
            )
        chosen.setdefault(layer, []).append(head)
    return chosen


def implementations(model: nn.Module) -> set[str]:
    """The names by which a model, and every model inside it, looks up its attention function."""
    configs: list[Any] = [getattr(module, "config", None) for module in model.modules()]
    return {c._attn_implementation or "eager" for c in configs if hasattr(c, "_attn_implementation")}


def changed_from_outside() -> bool:
    """Whether the attention of any model is changed in this context."""
    return any(block.changes for block in _open.get())


@scope
def _opened(model: nn.Module, block: Block) -> Iterator[None]:
    def closed() -> None:
        _open.set(tuple(other for other in _open.get() if other is not block))

    with _led_here.needed(_places(model), _lead_here), undone(closed):
        _open.set((*_open.get(), block))
        yield


def _places(model: nn.Module) -> list[Any]:
    """The layers, or all names, to redirect (all, because a model may switch to another name meanwhile)."""
    if isinstance(model, Transformer):
        return attention_modules(model)
    if not implementations(model):
        raise ValueError(
            f"{type(model).__name__} is neither a Hugging Face model nor an attnlib Transformer. Collect "
            "its attention weights and call rollout(attentions) on them."
        )
    return list(dict.fromkeys(["eager", *_registry()._global_mapping]))


def _registry() -> Any:
    """Hugging Face's table of attention functions; imported late, as importing it takes as long as torch."""
    from transformers import AttentionInterface

    return AttentionInterface


def _lead_here(place: Any) -> Ways:
    """The functions that redirect a layer or name to this module, and that restore the original."""
    if isinstance(place, Attention):
        own = place.attend
        return partial(setattr, place, "attend", _Led(_own, own, place)), partial(
            setattr, place, "attend", own
        )
    functions = _registry()._global_mapping  # there is no public way to take a name out again
    original = functions.get(place)
    do = partial(_registry().register, place, partial(_hugging_face, original, place))
    if original is None:
        return do, partial(functions.pop, place, None)
    return do, partial(_registry().register, place, original)


class _Led(partial):
    """The replacement of a layer's `attend`; copies and pickles of a model get the original function."""

    def __reduce__(self) -> Any:
        return copy.copy, self.args[:1]


def _of(module: nn.Module) -> tuple[list[Change], list[Observer], bool] | None:
    """Changes and observers of a module's call, and whether observers need gradients; None if neither."""
    blocks = _open.get()
    changes = [block.changes[id(module)] for block in blocks if id(module) in block.changes]
    seen = [block for block in blocks if id(module) in block.watched]
    observers = [observer for block in seen for observer in block.observers]
    return (changes, observers, any(block.gradients for block in seen)) if changes or observers else None


def _answer(call: AttentionCall, at_work: Any) -> tuple[Tensor, Tensor | None]:
    with alone():  # an original function may call another one of the interface, which must not be intercepted
        return call.answer(*at_work)


def _own(original: Callable, module: Attention, *given: Any, **how: Any) -> tuple[Tensor, Tensor | None]:
    """Compute a call of `attend` in our own `Transformer`, as the open blocks require."""
    for block in _open.get():
        if id(module) in block.instead:
            return block.instead[id(module)](original, *given, **how)
    if (at_work := _of(module)) is None:
        return original(*given, **how)
    return _answer(OwnCall(original, *given, **how), at_work)


def _hugging_face(
    original: Callable | None, name: str, module: nn.Module, *given: Any, **how: Any
) -> tuple[Tensor, Tensor | None]:
    """Compute a call of a function of Hugging Face's interface, as the open blocks require."""
    function = original or _eager_function(module)
    if (at_work := _of(module)) is None:
        return function(module, *given, **how)
    kind = {"eager": EagerCall, "sdpa": SdpaCall}.get(name, NamedCall)
    mixed, weights = _answer(kind(function, module, *given, **how), at_work)
    return mixed.transpose(1, 2), weights


def _eager_function(module: nn.Module) -> Callable:
    """The eager attention function in a module's source file; the interface has no entry for it."""
    function = inspect.unwrap(type(module).forward).__globals__.get("eager_attention_forward")
    if function is None:
        raise ValueError(
            f"{type(module).__name__} has an eager attention of its own that cannot be called from outside. "
            'Choose another with model.set_attn_implementation("sdpa").'
        )
    return function
