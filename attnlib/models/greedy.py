"""Greedy writing: the likeliest token each time, whatever a model's own settings for writing say.

A `generation_config.json` beside a model may ask for sampling, penalties on repetition, words that are never
written, forced ends and more. What is shown as the likeliest token has to be the argmax of the logits, so
these are set aside; of that file only the end tokens count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attnlib.models.attention.forward import embedded_by

_NO_DECODING = ("eos_token_id", "bos_token_id", "pad_token_id", "use_cache", "transformers_version")
"""What a generation config says that chooses no token; names that begin or end otherwise: `_`, `output_`."""


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """The ids of all tokens that end a text; an empty list if none is named.

    They are those of the model's generation config; if it names none, of its config; if that names none, of
    its tokenizer.
    """
    found: list[Any] = []
    for source in (getattr(model, "generation_config", None), model.config, tokenizer):
        if (named := getattr(source, "eos_token_id", None)) is not None:
            found = [*named] if isinstance(named, Iterable) and not isinstance(named, str) else [named]
            break
    if wrong := [token for token in found if type(token) is not int]:
        raise ValueError(
            f"eos_token_id must be a whole number, the id of a token, or a list of them; got {wrong[0]!r}. "
            "Mend it in the model's generation_config.json"
        )
    size = embedded_by(model)  # no other id is ever written
    return [token for token in dict.fromkeys(found) if token >= 0 and (size is None or token < size)]


def write_greedily(model: Any, tokenizer: Any) -> list[str]:
    """Let `generate` take the likeliest token from now on; returns the names of settings set aside."""
    from transformers import GenerationConfig

    if getattr(model, "generation_config", None) is None:  # it cannot generate
        return []
    ends, own = end_tokens(model, tokenizer), vars(model.generation_config)
    plain = GenerationConfig(do_sample=False)
    if ends:
        plain.eos_token_id, plain.pad_token_id = ends, ends[0]
    model.generation_config = plain
    unset = vars(GenerationConfig())
    return sorted(
        name
        for name, value in own.items()
        if value is not None and value != unset.get(name) and not name.startswith(("_", "output_"))
        if name not in _NO_DECODING
    )
