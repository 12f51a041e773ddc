"""Greedy decoding: always the most probable token, whatever a model's own generation settings say.

A model's `generation_config.json` may require sampling, penalties on repetition, forbidden words, forced
end tokens and more. The token that is shown as the most probable has to be the argmax of the logits, so
these settings are ignored; only the file's end tokens are used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attnlib.models.attention.forward import embedded_by

_NO_DECODING = ("eos_token_id", "bos_token_id", "pad_token_id", "use_cache", "transformers_version")
"""Generation settings that do not affect which token is chosen, like those named `_...` or `output_...`."""


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """The ids of all tokens that end a text; an empty list if none is named.

    They are read from the first of these that names any: the model's generation config, the model's config,
    the tokenizer. An id that is not a whole number raises a `ValueError`.
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
    """Make `generate` choose the most probable token from now on; return the names of ignored settings."""
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
