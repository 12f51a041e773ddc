"""What is trained: transformer, classifier, seq2seq, and Hugging Face models."""

from attnlib.models.ablation import heads_ablated
from attnlib.models.causal import ARCHITECTURES, CausalSizes
from attnlib.models.classifier import (
    BiLSTM,
    Classifier,
    ClassifierConfig,
    ClassifierOutput,
    document_loss,
    document_scores,
)
from attnlib.models.reinforcement import causal_null, reinforced
from attnlib.models.transformer import Transformer, TransformerConfig, TransformerOutput, attend

__all__ = [
    "ARCHITECTURES",
    "BiLSTM",
    "CausalSizes",
    "Classifier",
    "ClassifierConfig",
    "ClassifierOutput",
    "Transformer",
    "TransformerConfig",
    "TransformerOutput",
    "attend",
    "causal_null",
    "document_loss",
    "document_scores",
    "heads_ablated",
    "reinforced",
]
