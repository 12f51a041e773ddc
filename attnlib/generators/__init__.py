"""Where samples come from: text, token ids, targets, and the reference attention."""

from attnlib.generators.base import IGNORE, Batch, Head, Sample
from attnlib.generators.tokenizer import char_tokenizer

__all__ = ["IGNORE", "Batch", "Head", "Sample", "char_tokenizer"]
