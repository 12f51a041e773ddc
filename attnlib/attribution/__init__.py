"""Attribution: which tokens a prediction depends on, by every measure of one registry."""

from attnlib.attribution.asking import attribute
from attnlib.attribution.attention import from_attention
from attnlib.attribution.learned import learned_heads
from attnlib.attribution.prompts import Prompts, measure
from attnlib.attribution.registry import METHODS, attributions
from attnlib.attribution.spans import span_attributions

__all__ = [
    "METHODS",
    "Prompts",
    "attribute",
    "attributions",
    "from_attention",
    "learned_heads",
    "measure",
    "span_attributions",
]
