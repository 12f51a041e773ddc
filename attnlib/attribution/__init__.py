"""What a prediction drew on: every answer to that question, in one registry."""

from attnlib.attribution.attention import from_attention
from attnlib.attribution.heads import best_head, head
from attnlib.attribution.prompts import Prompts, measure
from attnlib.attribution.registry import METHODS, attribute, attributions

__all__ = [
    "METHODS",
    "Prompts",
    "attribute",
    "attributions",
    "best_head",
    "from_attention",
    "head",
    "measure",
]
