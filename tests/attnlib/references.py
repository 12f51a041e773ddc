"""What attnlib should say of a model, by other means.

Eager attention as the model returns it, plain passes with hooks, and passes in which single operations of
torch are changed, whoever calls them: nothing of attnlib but the definition of rollout.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnlib.rollout.core import rollout_by_definition, rows_of_generation
from tests.attnlib.architectures import VOCABULARY, built

LENGTH, PROMPT, NEW, LONG, QUERY = 9, 6, 3, 160, 8
"""Tokens of the prompts, of those that a text goes on after, and of long ones; where a prediction is made."""


class Subject:
    """A model that is asked, and what is asked of it.

    Attributes:
        model: with its own attention function.
        eager: the same model with eager attention.
        ids: two prompts of `LENGTH` tokens.
        other: two more.
        long: one of `LONG` tokens.
        pad: what stands where there is none.
    """

    def __init__(self, kind: str, model_type: str) -> None:
        self.kind, self.model_type = kind, model_type
        self.model = built(kind, model_type)
        self.eager = built(kind, model_type, attn_implementation="eager")
        pad = getattr(getattr(self.model, "config", None), "pad_token_id", None)
        self.pad = pad if isinstance(pad, int) and 0 <= pad < VOCABULARY else 0
        generator = torch.Generator().manual_seed(1)
        self.ids, self.other, self.long = (
            torch.randint(10, VOCABULARY, shape, generator=generator)
            for shape in ((2, LENGTH), (2, LENGTH), (1, LONG))
        )

    @property
    def one(self) -> Tensor:
        """The first prompt."""
        return self.ids[:1]

    def takes(self, name: str) -> bool:
        """Whether the model's forward names it."""
        return name in inspect.signature(self.model.forward).parameters

    def copies(self) -> Tensor:
        """The first prompt, once for each of its tokens."""
        return self.one.repeat(LENGTH, 1)

    @torch.no_grad()
    def logits(self, ids: Tensor, *, eager: bool = False, **inputs: Any) -> Tensor:
        """Plainly; of an encoder alone, what leaves its last layer."""
        found = self.called(self.eager if eager else self.model, ids, **inputs)
        return found.logits if hasattr(found, "logits") else found.last_hidden_state

    @torch.no_grad()
    def attentions(self, ids: Tensor, model: nn.Module | None = None, **inputs: Any) -> list[Tensor]:
        """Of every layer, `[batch head query key]`, as the eager model returns it."""
        given = self.called(model or self.eager, ids, output_attentions=True, **inputs).attentions
        return [each.double() for each in given]

    @staticmethod
    def called(model: nn.Module, ids: Tensor, **inputs: Any) -> Any:
        """What a model gives, without a cache."""
        if "use_cache" in inspect.signature(model.forward).parameters:
            inputs["use_cache"] = False
        return model(input_ids=ids, **inputs)

    @cached_property
    def rollout(self) -> Tensor:
        """Of the two prompts."""
        return rollout_by_definition(self.attentions(self.ids))[:, -1]

    @cached_property
    def target(self) -> int:
        """What the model would say at the query."""
        return int(self.logits(self.one)[0, QUERY].argmax())

    @cached_property
    def whole(self) -> Tensor:
        """The target's log-probability."""
        return self.score(self.logits(self.one))[0]

    def score(self, logits: Tensor) -> Tensor:
        """The target's log-probability, by logits of a pass."""
        return logits[:, QUERY].double().log_softmax(-1)[:, self.target]

    def falls(self, logits: Tensor) -> Tensor:
        """By how much it is less in passes in which something was done to a token each."""
        return self.whole - self.score(logits)

    def generated(self, forced: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The tokens that `generate` writes, and rollout of the attention that it returns, step by step.

        Args:
            forced: what it has to write.
        """
        how = {"attention_mask": torch.ones_like(self.one[:, :PROMPT]), "max_new_tokens": NEW}
        how |= {"do_sample": False, "output_attentions": True, "return_dict_in_generate": True}
        if forced is not None:
            how["prefix_allowed_tokens_fn"] = lambda _, ids: [int(forced[len(ids) - PROMPT])]
        result = self.eager.generate(self.one[:, :PROMPT], **how)
        n, layers = result.sequences.shape[1] - 1, list[Tensor]()
        for steps in zip(*result.attentions, strict=True):  # of a layer; with a window, the last keys only
            stops = range(PROMPT, n + 1)
            whole = [
                nn.functional.pad(step, (stop - step.shape[-1], n - stop))
                for step, stop in zip(steps, stops, strict=True)
            ]
            layers.append(torch.cat(whole, 2).double())
        return result.sequences[0, PROMPT:], rows_of_generation(rollout_by_definition(layers), PROMPT)

    def first_place(self) -> int:
        """The position of a first token: that by which the model says what it says without any."""
        plainly = self.logits(self.one)
        for first in range(4):
            places = first + torch.arange(LENGTH)[None]
            if torch.allclose(self.logits(self.one, position_ids=places), plainly, atol=1e-4):
                return first
        raise LookupError(f"{self.model_type} has positions of its own")

    def layers(self) -> nn.ModuleList:
        """The list of layers of the part that reads text."""
        config = self.model.config
        part = self.model if config.get_text_config() is config else self.model.get_decoder()
        count = config.get_text_config().num_hidden_layers
        return next(each for each in part.modules() if isinstance(each, nn.ModuleList) and len(each) == count)

    @torch.no_grad()
    def without_constants(self) -> Subject:
        """Another, with 0 for what no token brings: biases, and embeddings of positions and segments."""
        other = copy.deepcopy(self)
        for known in ("target", "whole", "rollout"):
            vars(other).pop(known, None)
        for model in (other.model, other.eager):
            for name, weight in model.named_parameters():
                last = name.rsplit(".", 1)[-1]
                if "bias" in last or any(part in name for part in ("position", "token_type", "wpe")):
                    weight.zero_()
        return other


class SoftmaxChanged(TorchFunctionMode):
    """Inside the block, scores of attention are changed before any softmax of them, whoever calls it.

    Args:
        change: of scores `[batch head query key]`; models with learned sinks have one more key.
    """

    NAMES = frozenset(
        {torch.softmax, Tensor.softmax, nn.functional.softmax, torch.logsumexp, Tensor.logsumexp}
    )

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change, self.calls = change, 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in self.NAMES and args[0].ndim == 4 and args[0].shape[-2] == LENGTH:
            self.calls += 1
            args = (self.change(args[0]), *args[1:])
        return function(*args, **(kwargs or {}))


class Linear(TorchFunctionMode):
    """Inside the block, gradients are those of LRP's rules with attention held constant, found by operation.

    An activation is its input times a constant, a norm is its input over a constant deviation, of a product
    of two that both depend on the input each has half; softmax of attention, sigmoids and the weights of
    chosen experts are constants.
    """

    CONSTANT = frozenset(
        {torch.rsqrt, Tensor.rsqrt, torch.sqrt, Tensor.sqrt}
        | {torch.sigmoid, Tensor.sigmoid, nn.functional.sigmoid}
    )
    PROPORTIONAL = frozenset(
        {nn.functional.gelu, nn.functional.silu, nn.functional.relu, torch.relu, Tensor.relu, torch.tanh}
        | {Tensor.tanh, nn.functional.tanh}
    )
    PRODUCTS = frozenset({torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__})

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inside = False
        for module in model.modules():
            if type(module).__module__ == "transformers.activations":  # some are made of several operations
                module.register_forward_pre_hook(self._begin)
                module.register_forward_hook(self._end)

    def _begin(self, module: Any, given: Any) -> None:
        self.inside = True

    def _end(self, module: Any, given: Any, output: Tensor) -> Tensor:
        found = given[0] * (output / given[0]).detach().nan_to_num()
        self.inside = False
        return found

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.inside:
            return function(*args, **kwargs)
        if function is nn.functional.layer_norm:
            return self._layer_norm(*args, **kwargs)
        found = function(*args, **kwargs)
        if function in (torch.topk, Tensor.topk):
            return type(found)((found[0].detach(), found[1]))
        if function in (torch.pow, Tensor.pow) and args[1] < 0:
            return found.detach()
        if function in self.CONSTANT or (function in SoftmaxChanged.NAMES and args[0].ndim == 4):
            return found.detach()
        if function in self.PROPORTIONAL:
            return args[0] * (found / args[0]).detach().nan_to_num()
        if function in self.PRODUCTS and all(isinstance(x, Tensor) and x.requires_grad for x in args):
            return (args[0].detach() * args[1] + args[0] * args[1].detach()) / 2
        return found

    @staticmethod
    def _layer_norm(x: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
        found = x - x.mean(-1, keepdim=True)
        found = found / (x.var(-1, correction=0, keepdim=True) + eps).sqrt().detach()
        found = found if weight is None else found * weight
        return found if bias is None else found + bias
