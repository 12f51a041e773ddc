r"""Recurrent models with the interface of language models: one row of tokens in, predictions at positions.

So attribution methods for transformers apply to these models, too. A document is its own row, and its class
is predicted at its last word. An encoder-decoder reads one row: the source, then the target written so far,
in ids of its own (`written`): with a vocabulary of $V$, the id $V + y$ for $y$. So

    source  <bos> the cat <eos>    written so far  die      ->   <bos> the cat <eos> V+die

and the next word is predicted at the row's last token, the first word at the last token of the source. Tokens
that `attention_mask` excludes in the middle of a row are replaced by the unknown word; excluded tokens at the
end of a row are padding.

Each token is looked up once, in one call of `get_input_embeddings()`: a hook on this call can replace the
vectors that the model reads.

Measures have the same names as for transformers. `raw attention, last layer` is that of the only head, which
is also the mean; occlusion inserts the unknown word, since a row keeps its length. Rollout and flow do
not apply: they need attention between tokens in layers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.func import functional_call

from attnlib.attribution.gradients import gradient_x_embedding
from attnlib.attribution.perturbation import blank_out
from attnlib.attribution.prompts import Method, Prompts, measure
from attnlib.generators.tokenizer import BOS_ID, UNK_ID
from attnlib.models.attention import evaluating
from attnlib.models.base import without_cudnn
from attnlib.models.classifier import Classifier
from attnlib.models.copier import Copier
from attnlib.models.seq2seq import Seq2Seq
from attnlib.models.transformer import TransformerOutput

Ids = Int64[Tensor, "batch token"]
Lengths = Int64[Tensor, " batch"]
Vectors = Float[Tensor, "batch token width"]
Words = Float[Tensor, "words width"]
Source = Int64[Tensor, "batch source"]
Target = Int64[Tensor, "batch target"]
Written = tuple[Float[Tensor, "batch target class"], Float[Tensor, "batch target source"]]
"""Logits and attention of the written target tokens."""


class SingleHead(nn.Module, ABC):
    """A recurrent model that predicts at every position; the id `unknown` replaces removed tokens."""

    def __init__(self, model: nn.Module, vectors: Float[Tensor, "word width"], unknown: int) -> None:
        super().__init__()
        self.model, self.unknown = model, unknown
        self.embedding = nn.Embedding.from_pretrained(vectors, freeze=False)

    def get_input_embeddings(self) -> nn.Embedding:
        """The embedding that looks tokens up, as in Hugging Face's models."""
        return self.embedding

    def forward(
        self, input_ids: Ids, attention_mask: Bool[Tensor, "batch token"] | Ids | None = None
    ) -> TransformerOutput:
        """Return the logits of every class at every position, and the attention."""
        real = torch.ones_like(input_ids, dtype=torch.bool)
        if attention_mask is not None:
            there = attention_mask.bool()
            real = there.flip(1).cummax(1).values.flip(1)
            input_ids = input_ids.masked_fill(real & ~there, self.unknown)
        vectors = self.embedding(self._words(input_ids))
        with without_cudnn():
            return self._scored(input_ids, vectors, real.sum(1))

    def _words(self, input_ids: Ids) -> Ids:
        """The row of the embedding for each token."""
        return input_ids

    @abstractmethod
    def _scored(self, input_ids: Ids, vectors: Vectors, lengths: Lengths) -> TransformerOutput:
        """The output on rows of these lengths, computed from the vectors of their tokens."""


def _apart(vectors: Vectors) -> tuple[Words, Ids]:
    """The vectors as a vocabulary in which every token of a batch is a word of its own, and their ids."""
    weight = vectors.flatten(0, 1)
    return weight, torch.arange(len(weight), device=weight.device).view(vectors.shape[:2])


class ReadDocuments(SingleHead):
    """A `Classifier`, whose two classes have the logits 0 and $s$, with the same output at every position."""

    def __init__(self, model: Classifier) -> None:
        super().__init__(model, model.embedding.weight, UNK_ID)

    def _scored(self, input_ids: Ids, vectors: Vectors, lengths: Lengths) -> TransformerOutput:
        weight, ids = _apart(vectors)
        found = functional_call(self.model, {"embedding.weight": weight}, (ids, lengths))
        logits = torch.stack([torch.zeros_like(found.logits), found.logits], -1)
        n = input_ids.shape[1]
        attention = found.alpha[:, None, None, None].expand(-1, 1, 1, n, -1)
        return TransformerOutput(logits[:, None].expand(-1, n, -1), attention)


class ReadAndWritten(SingleHead):
    """A model that reads a source and writes a target; the module explains how both form one row.

    Logits and attention are 0 at the source's positions before its last, which predict nothing.
    """

    def written(self, ids: Int64[Tensor, "*some"]) -> Int64[Tensor, "*some"]:
        """The ids in a row for target tokens with the ids `ids`."""
        return ids + self.embedding.num_embeddings

    def _words(self, input_ids: Ids) -> Ids:
        return input_ids % self.embedding.num_embeddings

    def _scored(self, input_ids: Ids, vectors: Vectors, lengths: Lengths) -> TransformerOutput:
        weight, ids = _apart(vectors)
        weight = torch.cat([weight, self.embedding.weight[self.start][None]])
        place = torch.arange(input_ids.shape[1], device=input_ids.device)
        in_source = (input_ids < self.embedding.num_embeddings) & (place < lengths[:, None])
        sources = in_source.sum(1)
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for n in sources.unique().tolist():  # encoders that cannot tell padding read sources of one length
            (rows,) = (sources == n).nonzero(as_tuple=True)
            target = torch.cat([torch.full_like(ids[rows, :1], len(weight) - 1), ids[rows, n:]], 1)
            logits, alpha = self._written_on(weight, ids[rows, :n], target)
            before = logits.new_zeros(len(rows), n - 1, logits.shape[-1])
            rest = place.numel() - n
            alpha = nn.functional.pad(alpha, (0, rest, n - 1, 0))
            parts.append((rows, torch.cat([before, logits], 1), alpha))
        rows, logits, alpha = (torch.cat(each) for each in zip(*parts, strict=True))
        order = rows.argsort()
        return TransformerOutput(logits[order], alpha[order][:, None, None])

    start: int
    """The id that a target begins with."""

    @abstractmethod
    def _written_on(self, weight: Words, source: Source, target: Target) -> Written:
        """Logits and attention of the target tokens, for sources of one length."""


class ReadSentences(ReadAndWritten):
    """A `Seq2Seq`."""

    start = BOS_ID

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__(model, model.embedding.weight, UNK_ID)

    def _written_on(self, weight: Words, source: Source, target: Target) -> Written:
        lengths = torch.full_like(source[:, 0], source.shape[1])
        decoded = functional_call(self.model, {"embedding.weight": weight}, (source, lengths, target))
        return self.model.to_vocabulary(decoded.joined), decoded.alpha  # type: ignore[operator]


class ReadCopies(ReadAndWritten):
    """One of the models of a `Copier`, which has no unknown word: a vector of zeros takes its place."""

    def __init__(self, model: Copier, seed: int | None = None) -> None:
        config = model.config
        seed = config.seeds[0] if seed is None else seed
        if seed not in config.seeds or not config.shared:
            raise ValueError(
                f"seed should be one of {config.seeds}, of a copier with shared vectors; got {seed}, "
                f"shared={config.shared}"
            )
        one = Copier(replace(config, seeds=(seed,))).to(model.embedding.device)
        at = config.seeds.index(seed)
        one.load_state_dict({name: weight[at : at + 1] for name, weight in model.state_dict().items()})
        vectors = nn.functional.pad(one.embedding[0].detach(), (0, 0, 0, 1))
        super().__init__(one.eval(), vectors, config.vocabulary)
        self.start = config.vocabulary - 1

    def _written_on(self, weight: Words, source: Source, target: Target) -> Written:
        copied = functional_call(self.model, {"embedding": weight[None]}, (source[None], target[None]))
        return copied.logits[0], copied.alpha[0].mean(1)


@measure
@torch.no_grad()
def attention_of_the_head(model: SingleHead, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """The head's attention to each token at the query."""
    with evaluating(model):
        attentions = model(prompts.ids).attentions
    assert attentions is not None
    return attentions[:, 0, 0, prompts.query]


@measure
def occluded(model: SingleHead, prompts: Prompts, *, batch_size: int = 64) -> Float[Tensor, "batch key"]:
    """Occlusion with the unknown word in the token's place; see `blank_out`."""
    asked = {"query": prompts.query, "target": prompts.target, "foil": prompts.foil}
    return blank_out(model, prompts.ids, **asked, replacement=model.unknown, batch_size=batch_size)


SINGLE_HEAD: dict[str, Method] = {
    "raw attention, last layer": attention_of_the_head,
    "gradient x embedding": gradient_x_embedding,
    "blank-out": occluded,
}
"""Name -> function, as in `METHODS`."""
