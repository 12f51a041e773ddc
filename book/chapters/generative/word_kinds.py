"""On what kinds of tokens rollout's mass lies, and how much of that needs no training.

On today's language models most of the mass goes to the first token, whatever it is, and much of the rest to
punctuation. Whether that says something about the model shows beside the same model before training, and
beside attention that looks everywhere equally.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from attnlib.models.pretrained import untrained_twin
from attnlib.rollout import rollout_of, uniform_causal_rollout

KINDS = ("first token", "punctuation", "function word", "other")

FUNCTION_WORDS = frozenset(
    "a about after all although an and any are as at be because been before being but by can could did do "  # noqa: SIM905
    "does for from had has have he her him his how i if in into is it its may me might must my no nor not of "
    "on or our shall she should so some than that the their them then there these they this those though to "
    "was we were what when where which while who whom whose why will with would you your".split()
)
"""English articles, pronouns, prepositions, conjunctions and auxiliaries."""


def kinds_of(tokenizer: Any, text: str) -> tuple[list[int], list[str]]:
    """A text's tokens, and the kind of each, one of `KINDS`; the first token is a kind of its own.

    A part of a function word is one, too; what holds no letter or digit, such as a blank, is punctuation.
    """
    encoded = tokenizer(text, return_offsets_mapping=True, return_attention_mask=False)
    if not encoded["input_ids"]:
        raise ValueError("there should be a text; got one without tokens")
    function = np.zeros(len(text) + 1, dtype=bool)
    for word in re.finditer(r"[^\W\d_]+(?:['’][^\W\d_]+)?", text):
        function[word.start() : word.end()] = word.group().lower() in FUNCTION_WORDS
    kinds = []
    for start, end in encoded["offset_mapping"]:
        solid = [index for index in range(start, end) if text[index].isalnum()]
        kinds.append("punctuation" if not solid else "function word" if function[solid].all() else "other")
    return encoded["input_ids"], ["first token", *kinds[1:]]


def mass_by_kind(model: Any, tokenizer: Any, texts: Iterable[str], *, seed: int = 0) -> pd.DataFrame:
    """Rollout's mass per layer and kind of key, for a model and for what has not been trained."""
    followed = {"trained": model, "untrained": untrained_twin(model, seed)}
    n_layers = int(model.config.get_text_config().num_hidden_layers)
    masses: dict[str, list[Float[np.ndarray, "layer kind"]]] = {name: [] for name in (*followed, "uniform")}
    shares = []
    for text in texts:
        ids, kinds = kinds_of(tokenizer, text)
        tokens, last = torch.tensor([ids], device=model.device), [len(ids) - 1]
        is_kind = torch.tensor([[kind == each for each in KINDS] for kind in kinds], dtype=torch.float64)
        shares.append(is_kind.mean(0).numpy())
        rolled = {
            name: rollout_of(each, tokens, rows=last, cumulative=True)[0] for name, each in followed.items()
        }
        rolled["uniform"] = uniform_causal_rollout(len(ids), n_layers, rows=last, cumulative=True)
        for name, rows in rolled.items():
            masses[name].append((rows.cpu().double() @ is_kind)[:, 0].numpy())
    if not shares:
        raise ValueError("there should be texts; got none")
    stacked = np.stack([np.stack(per_text, axis=1) for per_text in masses.values()])  # model layer text kind
    depth, n = stacked.shape[1:3]
    levels: list[Any] = [list(masses), range(1, depth + 1), range(n), KINDS]
    index = pd.MultiIndex.from_product(levels, names=["model", "layer", "text", "kind"])
    of_keys = np.broadcast_to(np.array(shares), stacked.shape)
    return pd.DataFrame({"value": stacked.ravel(), "tokens": of_keys.ravel()}, index).reset_index()
