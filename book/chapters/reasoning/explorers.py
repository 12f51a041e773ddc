"""A stored model that reverses strings, with a slider that moves the attention of all its heads."""

from typing import Any

from attnlib.models.stored import stored_model

TEXTS = ("lookatthelettertocopy", "notnearlyaslong", "dh13h")
"""What the model reverses at first: 21 letters, where its training ended at ten; fewer; and few."""


def redirecting() -> dict[str, Any]:
    """What a `ModelExplorer` takes to begin with the slider alone, at the end where nothing is moved."""
    small = stored_model("algorithmic_reasoning", "string reversal, sinusoidal positions")
    config = small.model.config
    heads = [(layer, head) for layer in range(config.n_layers) for head in range(config.n_heads)]
    shown = {"model": small.model, "task": small.task, "texts": TEXTS, "note": small.note}
    swaps = {f"L{layer}H{head}": "program" for layer, head in heads}
    moved = {"swaps": swaps, "strength": 0.0, "first": "strength"}
    return {"models": {small.name: shown}, "layer": config.n_layers - 1, "head": -1, **moved}
