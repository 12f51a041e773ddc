"""What is trained: transformer, classifier, seq2seq, and Hugging Face models."""

from attnlib.models.causal import ARCHITECTURES, CausalSizes
from attnlib.models.reinforcement import causal_null, reinforced
from attnlib.models.transformer import Transformer, TransformerConfig, TransformerOutput, attend

__all__ = [
    "ARCHITECTURES",
    "CausalSizes",
    "Transformer",
    "TransformerConfig",
    "TransformerOutput",
    "attend",
    "causal_null",
    "reinforced",
]
