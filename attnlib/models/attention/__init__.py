"""The one door to a model's attention: watch it, change it."""

from attnlib.models.attention.ablation import heads_ablated
from attnlib.models.attention.reinforcement import causal_null, reinforced

__all__ = ["causal_null", "heads_ablated", "reinforced"]
