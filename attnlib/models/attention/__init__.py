"""The package through which all other code observes and changes a model's attention."""

from attnlib.models.attention.call import Affine, AttentionCall, Wanted
from attnlib.models.attention.changes import causal_null, heads_ablated, reinforced
from attnlib.models.attention.interface import Block, changing, replacing, watching
from attnlib.models.base import evaluating

__all__ = [
    "Affine",
    "AttentionCall",
    "Block",
    "Wanted",
    "causal_null",
    "changing",
    "evaluating",
    "heads_ablated",
    "reinforced",
    "replacing",
    "watching",
]
