"""A small training, kept in the cache as `trained` does: of a model that sorts."""

import torch

from attnlib.generators.rasp import language
from attnlib.models import Transformer, TransformerConfig
from attnlib.training import Plan, token_loss, token_scores, trained

LANGUAGE = language("sort", alphabet_size=10)
SEEN = LANGUAGE.sequences(60, max_length=6)
VALID = LANGUAGE.in_batches(LANGUAGE.sequences(20, split="valid", max_length=6))
PLAN = Plan(steps=12, evaluate_every=4, device="cpu")


def build(seed=0, **sizes):
    torch.manual_seed(seed)
    sizes = {"n_layers": 1, "width": 16} | sizes
    return Transformer(TransformerConfig(len(LANGUAGE.tokenizer), len(LANGUAGE.classes), **sizes))


def what_is_trained(**changes):
    """What decides a model, but for the hooks."""
    batches, loss = LANGUAGE.batches(SEEN, 10), token_loss(0.5)
    return {"batches": batches, "loss": loss, "plan": PLAN, "valid": VALID, "score": token_scores} | changes


def train(model=None, **changes):
    """The model, and its history."""
    model, how = model or build(), what_is_trained(**{"chapter": "a_test", "progress": False} | changes)
    return model, trained(model, **how)
