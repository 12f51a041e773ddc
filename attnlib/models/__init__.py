"""What is trained: transformer, classifier, seq2seq, and Hugging Face models."""

from attnlib.models.transformer import Transformer, TransformerConfig, TransformerOutput, attend

__all__ = ["Transformer", "TransformerConfig", "TransformerOutput", "attend"]
