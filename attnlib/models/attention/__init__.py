"""The one door to a model's attention: watch it, change it."""

from attnlib.models.attention.ablation import heads_ablated
from attnlib.models.attention.reinforcement import causal_null, reinforced
from attnlib.models.mode import evaluating

__all__ = ["causal_null", "evaluating", "heads_ablated", "reinforced"]
