r"""Measures that change the input and look what happens: costly, and the gold standard for that.

With `s` the score of the prediction (`attnlib.attribution.prompts`):

    blank-out    s - s(without x_k)

References:
    Zeiler and Fergus 2014, *Visualizing and understanding convolutional networks*: leaving parts out. Abnar
    and Zuidema 2020, *Quantifying attention flow in transformers*, section 4 (there, tokens are replaced).
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attribution.prompts import Prompts, measure
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of
from attnlib.models.causal import is_causal
from attnlib.models.transformer import Transformer


@measure
@torch.no_grad()
def blank_out(
    model: nn.Module, prompts: Prompts, *, replacement: int | None = None, batch_size: int = 8
) -> Float[Tensor, "batch key"]:
    r"""How much less likely the prediction gets when one token is missing, in nats.

    Token `k` is left out, and the others keep their positions: what is left is what a mask on key `k` in
    every layer would leave. (Abnar and Zuidema put an "unknown" token there: a `replacement`. Today's
    language models have no token for that which they have seen in training.) The query is where the
    prediction is made; its score is NaN if tokens are left out.

    `batch_size` prompts run at once; in causal models that keep keys and values, from those of the tokens
    before the first of them that differs, which are computed once: about half the operations of a forward
    pass per token.

    Args:
        model: any that scores the next token at every position.
        prompts: what is asked.
        replacement: put this token in `k`'s place instead of leaving it out.
        batch_size: how many prompts at once; memory goes with it.

    Returns:
        Positive for tokens that speak for the target.

    Raises:
        ValueError: the query can see no token but itself, or the model predicts none.
    """
    blanked = _Blanked(model, replacement, batch_size)
    ids = prompts.ids[:, : prompts.query + 1] if blanked.causal else prompts.ids
    if ids.shape[1] < 2:
        raise ValueError("blank-out needs at least 2 tokens, one to leave out and one to ask at. Got one.")
    with evaluating(model):
        logits = logits_of(model, ids, start=prompts.query)[:, 0]
        aimed = prompts._replace(ids=ids).aimed(logits)
        whole = aimed.score(logits)
        scores = whole.new_zeros(prompts.ids.shape)
        for one in range(len(ids)):
            scores[one, : ids.shape[1]] = whole[one] - blanked.scores(aimed.rows([one]))
    return scores


class _Blanked:
    """A model that is asked again and again."""

    def __init__(self, model: Any, replacement: int | None, batch_size: int) -> None:
        self.model, self.replacement, self.batch_size = model, replacement, batch_size
        self.own, known = isinstance(model, Transformer), inspect.signature(model.forward).parameters
        self.causal = is_causal(model)
        self.has_positions = "position_ids" in known
        self.remembers = self.causal and "past_key_values" in known

    def scores(self, prompt: Prompts) -> Float[Tensor, " token"]:
        """The score of one prompt without each of its tokens."""
        n, device = prompt.ids.shape[1], prompt.ids.device
        places = torch.arange(n, device=device)
        left_out = places if self.replacement is not None else places[places != prompt.query]
        past, shared, parts = None, 0, list[Tensor]()
        for some in left_out.split(self.batch_size):
            if self.remembers and (first := int(some[0])):
                block = prompt.ids[:, shared:first]
                past = self.model(input_ids=block, past_key_values=past, use_cache=True).past_key_values
                shared = first
            given = prompt.rows([0] * len(some))
            ids, place, at = given.ids, places.expand(len(some), -1), prompt.query - n
            if self.replacement is None:
                kept = place != some[:, None]
                ids, place = (each[kept].view(len(some), -1) for each in (ids, place))
                at = at + (some > prompt.query).long()  # what is left out behind the query moves it up
            else:
                ids = ids.scatter(1, some[:, None], self.replacement)
            logits = self._logits(past, shared, ids, place, prompt.query)
            parts.append(given.score(logits[torch.arange(len(some), device=device), at]))
        scores = torch.full((n,), torch.nan, dtype=parts[0].dtype, device=device)
        scores[left_out] = torch.cat(parts)
        return scores

    def _logits(
        self,
        past: Any,
        shared: int,
        ids: Int[Tensor, "batch token"],
        place: Int[Tensor, "batch token"],
        query: int,
    ) -> Float[Tensor, "batch position vocabulary"]:
        """Logits from before the query on, of prompts of whose first `shared` tokens `past` has the cache."""
        inputs: dict[str, Any] = {"position_ids": place[:, shared:]} if self.has_positions else {}
        if past is not None:
            inputs["past_key_values"] = copy.deepcopy(past)
            inputs["past_key_values"].batch_repeat_interleave(len(ids))
        # with a mask given, a gap in the positions is not taken for the border of two packed prompts
        mask = None if self.own else torch.ones_like(ids)
        return logits_of(self.model, ids[:, shared:], mask, max(0, query - 1 - shared), **inputs)
