r"""A recurrent classifier with single-head attention, all of whose intermediate values can be inspected.

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns*,
and the authors' code, with two differences: the authors load word vectors and then overwrite them with
random ones, and we do not load them; and we do not pack sequences (see `BiLSTM`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass as plain_dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from attnlib.generators.classification import DocumentBatch
from attnlib.models.base import Saved, evaluating, exact_sum
from attnlib.models.lstm_precision import lstm_precision


@dataclass(frozen=True, config={"extra": "forbid"})
class ClassifierConfig:
    """The settings of a `Classifier`; wrong ones raise a `ValueError` that says what is allowed.

    Attributes:
        vocabulary: how many ids the model reads: `0 .. vocabulary - 1`; 0 is padding.
        embedding: size of a word's vector.
        hidden: size of the state of each of the two LSTMs.
        intermediate: size of the layer between states and attention.
        uniform: attend to all words equally (the "uniform" model that beta is taken from); nothing else
            changes.
    """

    vocabulary: int = Field(ge=1)
    embedding: int = Field(default=300, ge=1)
    hidden: int = Field(default=256, ge=1)
    intermediate: int = Field(default=256, ge=1)
    uniform: bool = False


@plain_dataclass(frozen=True)
class ClassifierOutput:
    """What a `Classifier` returns; its docstring has the equations.

    Attributes:
        logits: log odds of class 1.
        alpha: attention: not negative, sums to 1 over a document's words, 0 on padding.
        beta: keyword relevance: the logit if all attention were on this word; 0 on padding.
    """

    logits: Float[Tensor, " batch"]
    alpha: Float[Tensor, "batch token"]
    beta: Float[Tensor, "batch token"]


class BiLSTM(nn.Module):
    """A bidirectional LSTM over documents of different lengths, without packing.

    There are two one-directional LSTMs. The second reads each document from its last word to its first, and
    its states are then put back in the order of the words. Both LSTMs read padding after the last word, so
    padding changes no word's state. The states equal those of `nn.LSTM(bidirectional=True)` on a packed
    sequence, but are computed several times faster on a CPU, whose fused kernels do not take packed ones.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.forwards = nn.LSTM(width, hidden, batch_first=True)
        self.backwards = nn.LSTM(width, hidden, batch_first=True)

    def forward(
        self, x: Float[Tensor, "batch token width"], lengths: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch token state"]:
        """The forward and backward state of each word, concatenated; states on padding are meaningless."""
        columns = torch.arange(x.shape[1], device=x.device)
        ends = lengths[:, None]
        # Reverses each document's words and leaves padding in place; applied twice, it is the identity.
        reverse = torch.where(columns < ends, ends - 1 - columns, columns)[..., None]
        with lstm_precision(x.device):
            there = self.forwards(x)[0]
            back = self.backwards(x.gather(1, reverse.expand_as(x)))[0]
        return torch.cat([there, back.gather(1, reverse.expand_as(back))], dim=-1)


class Classifier(Saved):
    r"""A bidirectional LSTM with one attention head that computes one logit per document.

    $$&h = \mathrm{BiLSTM}(E_w), \\
      &\alpha = \mathrm{softmax}(u \cdot \mathrm{ReLU}(W h + b) + c), \\
      &\beta_i = v \cdot h_i + d, \\
      &s = \sum_i \alpha_i \beta_i, \quad p(y = 1) = \sigma(s)$$

    with $w$ the words of a document, $E$ their vectors, $\alpha$ over the document's own words, and the
    keyword relevance $\beta_i$ the score that the document would have if all attention were on word $i$. With
    `config.uniform`, $\alpha_i = 1/n$ for a document of $n$ words.

    Initial weights come from torch's global generator: call `torch.manual_seed` before to fix them.

    Attributes:
        config: its settings.
    """

    CONFIG = ClassifierConfig

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding)
        self.encoder = BiLSTM(config.embedding, config.hidden)
        self.to_intermediate = nn.Linear(2 * config.hidden, config.intermediate)
        self.to_attention = nn.Linear(config.intermediate, 1)
        self.to_beta = nn.Linear(2 * config.hidden, 1)

    def forward(
        self,
        input_ids: Int64[Tensor, "batch token"],
        lengths: Int64[Tensor, " batch"],
        scale: Float[Tensor, "batch token"] | None = None,
    ) -> ClassifierOutput:
        """Classify documents.

        Args:
            input_ids: word ids, padded on the right with anything.
            lengths: words of each document, at least 1.
            scale: a factor for each word's vector; the gradient with respect to it (at 1) is the influence
                of the word.
        """
        x = self.embedding(input_ids)
        if scale is not None:
            x = x * scale[..., None]
        states = self.encoder(x, lengths)
        real = torch.arange(input_ids.shape[1], device=lengths.device) < lengths[:, None]
        alpha = self._attention(states, real)
        beta = self.to_beta(states)[..., 0].masked_fill(~real, 0.0)
        return ClassifierOutput((alpha * beta).sum(-1), alpha, beta)

    def _attention(
        self, states: Float[Tensor, "batch token state"], real: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch token"]:
        if self.config.uniform:
            return real / real.sum(-1, keepdim=True)
        scores = self.to_attention(self.to_intermediate(states).relu())[..., 0]
        return scores.masked_fill(~real, float("-inf")).softmax(-1)


def document_loss(model: nn.Module, batch: DocumentBatch) -> Tensor:
    r"""A loss for `fit`: cross entropy of documents of two classes, as a mean over documents.

    $$L = -\tfrac{1}{|D|} \sum_{d \in D} \log \sigma((2 y_d - 1) s_d)$$

    with $y_d$ the label of document $d$, 0 or 1, $s_d$ its logit and $\sigma$ the logistic function. The loss
    stays finite however large the logit (the authors' own code takes the logarithm of a rounded $\sigma$).

    Args:
        model: called with `input_ids` and `lengths`; returns an object with `logits` [batch].
        batch: a `DocumentBatch`.
    """
    logits = model(**batch.inputs).logits
    return F.binary_cross_entropy_with_logits(logits, batch.labels.to(logits.dtype))


@torch.no_grad()
def document_scores(model: nn.Module, batches: Iterable[DocumentBatch]) -> dict[str, float]:
    """Accuracy and cross entropy of a classifier of two classes.

    Args:
        model: see `document_loss`; called in evaluation mode, and left in the mode it had.
        batches: `DocumentBatch`es; every document has the same weight, whatever the size of its batch.

    Returns:
        `accuracy`: the share of documents whose logit is above 0 if the label is 1, and not above 0 if it is
        0; `cross_entropy`: see `document_loss`. NaN if there are no documents.
    """
    device, found = next(model.parameters()).device, list[tuple[Tensor, Tensor]]()
    with evaluating(model):
        for batch in batches:
            batch = batch.to(device)
            found.append((model(**batch.inputs).logits, batch.labels))
    found = [(logits.cpu().double(), labels.cpu()) for logits, labels in found]
    right = exact_sum(((logits > 0) == (labels == 1)).sum() for logits, labels in found)
    total = exact_sum(-F.logsigmoid(logits * (2 * labels - 1)).sum() for logits, labels in found)
    n = sum(len(labels) for _, labels in found)
    return {"accuracy": float(right / n), "cross_entropy": float(total / n)}
