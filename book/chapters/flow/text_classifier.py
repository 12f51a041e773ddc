"""Text classifiers, wrapped so that they predict the class at their first token."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification

from attnlib.models.attention.forward import Mask
from attnlib.models.pretrained import ModelUnavailable, at_revision, whole
from attnlib.places import expanded


class TextClassifier(nn.Module):
    """A Hugging Face sequence classifier (DistilBERT, BERT and similar) with the interface for attribution.

    Its head reads the first token (CLS): use `query=0`, and classes as target and foil. Logits at other
    positions are NaN. Occlusion takes a `replacement` (the mask token), or else leaves words out.
    """

    predicts_at = 0
    base_model_prefix = "classifier"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.classifier = model

    @property
    def config(self) -> Any:
        """The configuration of the wrapped model."""
        return self.classifier.config

    @property
    def base_model(self) -> nn.Module:
        """The encoder without its head."""
        return self.classifier.base_model

    def get_input_embeddings(self) -> nn.Module:
        """The embedding of its input tokens."""
        return self.classifier.get_input_embeddings()

    def forward(
        self,
        input_ids: Int[Tensor, "batch token"],
        attention_mask: Mask = None,
        position_ids: Int[Tensor, "batch token"] | None = None,
        logits_to_keep: int = 0,
    ) -> SimpleNamespace:
        """Logits `[batch token class]`; ValueError if `logits_to_keep` (0: all) omits the first token."""
        if 0 < logits_to_keep < input_ids.shape[1]:
            raise ValueError(
                f"{type(self.classifier).__name__} puts the whole text in one class, at its first token: ask "
                f"with query=0, not {input_ids.shape[1] - logits_to_keep}."
            )
        given = {} if position_ids is None else {"position_ids": position_ids}
        mask = None if attention_mask is None else attention_mask.long()
        logits = self.classifier(input_ids=input_ids, attention_mask=mask, **given).logits
        if logits.ndim != 2:
            raise ValueError(
                f"{type(self.classifier).__name__} should give a row of logits per text, [batch class]. Got "
                f"shape {tuple(logits.shape)} instead; a model that predicts at every token needs no "
                "TextClassifier."
            )
        empty = logits.new_full((*input_ids.shape, logits.shape[-1]), torch.nan)
        return SimpleNamespace(logits=torch.cat([logits[:, None], empty[:, 1:]], 1))


def load_text_classifier(name: str) -> tuple[TextClassifier, Any]:
    """A sequence classifier in evaluation mode, and its tokenizer."""
    try:
        place, revision = (name, None) if expanded(name).is_dir() else at_revision(name)
        how = {"revision": revision} if revision else {}
        model, tokenizer = whole(place, AutoModelForSequenceClassification, "a text classifier", **how)
    except ModelUnavailable as error:
        raise ModelUnavailable(
            f"{error} Give a folder with one, or a name on the Hugging Face hub (owner/model@revision) where "
            "that can be reached."
        ) from error
    return TextClassifier(model).eval(), tokenizer
