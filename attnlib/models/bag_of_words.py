"""Bag-of-words models, which ignore word order and give each word a relevance of its own.

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns* (its
beta^px, from embedding-only models), and the authors' code, with one correction: the authors' training loss
of translation counts `<bos>` and padding among the target tokens (their validation loss does not).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass as plain_dataclass

import torch
from jaxtyping import Float, Int64
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from attnlib.generators.translation import PairBatch
from attnlib.models.base import Saved, evaluating, exact_sum


@dataclass(frozen=True, config={"extra": "forbid"})
class BagConfig:
    """The settings of a `BagOfEmbeddings`.

    Attributes:
        vocabulary: how many ids the model reads; 0 is padding.
        width: size of a word's vector.
    """

    vocabulary: int = Field(ge=1)
    width: int = Field(default=256, ge=1)


@plain_dataclass(frozen=True)
class BagOutput:
    """What a `BagOfEmbeddings` returns: the log odds of class 1."""

    logits: Float[Tensor, " batch"]


class _Bag(Saved):
    """A linear map of the mean of a text's word vectors."""

    CONFIG = BagConfig

    def __init__(self, config: BagConfig, outputs: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width, padding_idx=0)
        self.output = nn.Linear(config.width, outputs)

    def mapped(
        self, input_ids: Int64[Tensor, "batch token"], lengths: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch output"]:
        """The outputs for texts that are padded on the right with 0."""
        return self.output(self.embedding(input_ids).sum(1) / lengths[:, None])


class BagOfEmbeddings(_Bag):
    r"""The embedding-only classifier.

    $$p(y = 1) = \sigma\Big(\tfrac{1}{n} \sum_i E_{w_i} \cdot u + b\Big)$$

    with $w_i$ the $n$ words of a document, `<bos>` and `<eos>` among them, and $E$ their vectors.
    """

    def __init__(self, config: BagConfig) -> None:
        super().__init__(config, outputs=1)

    def forward(self, input_ids: Int64[Tensor, "batch token"], lengths: Int64[Tensor, " batch"]) -> BagOutput:
        """Classify documents, padded on the right with 0."""
        return BagOutput(self.mapped(input_ids, lengths)[:, 0])

    @torch.no_grad()
    def relevance(self) -> Float[Tensor, " word"]:
        r"""$E u$: the evidence of each word of the vocabulary for class 1, without the bias."""
        return (self.embedding.weight @ self.output.weight[0]).float().cpu()


class WordTranslation(_Bag):
    r"""The embedding-only model of translation.

    $$p(y \mid x) = \mathrm{softmax}\Big(W \tfrac{1}{n} \sum_i E_{x_i} + b\Big)$$

    for every target token $y$ of a sentence alike, with $x_i$ the $n$ tokens of its source, `<bos>` and
    `<eos>` among them, and $E$ their vectors.
    """

    def __init__(self, config: BagConfig) -> None:
        super().__init__(config, outputs=config.vocabulary)

    def forward(
        self, source: Int64[Tensor, "batch source"], lengths: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch word"]:
        """Log-probabilities of target tokens, given source sentences padded on the right with 0."""
        logits = self.mapped(source, lengths)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)

    @torch.no_grad()
    def relevance(self) -> Float[Tensor, "word word"]:
        r"""$\log \mathrm{softmax}(E W^\top)$, [source target], without the bias, as in the original."""
        return (self.embedding.weight @ self.output.weight.T).log_softmax(-1).float().cpu()


def word_translation_loss(model: WordTranslation, batch: PairBatch) -> Tensor:
    """A loss for `fit`: cross entropy of the target tokens, as a mean over tokens."""
    lines = model(batch.source, batch.source_lengths)
    # One row of logits serves all tokens of a sentence.
    return -lines.gather(1, batch.predicted).flatten()[batch.asked].mean()


@torch.no_grad()
def word_translation_scores(model: WordTranslation, batches: Iterable[PairBatch]) -> dict[str, float]:
    """The mean cross entropy over all target tokens, under the key `cross_entropy`."""
    device, losses, tokens = next(model.parameters()).device, list[Tensor](), list[Tensor]()
    with evaluating(model):
        for batch in batches:
            batch = batch.to(device)
            losses.append(word_translation_loss(model, batch))
            tokens.append(batch.real.sum())
    pairs = zip(losses, tokens, strict=True)
    total = exact_sum(loss.cpu().double() * count.cpu() for loss, count in pairs)
    return {"cross_entropy": float(total / exact_sum(tokens))}
