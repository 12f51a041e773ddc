r"""Measures that only watch attention: they need head means alone, and share one pass of the model.

With `A_lh` the attention of head `h` of layer `l` (rows are queries), `A_l` its mean over heads and `q` the
query,

    raw attention, last layer    A_L[q]
    mean attention               mean_l A_l[q]
    rollout                      R_L[q]             the share of each key in what q carries: attnlib.rollout
    flow                         F[q] / sum F[q]    F the max. flow: what fits through the narrowest places

Variants of rollout leave out the attention sink (the first token's column, in every layer), or divide
`R_L[q]` by the rollout of uniform causal attention, the null model.

References:
    Abnar and Zuidema 2020, *Quantifying attention flow in transformers*, sections 3 and 4.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial, wraps
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attribution.prompts import (
    Counterfactual,
    Mask,
    Method,
    Prompts,
    Target,
    by_length,
    measure,
    padded,
)
from attnlib.checks import check_shape
from attnlib.models.attention import evaluating
from attnlib.models.attention.call import AttentionCall, Product, Wanted
from attnlib.models.attention.forward import logits_of, watched_pass
from attnlib.rollout.dense import rollout
from attnlib.rollout.flow import attention_flow
from attnlib.rollout.null import null_ratio, uniform_causal_rollout

Attention = Float[Tensor, "batch layer query key"]
"""The mean over heads of every layer."""

Scores = Float[Tensor, "batch key"]


def from_attention(function: Callable[..., Scores], **options: Any) -> Method:
    """Make a method of a function of head-mean attention and the query; `options` are handed to it.

    Example:
        >>> from attnlib.models import Transformer, TransformerConfig
        >>> middle = from_attention(lambda attention, query: attention[:, attention.shape[1] // 2, query])
        >>> model = Transformer(TransformerConfig(vocabulary=5, causal=True))
        >>> middle(model, torch.tensor([[1, 2, 3]]), query=0)
        tensor([[1., 0., 0.]])
    """

    @measure
    @wraps(function)
    def method(model: nn.Module, prompts: Prompts) -> Scores:
        return one_pass(model, prompts, {"": method})[0][""]

    method.of_attention = partial(function, **options)  # type: ignore[attr-defined]
    return method


def shares_a_pass(method: Method) -> bool:
    """Whether a method is made by `from_attention`, so that `one_pass` evaluates it together with others."""
    return hasattr(method, "of_attention")


def one_pass(
    model: nn.Module, prompts: Prompts, methods: Mapping[str, Any], logits_from: int | None = None
) -> tuple[dict[str, Scores], Float[Tensor, "batch position vocabulary"] | None]:
    """The scores of methods that only watch attention, and logits from place `logits_from` on, in one pass.

    Memory beyond that of the pass is `batch x layers x N x N`, whatever the number of heads.
    """
    if not methods and logits_from is not None:  # any model, also one without attention
        with evaluating(model), torch.no_grad():
            return {}, logits_of(model, prompts.ids, start=logits_from)
    layers = list[Tensor]()

    def keep(call: AttentionCall) -> Generator[Wanted, Product, None]:
        mean, _ = yield Wanted()
        layers.append(mean.to(prompts.ids.device))  # a model may be split over several

    logits = watched_pass(model, [keep], prompts.ids, logits_from=logits_from)
    attention = torch.stack(layers, 1)
    return {name: each.of_attention(attention, prompts.query) for name, each in methods.items()}, logits


def ask(
    model: nn.Module,
    input_ids: Int[Tensor, "batch token"],
    methods: Mapping[str, Method],
    attention_mask: Mask = None,
    query: int = -1,
    target: Target = None,
    foil: Target = None,
    counterfactual: Counterfactual = None,
) -> dict[str, Float[Tensor, "batch key"]]:
    """What one prediction of every prompt depends on, by many methods; see `registry.attributions`.

    A study with its own table of methods calls this, so that additions to the registry do not change it.
    """
    parts: dict[str, list] = {name: [] for name in methods}
    for place, prompts in by_length(model, input_ids, attention_mask, query, target, foil, counterfactual):
        for name, scores in scores_of(model, prompts, methods).items():
            parts[name].append((place, scores))
    return {name: padded(each, input_ids) for name, each in parts.items()}


def scores_of(
    model: nn.Module, prompts: Prompts, methods: Mapping[str, Method]
) -> dict[str, Float[Tensor, "batch key"]]:
    """The scores of some methods, of prompts of one length; arguments and errors as in `ask`."""
    together = {name: method for name, method in methods.items() if shares_a_pass(method)}
    found = one_pass(model, prompts, together)[0] if together else {}
    question: dict[str, Any] = {"query": prompts.query, "target": prompts.target, "foil": prompts.foil}
    for name in [name for name in methods if name not in together]:
        more = {"counterfactual": prompts.counterfactual} if _compares(methods[name], prompts) else {}
        found[name] = methods[name](model, prompts.ids, attention_mask=None, **question, **more)
        check_shape(prompts.ids.shape, **{f"scores of {name!r}": found[name]})
    return {name: found[name] for name in methods}


def _compares(method: Method, prompts: Prompts) -> bool:
    """Whether there is a counterfactual, and the method takes one: a user's own function may not."""
    taken = inspect.signature(method, follow_wrapped=False).parameters
    takes_all = any(each.kind == each.VAR_KEYWORD for each in taken.values())
    return prompts.counterfactual is not None and (takes_all or "counterfactual" in taken)


def last_layer(attention: Attention, query: int) -> Scores:
    """Attention of the last layer."""
    return attention[:, -1, query]


def mean_attention(attention: Attention, query: int) -> Scores:
    """The mean of attention over layers."""
    return attention[:, :, query].mean(1)


def rolled(attention: Attention, query: int, sink: Sequence[int] | None = None) -> Scores:
    """Rollout; see `attnlib.rollout.rollout`."""
    return rollout(attention[:, :, None], rows=[query], sink=sink)[:, 0]


def mean_rolled(attention: Attention, query: int) -> Scores:
    """The mean of rollout over layers, as the study of language models' generations uses it."""
    return rollout(attention[:, :, None], rows=[query], cumulative=True)[:, :, 0].mean(1)


def over_null(attention: Attention, query: int, sink: Sequence[int] | None = None) -> Scores:
    """Rollout over that of uniform attention, of causal models only; see `attnlib.rollout.null_ratio`."""
    found = rolled(attention, query, sink)
    if bool(attention.triu(1).any()):
        raise ValueError("The null model looks at earlier tokens only, and this model at later ones, too.")
    null = uniform_causal_rollout(attention.shape[-1], attention.shape[1], rows=[query], sink=sink)
    return null_ratio(found, null.expand(len(attention), -1))


def flow(attention: Attention, query: int) -> Scores:
    """The maximum flow to every key, which is slow; see `attnlib.rollout.attention_flow`."""
    return attention_flow(attention[:, :, None], rows=[query])[:, 0].to(attention)
