r"""Measures that turn a model's eyes away from a token, in all layers and heads, and look what happens.

With `s` the score of the prediction (`attnlib.attribution.prompts`) and `z_hqk` the scores before the softmax
of head `h`, query `q` and key `k`:

    AtMan                 s - s(z_hqk -> (1 - f) z_hqk for all h and q)
    attention knockout    s - s(z_hqk -> -infinity for all h, q the query)

AtMan's is the change of the target's loss, `-s`. Where scores are negative, its factor brings them *up* to 0:
that is how the method is published. The suppression of tokens with similar embeddings, which its authors add
for images, is left out. (A bias of the scores, such as that of relative positions, is not multiplied.)

References:
    Deiseroth et al. 2023, *AtMan: understanding transformer predictions through memory efficient attention
    manipulation*, section 3. Geva et al. 2023, *Dissecting recall of factual associations in auto-regressive
    language models*, section 5: there in a window of layers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.attribution.again import Copies, falls, places
from attnlib.attribution.prompts import Prompts, measure
from attnlib.models.attention import AttentionCall
from attnlib.models.attention.inputs import Inputs, inputs_changed, keys_hidden
from attnlib.models.causal import is_causal

Scores = Float[Tensor, "batch key"]


@measure
def atman(model: nn.Module, prompts: Prompts, *, suppression: float = 0.9, batch_size: int = 8) -> Scores:
    """AtMan: the loss that comes of weakening attention to one token, in nats.

    Args:
        model: as in `inputs_changed`.
        prompts: what is asked.
        suppression: `f`, from 0, which changes nothing, to 1: all scores are 0.
        batch_size: how many tokens at once; memory goes with it.

    Returns:
        Positive for tokens that speak for the target.

    Raises:
        ValueError: `f` is out of range; the model's attention cannot be changed; or it predicts no token.
    """
    if not 0 <= suppression <= 1:
        raise ValueError(f"suppression should be from 0 to 1; got {suppression}")

    def disturbed(copies: Copies) -> AbstractContextManager[None]:
        def weaker(query: Tensor, key: Tensor, value: Tensor) -> Inputs:  # q . (1 - f) k = (1 - f) q . k
            there = places(copies.tokens, key.shape[2], copies.stop).to(key.dtype)
            return query, key * (1 - suppression * there)[:, None, :, None], value

        return inputs_changed(model, weaker)

    return falls(model, prompts, disturbed, batch_size)


@measure
def attention_knockout(
    model: nn.Module,
    prompts: Prompts,
    *,
    queries: str = "query",
    batch_size: int = 8,
) -> Scores:
    """Attention knockout: how much less likely the prediction gets where it cannot look at a token, in nats.

    Args:
        model: as in `keys_hidden`.
        prompts: what is asked.
        queries: who cannot look at token `k`: the "query" where the prediction is made (what it learns of `k`
            from other tokens stays; its own key, too, can be hidden from it); or "all" but `k` itself: in a
            causal model that is blank-out.
        batch_size: how many tokens at once; memory goes with it.

    Returns:
        Positive for tokens that speak for the target.

    Raises:
        ValueError: the query can see no token but itself; the model's kernel takes no such mask; or it
            predicts no token.
    """
    if queries not in ("query", "all"):
        raise ValueError(f'queries should be "query" or "all"; got {queries!r}')
    causal = is_causal(model)
    if prompts.ids.shape[1] < 2 or (causal and not prompts.query):
        raise ValueError("attention knockout needs at least 2 tokens, one to hide and one to see. Got one.")
    asking = prompts.ids.new_tensor([prompts.query])

    def disturbed(copies: Copies) -> AbstractContextManager[None]:
        def hidden(call: AttentionCall) -> Bool[Tensor, "copy 1 query key"]:
            key = places(copies.tokens, call.key.shape[2], copies.stop)
            who = places(asking if queries == "query" else copies.tokens, call.query.shape[2], copies.stop)
            who = who if queries == "query" else ~who
            return (who[:, :, None] & key[:, None, :])[:, None]

        return keys_hidden(model, hidden)

    if queries == "all" or not causal:
        return falls(model, prompts, disturbed, batch_size)
    # of each copy only the query is computed again, so more of them go together
    return falls(model, prompts, disturbed, 8 * batch_size, changes_from=prompts.query)
