"""Writing a translation: greedily, or the best of several kept at every step (beam search)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attnlib.models.seq2seq import Seq2Seq

BOS_ID, EOS_ID, PAD_ID = 1, 2, 0

LOOK = {"cpu": 1}
"""After how many tokens it is asked whether all have ended; elsewhere 8: the answer has to be waited for."""


@torch.no_grad()
def translate(
    model: Seq2Seq,
    source: Int64[Tensor, "batch source"],
    lengths: Int64[Tensor, " batch"],
    width: int = 1,
    max_length: int = 100,
) -> tuple[Int64[Tensor, "batch written"], Float[Tensor, " batch"]]:
    r"""Translate sentences, all at once.

    At every step each of the `width` beginnings of a translation is continued by every token, and the `width`
    most probable of all that come out are kept; one that has ended, by `<eos>`, stays as it is. With one, the
    most probable next token is taken (greedy). Probabilities are not divided by length, as in the original.

    Args:
        model: in the mode that is wanted: call `eval` before.
        source: token ids, padded on the right.
        lengths: tokens of each sentence.
        width: beginnings kept; 5 in the original.
        max_length: tokens written at most, `<eos>` among them.

    Returns:
        The ids of the most probable translation found, without `<bos>`, up to and including `<eos>` if it
        came to that, then 0; and its log-probability $\sum_t \log p(y_t)$.

    Raises:
        ValueError: width or max_length is below 1, or width above the vocabulary.
    """
    vocabulary, n = model.config.vocabulary, len(source)
    if not 1 <= width <= vocabulary or max_length < 1:
        raise ValueError(
            f"width should be from 1 to the vocabulary's {vocabulary}, and max_length at least 1; got "
            f"{width} and {max_length}"
        )
    encoded = model.encode(source, lengths).repeated(width)
    state, latest = encoded.state, source.new_full((n * width, 1), BOS_ID)
    written = source.new_zeros((n * width, 0))
    # At first all beginnings of a sentence are the same: only one of them may be continued.
    scores = torch.where(torch.arange(width, device=source.device) == 0, 0.0, float("-inf")).repeat(n, 1)
    ended = torch.zeros(n * width, dtype=torch.bool, device=source.device)
    after_end = torch.full((vocabulary,), float("-inf"), device=source.device)
    after_end[PAD_ID] = 0.0
    took, look = ended.new_zeros((), dtype=torch.long), LOOK.get(source.device.type, 8)
    for step in range(1, max_length + 1):
        took += ~ended.all()
        decoded = model.decode(latest, encoded, state)
        steps = model.to_vocabulary(decoded.joined[:, 0]).float().log_softmax(-1)
        steps = torch.where(ended[:, None], after_end, steps).view(n, width, vocabulary)
        scores, best = (scores[..., None] + steps).flatten(1).topk(width)
        kept = (best // vocabulary + width * torch.arange(n, device=source.device)[:, None]).flatten()
        latest = (best % vocabulary).view(-1, 1)
        hidden, cell = decoded.state
        state = hidden[:, kept], cell[:, kept]
        written = torch.cat([written[kept], latest], 1)
        ended = ended[kept] | (latest[:, 0] == EOS_ID)
        if step % look == 0 and ended.all():
            break
    return written.view(n, width, -1)[:, 0, : int(took)], scores[:, 0]
