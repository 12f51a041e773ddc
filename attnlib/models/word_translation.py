"""A model that knows which words a sentence has, not their order: how each would be translated alone.

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns* (its
beta^px for translation), and the authors' code, of which one thing is mended: its training loss counts
`<bos>` and padding among the target tokens, its validation loss does not.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from attnlib.generators.translation import PairBatch
from attnlib.models.attention import evaluating
from attnlib.models.bag_of_words import BagConfig
from attnlib.models.saving import Saved


class WordTranslation(Saved):
    r"""The embedding-only model of translation.

    $$p(y \mid x) = \mathrm{softmax}\Big(W \tfrac{1}{n} \sum_i E_{x_i} + b\Big)$$

    for every target token $y$ of a sentence alike, with $x_i$ the $n$ tokens of its source, `<bos>` and
    `<eos>` among them, and $E$ their vectors.
    """

    CONFIG = BagConfig

    def __init__(self, config: BagConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width, padding_idx=0)
        self.output = nn.Linear(config.width, config.vocabulary)

    def forward(
        self, source: Int64[Tensor, "batch source"], lengths: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch word"]:
        """Log-probabilities of target tokens, of sentences padded on the right with 0."""
        return self.output(self.embedding(source).sum(1) / lengths[:, None]).log_softmax(-1)

    @torch.no_grad()
    def relevance(self) -> Float[Tensor, "word word"]:
        r"""$\log \mathrm{softmax}(E W^\top)$: of a target token (column) given a source token (row) alone.

        Without the bias, which belongs to no source token, as in the original.
        """
        return (self.embedding.weight @ self.output.weight.T).log_softmax(-1).float().cpu()


def word_translation_loss(model: WordTranslation, batch: PairBatch) -> Tensor:
    """A loss for `fit`: cross entropy of the target tokens, as a mean over tokens."""
    lines = model(batch.source, batch.source_lengths)
    # One row of logits serves all tokens of a sentence.
    return -lines.gather(1, batch.predicted).flatten()[batch.asked].mean()


@torch.no_grad()
def word_translation_scores(model: WordTranslation, batches: Iterable[PairBatch]) -> dict[str, float]:
    """The cross entropy of target tokens, as `cross_entropy`; every token counts the same."""
    device = next(model.parameters()).device
    total, n = torch.zeros((), dtype=torch.float64, device=device), 0
    with evaluating(model):
        for batch in batches:
            batch = batch.to(device)
            total += word_translation_loss(model, batch).double() * batch.real.sum()
            n += int(batch.real.sum())
    return {"cross_entropy": float(total / n)}
