"""The outputs of any PyTorch module: logits and, if the module can return them, attentions.

The attention of Hugging Face models and of our own is read inside the model, on any attention kernel. For
other modules, only the output is known.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.generators.base import Batch
from attnlib.models.attention import evaluating
from attnlib.models.causal import reads_ahead
from attnlib.models.devices import device_of
from attnlib.models.transformer import Transformer
from attnlib.rollout.dense import rollout as rollout_of_attentions
from attnlib.rollout.value_slot import OnLayer, Pass
from attnlib.training.objectives import stacked_attentions


def is_followed(model: nn.Module) -> bool:
    """Whether attention is read inside the model: whether it is our `Transformer` or a Hugging Face model."""
    return isinstance(model, Transformer) or hasattr(getattr(model, "config", None), "_attn_implementation")


def returned(model: nn.Module, batch: Batch, *, attentions: bool = False) -> Any:
    """The output of a module in evaluation mode, with attentions if wanted and if it can return them."""
    known = inspect.signature(model.forward).parameters.values()
    asked = attentions and any(
        each.name == "output_attentions" or each.kind == each.VAR_KEYWORD for each in known
    )
    wanted = {"output_attentions": True} if asked else {}
    with evaluating(model):
        return model(**batch.inputs, **wanted)


def in_turn(model: nn.Module, batches: Iterable[Batch]) -> Iterator[tuple[Batch, int]]:
    """Every batch on the model's device, and how many samples came before it."""
    device, before = device_of(model), 0
    for batch in batches:
        yield batch if device is None else batch.to(device), before
        before += len(batch)


@torch.no_grad()
def follow_returned(
    model: nn.Module, batch: Batch, *, on_layer: OnLayer, rollout: bool, logits_from: int
) -> Pass:
    """The same as `follow_layers`, computed from the attentions that a module returns."""
    output = returned(model, batch, attentions=True)
    attentions = stacked_attentions(output)
    for layer, mean in enumerate(attentions.mean(2).unbind(1)):
        on_layer(layer, mean)
    rolled = rollout_of_attentions(attentions) if rollout else None
    return Pass(output.logits[:, logits_from:], rolled, attentions.shape[1])


@torch.no_grad()
def check_reads_no_answer(model: nn.Module, batch: Batch) -> None:
    """Raise a `ValueError` if logits before the last token of the first sample depend on that token."""
    ids: Tensor = batch.input_ids[:1, batch.attention_mask[0]]
    if reads_ahead(lambda given: returned(model, Batch(given, given, given == given)).logits, ids):
        raise ValueError(
            f"{type(model).__name__} is not causal: what it says at a token depends on the tokens after it, "
            "so it reads the answer that it should predict"
        )
