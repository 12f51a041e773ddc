"""Measures of recurrent models with one attention head, under the names that those of transformers have.

`raw attention, last layer` is that of the one head there is, which is also the mean. The others are those of
`METHODS`, but for blank-out: a row keeps its length, and the word that is taken out leaves the unknown word
behind. Rollout and flow need attention between tokens in layers, and there is none.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib.attribution.disturbing import blank_out
from attnlib.attribution.gradients import gradient_x_embedding
from attnlib.attribution.prompts import Method, Prompts, measure
from attnlib.models.attention import evaluating
from book.chapters.tells.single_head import SingleHead


@measure
@torch.no_grad()
def attention_of_the_head(model: SingleHead, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """How much the head looks at each token when it predicts at the query."""
    with evaluating(model):
        attentions = model(prompts.ids).attentions
    assert attentions is not None
    return attentions[:, 0, 0, prompts.query]


@measure
def blanked(model: SingleHead, prompts: Prompts, *, batch_size: int = 64) -> Float[Tensor, "batch key"]:
    """Blank-out with the unknown word in the token's place; see `blank_out`."""
    asked = {"query": prompts.query, "target": prompts.target, "foil": prompts.foil}
    return blank_out(model, prompts.ids, **asked, replacement=model.unknown, batch_size=batch_size)


SINGLE_HEAD: dict[str, Method] = {
    "raw attention, last layer": attention_of_the_head,
    "gradient x embedding": gradient_x_embedding,
    "blank-out": blanked,
}
"""Name -> function, as in `METHODS`."""
