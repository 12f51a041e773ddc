"""Models that know which words a document has, not their order: one relevance per word of the vocabulary.

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns* (its
beta^px, from an embedding-only model), and the authors' code (the same, and logistic regression).
"""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass

import torch
from jaxtyping import Float, Int64
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from attnlib.models.saving import Saved

__all__ = ["BagConfig", "BagOfEmbeddings", "BagOutput"]


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
    """What a `BagOfEmbeddings` returns.

    Attributes:
        logits: log odds of class 1.
    """

    logits: Float[Tensor, " batch"]


class BagOfEmbeddings(Saved):
    r"""The embedding-only model.

    $$p(y = 1) = \sigma\Big(\tfrac{1}{n} \sum_i E_{w_i} \cdot u + b\Big)$$

    with $w_i$ the $n$ words of a document, `<bos>` and `<eos>` among them, and $E$ their vectors.
    """

    CONFIG = BagConfig

    def __init__(self, config: BagConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width, padding_idx=0)
        self.output = nn.Linear(config.width, 1)

    def forward(self, input_ids: Int64[Tensor, "batch token"], lengths: Int64[Tensor, " batch"]) -> BagOutput:
        """Classify documents, padded on the right with 0."""
        mean = self.embedding(input_ids).sum(1) / lengths[:, None]
        return BagOutput(self.output(mean)[:, 0])

    @torch.no_grad()
    def relevance(self) -> Float[Tensor, " word"]:
        r"""$E u$: how much each word of the vocabulary speaks for class 1 (the bias belongs to no word)."""
        return (self.embedding.weight @ self.output.weight[0]).float().cpu()
