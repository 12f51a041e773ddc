"""Training of models: the loop, its plan, losses and scores, checkpoints, and the cache."""

from attnlib.files import CheckpointError
from attnlib.training.cache import trained
from attnlib.training.loop import Event, also_before, fit
from attnlib.training.objectives import attention_error, token_loss, token_scores, token_scores_and_loss
from attnlib.training.plan import History, Plan

__all__ = [
    "CheckpointError",
    "Event",
    "History",
    "Plan",
    "also_before",
    "attention_error",
    "fit",
    "token_loss",
    "token_scores",
    "token_scores_and_loss",
    "trained",
]
