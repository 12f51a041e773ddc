"""Models to train and analyse: transformer, classifier, seq2seq, and Hugging Face models.

Importing this package sets `torch.backends.cudnn.allow_tf32` to False for the whole process, so that LSTMs
on a GPU compute in float32, as on a CPU. If your own models do not need this precision, set the switch back
to True after the import.
"""

from typing import TYPE_CHECKING

import torch

from attnlib.lazily import lazily

if TYPE_CHECKING:
    from attnlib.models.causal import CausalSizes, architectures
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
    "BiLSTM",
    "CausalSizes",
    "Classifier",
    "ClassifierConfig",
    "ClassifierOutput",
    "Transformer",
    "TransformerConfig",
    "TransformerOutput",
    "architectures",
    "attend",
    "document_loss",
    "document_scores",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, __file__)

torch.backends.cudnn.allow_tf32 = False  # TF32 keeps 10 of float32's 23 mantissa bits in an LSTM's products
