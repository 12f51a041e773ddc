r"""What every measure of attribution is given, and what it gives back.

All of them answer the same question: *which tokens did the prediction at one position draw on?*, and so have
one signature:

    method(model, input_ids, attention_mask=None, query=-1, target=None, foil=None, counterfactual=None)

with `input_ids` and `scores` `[batch token]`. `query` is the position that predicts, counted among an
example's own tokens (negative ones from their end), so that padding on either side changes nothing. `target`
is the predicted token `y` whose score is explained, `foil` another one `z` that might have stood there:

    s = log p(y | x_1 ... x_q)        or        log p(y | x_1 ... x_q) - log p(z | x_1 ... x_q)

Without a target it is the model's own prediction. Without a foil, AttnLRP, LRP and ALTI-Logit explain the
target's logit in place of `s`, and ContextCite its log odds. Measures that only watch attention ignore the
target and the foil. `counterfactual` is a prompt of the same length: each of its tokens might have stood in
place of the prompt's token at that position. Only measures that put its tokens or their vectors into the
prompt need it; all others ignore it.

Scores of padding are 0, and so are those of tokens that the query cannot see.

`measure` gives a function this signature: the function itself sees prompts of one length, without padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.checks import check, check_at_least, check_between, check_shape
from attnlib.generators.base import moved
from attnlib.models.attention.forward import Mask, check_prompt, vocabulary_of
from attnlib.options import check_kinds
from attnlib.rollout.dense import numbers, token_indices

MUST_READ_ANOTHER = "the prediction must read a token besides the one at the query"
"""The demand of methods that change other tokens than the one at the query."""

Method = Callable[..., Float[Tensor, "batch key"]]
"""A measure of attribution: a function of the module's signature."""

Target = int | Int[Tensor, " batch"] | None

Counterfactual = Int[Tensor, "_ _"] | Int[Tensor, " _"] | None
"""Tokens, of the same shape as the prompts, or None."""


class Prompts(NamedTuple):
    """Prompts of one length, without padding, and the prediction to explain.

    Attributes:
        ids: the tokens.
        query: the position that predicts, from 0.
        target: `y` of each; None for the model's own prediction.
        foil: `z` of each, or None.
        counterfactual: what might have stood there instead, token by token, or None.
    """

    ids: Int[Tensor, "batch token"]
    query: int
    target: Int[Tensor, " batch"] | None = None
    foil: Int[Tensor, " batch"] | None = None
    counterfactual: Int[Tensor, "batch token"] | None = None

    def rows(self, rows: list[int] | Int[Tensor, " some"]) -> Prompts:
        """The prompts of some rows of the batch."""
        asked = (self.target, self.foil, self.counterfactual)
        target, foil, counterfactual = (None if given is None else given[rows] for given in asked)
        return Prompts(self.ids[rows], self.query, target, foil, counterfactual)

    def otherwise(self, method: str) -> Int[Tensor, "batch token"]:
        """The counterfactual, for a method that needs it."""
        if self.counterfactual is None:
            raise ValueError(
                f"{method} needs a counterfactual: a prompt of the same length, with other tokens where it "
                "might have been otherwise. Give it: attribute(model, input_ids, counterfactual=...)."
            )
        return self.counterfactual

    def aimed(self, logits: Float[Tensor, "batch vocabulary"]) -> Prompts:
        """These prompts, with the prediction that the logits make as the target, if none was given."""
        check_logits(logits)
        size = logits.shape[-1]
        for name, given in (("target", self.target), ("foil", self.foil)):
            fits = given is None or bool(((given >= 0) & (given < size)).all())
            check(fits, f"{name} must be token ids from 0 to {size - 1}", given)
        return self if self.target is not None else self._replace(target=logits.argmax(-1))

    def score(self, logits: Float[Tensor, "batch vocabulary"]) -> Float[Tensor, " batch"]:
        """`s`, of prompts that are `aimed`; in float32 or better."""
        assert self.target is not None
        log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
        chosen = log_p.gather(1, self.target[:, None])[:, 0]
        return chosen if self.foil is None else chosen - log_p.gather(1, self.foil[:, None])[:, 0]

    def margin(self, logits: Float[Tensor, "batch vocabulary"]) -> Float[Tensor, " batch"]:
        """The logit of the target, or its difference to the foil's, of prompts that are `aimed`."""
        assert self.target is not None
        if self.foil is not None:  # the normalisation of `score` cancels
            return self.score(logits)
        chosen = logits.gather(1, self.target[:, None])[:, 0]
        return chosen.to(torch.promote_types(chosen.dtype, torch.float32))


def check_logits(logits: Tensor) -> None:
    """Raise a `ValueError` for logits that are NaN or +infinity; -infinity (excluded tokens) is allowed."""
    if not bool((logits < torch.inf).all()):
        raise ValueError(
            "the model's logits must be finite; got NaN or infinity, so there is nothing to explain: a "
            "weight is NaN, or numbers are too large for the model's precision"
        )


def check_token(model: nn.Module, name: str, token: int) -> None:
    """Raise a `ValueError` if a token, the argument `name`, is not in the model's vocabulary."""
    size = vocabulary_of(model)
    check_between(0, math.inf if size is None else size - 1, **{name: token})


def measure(function: Callable[..., Float[Tensor, "batch key"]]) -> Method:
    """Give a function of a model and `Prompts` the signature of a method; its own options stay.

    Example:
        >>> @measure
        ... def nearest(model, prompts):
        ...     away = torch.arange(prompts.ids.shape[1], device=prompts.ids.device) - prompts.query
        ...     return (away == 0).float().expand(prompts.ids.shape)
        >>> nearest(torch.nn.Identity(), torch.zeros(1, 4, dtype=torch.long), query=2)
        tensor([[0., 0., 1., 0.]])
    """

    @wraps(function)
    def method(
        model: nn.Module,
        input_ids: Int[Tensor, "batch token"],
        attention_mask: Mask = None,
        query: int = -1,
        target: Target = None,
        foil: Target = None,
        counterfactual: Counterfactual = None,
        **options: Any,
    ) -> Float[Tensor, "batch key"]:
        check_kinds(function, options)
        check_at_least(1, batch_size=options.get("batch_size"))
        parts = by_length(model, input_ids, attention_mask, query, target, foil, counterfactual)
        return padded([(place, function(model, prompts, **options)) for place, prompts in parts], input_ids)

    return method


class Place(NamedTuple):
    """Where in a batch the tokens of some prompts stand."""

    row: Int[Tensor, "some 1"]
    column: Int[Tensor, "some token"]


def by_length(
    model: nn.Module,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Mask,
    query: int,
    target: Target,
    foil: Target,
    counterfactual: Counterfactual = None,
) -> Iterator[tuple[Place, Prompts]]:
    """A batch without its padding: prompts of one length at a time, so that results are as for each alone."""
    input_ids, attention_mask = check_prompt(model, input_ids, attention_mask)
    device, aims = input_ids.device, list[Tensor | None]()
    if isinstance(counterfactual, Tensor):
        counterfactual = counterfactual.to(device)
        check_shape(input_ids.shape, "input_ids", counterfactual=counterfactual)
    if counterfactual is not None:
        check_prompt(model, counterfactual, attention_mask, name="counterfactual")
    for name, given in (("target", target), ("foil", foil)):
        aim = None if given is None else numbers(given)
        fits = given is None or (
            aim is not None
            and not aim.is_floating_point()
            and aim.dtype != torch.bool
            and aim.shape in ((), (1,), (len(input_ids),))
        )
        check(fits, f"{name} must be a token, or one for each of {len(input_ids)} prompts", given)
        aims.append(None if aim is None else aim.to(device))
    # on the CPU, where lengths are known without waiting
    real = torch.ones(input_ids.shape).bool() if attention_mask is None else attention_mask.bool().cpu()
    lengths = real.sum(1)
    for length in lengths.unique().tolist():
        (at,) = token_indices([query], length, "query", real.device).tolist()
        row = (lengths == length).nonzero()
        column = real[row[:, 0]].nonzero()[:, 1].view(-1, length)
        row, column = moved(row, device), moved(column, device)
        some = [None if given is None else given.expand(len(real))[row[:, 0]] for given in aims]
        other = None if counterfactual is None else counterfactual[row, column]
        yield Place(row, column), Prompts(input_ids[row, column], at, some[0], some[1], other)


def padded(
    parts: list[tuple[Place, Tensor]], input_ids: Int[Tensor, "batch token"]
) -> Float[Tensor, "batch token"]:
    """The scores of all parts at their places in the batch, and 0 at padding."""
    scores = parts[0][1].new_zeros(input_ids.shape, device=parts[0][0].row.device)
    for place, part in parts:
        scores[place] = part.to(scores.device)  # a model may be split over several
    return scores
