"""The one door to a model's attention: watch it, change it."""

from attnlib.models.attention.ablation import heads_ablated
from attnlib.models.attention.affine import Affine
from attnlib.models.attention.call import AttentionCall, Wanted
from attnlib.models.attention.interface import Block, changing, replacing, watching
from attnlib.models.attention.reinforcement import causal_null, reinforced
from attnlib.models.attention.sharing import shared_out
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
    "shared_out",
    "watching",
]
