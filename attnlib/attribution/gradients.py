r"""Measures that ask in which direction the prediction moves when the input does.

With `e_k` the input embedding of token `k` and `s` the prediction's score (`attnlib.attribution.prompts`):

    gradient x embedding    e_k . d s / d e_k

the first-order estimate of how much `s` would fall if `e_k` went to zero, for one forward and one backward
pass.

References:
    Shrikumar et al. 2016, *Not just a black box*: gradient x input. Denil et al. 2014, *Extraction of salient
    sentences from labelled documents*: for words.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlib.attribution.prompts import Prompts, measure
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of
from attnlib.models.transformer import Transformer


@measure
@torch.inference_mode(False)  # where nothing could be differentiated
def gradient_x_embedding(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """Gradient x embedding, in nats; positive for tokens that speak for the target.

    Raises:
        ValueError: the model has no embedding of its input tokens, or predicts none.
    """
    embedded, thread = list[Tensor](), get_ident()

    def leaf(module: nn.Module, given: Any, output: Tensor) -> Tensor:
        if get_ident() != thread:  # who else uses the model meanwhile
            return output
        embedded.append(output.detach().requires_grad_())
        return embedded[-1]

    handle = _embedding(model).register_forward_hook(leaf)
    try:
        with torch.enable_grad(), evaluating(model):
            logits = logits_of(model, prompts.ids.clone(), start=prompts.query)[:, 0]
            score = prompts.aimed(logits.detach()).score(logits).sum()
            (gradient,) = torch.autograd.grad(score, embedded[:1])
    finally:
        handle.remove()
    dtype = torch.promote_types(gradient.dtype, torch.float32)
    return (gradient.to(dtype) * embedded[0].detach()).sum(-1)


def _embedding(model: Any) -> nn.Module:
    if isinstance(model, Transformer):
        return model.embedding
    try:
        found = model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        found = None
    if not isinstance(found, nn.Module):
        raise ValueError(f"{type(model).__name__} has no embedding of its input tokens to differentiate by.")
    return found
