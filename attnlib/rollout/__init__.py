"""How attention is followed through the layers of a model, down to the tokens it read."""

from attnlib.rollout.dense import rollout
from attnlib.rollout.flow import attention_flow
from attnlib.rollout.generative import (
    UNINFORMATIVE,
    GenerativeRollout,
    TopToken,
    generate_with_rollout,
    raw_attention,
)
from attnlib.rollout.null import null_ratio, uniform_causal_rollout
from attnlib.rollout.stream import StreamedToken, stream_with_rollout
from attnlib.rollout.value_slot import rollout_of

__all__ = [
    "UNINFORMATIVE",
    "GenerativeRollout",
    "StreamedToken",
    "TopToken",
    "attention_flow",
    "generate_with_rollout",
    "null_ratio",
    "raw_attention",
    "rollout",
    "rollout_of",
    "stream_with_rollout",
    "uniform_causal_rollout",
]
