r"""Measures that ask in which direction the prediction moves when the input does.

With `e_k` the input embedding of token `k` and `s` the prediction's score (`attnlib.attribution.prompts`):

    gradient x embedding    e_k . d s / d e_k
    gradient norm           || d s / d e_k ||_2

The first is the first-order estimate of how much `s` would fall if `e_k` went to zero; the second is how fast
`s` can be moved at `k`, in whatever direction. One forward and one backward pass each.

References:
    Shrikumar et al. 2016, *Not just a black box*: gradient x input. Denil et al. 2014, *Extraction of salient
    sentences from labelled documents*: for words. Simonyan et al. 2014, *Deep inside convolutional networks*:
    the size of the gradient; the measure that Abnar and Zuidema 2020 compare rollout with.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from attnlib.attribution.prompts import Prompts, measure
from attnlib.attribution.stream import slope


@measure
def gradient_x_embedding(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """Gradient x embedding, in nats; positive for tokens that speak for the target.

    Raises:
        ValueError: the model has no embedding of its input tokens, or predicts none.
    """
    embedded, gradient = slope(model, prompts)
    return (gradient * embedded).sum(-1)


@measure
def gradient_norm(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """The Euclidean norm of the gradient, in nats per unit of embedding; never negative.

    (The gradient's sum over channels would be 0 in a model whose first layer takes the mean off.)

    Raises:
        ValueError: as in `gradient_x_embedding`.
    """
    return slope(model, prompts)[1].norm(dim=-1)
