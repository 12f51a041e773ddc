"""What is trained: transformer, classifier, seq2seq, and Hugging Face models."""

import torch

from attnlib.models.causal import ARCHITECTURES, CausalSizes
from attnlib.models.classifier import (
    BiLSTM,
    Classifier,
    ClassifierConfig,
    ClassifierOutput,
    document_loss,
    document_scores,
)
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
    "document_loss",
    "document_scores",
]

torch.backends.cudnn.allow_tf32 = False  # an LSTM's products on a GPU would keep 10 bits of float32's 23
