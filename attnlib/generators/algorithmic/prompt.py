"""The parts around a text of a task: special tokens, instruction, examples, a chat template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64

from attnlib.checks import check

MARK = "{tokens}"


@dataclass(frozen=True)
class Layout:
    """The parts that all samples of a generator share: `head` prompt `middle` answer `tail`.

    Attributes:
        head: text before the prompt: the beginning of the chat, instruction, examples.
        head_ids: tokens of `head`; outside a chat, behind the beginning-of-sequence token, if there is one.
        tail_ids: tokens of `tail`; outside a chat, the end-of-sequence token if something follows the answer.
    """

    head: str
    middle: str
    tail: str
    head_ids: Int64[np.ndarray, " head"]
    middle_ids: Int64[np.ndarray, " middle"]
    tail_ids: Int64[np.ndarray, " tail"]


def layout(tokenizer: Any, pieces: Sequence[tuple[str, bool]], chat: bool, ends: bool) -> Layout:
    """The parts around a text.

    `pieces` are instruction and examples, each with whether to encode it by character. A chat puts them and
    the prompt into a user's message, the answer into the reply. `ends`: whether tokens follow the answer.
    """
    before, middle, tail = _chat(tokenizer) if chat else ("", "", "")
    head_ids = [*_encode(tokenizer, before)]
    if not chat and tokenizer.bos_token_id is not None:
        head_ids = [tokenizer.bos_token_id]
    for text, by_character in pieces:
        head_ids += character_ids(tokenizer, text) if by_character else _encode(tokenizer, text)
    tail_ids = _encode(tokenizer, tail)
    if ends and not chat:
        check(tokenizer.eos_token_id is not None, "tokenizer must have an eos_token", None)
        tail_ids = [tokenizer.eos_token_id]
    return Layout(
        before + "".join(text for text, _ in pieces),
        middle,
        tail if ends else "",
        np.array(head_ids, dtype=np.int64),
        np.array(_encode(tokenizer, middle), dtype=np.int64),
        np.array(tail_ids if ends else [], dtype=np.int64),
    )


def _chat(tokenizer: Any) -> list[str]:
    template = getattr(tokenizer, "chat_template", None)
    check(template is not None, "tokenizer must have a chat template, with apply_chat_template", template)
    messages = [{"role": "user", "content": MARK}, {"role": "assistant", "content": MARK}]
    parts = tokenizer.apply_chat_template(messages, tokenize=False).split(MARK)
    check(len(parts) == 3, "a chat template must contain two messages, each once", len(parts) - 1)
    return parts


def _encode(tokenizer: Any, text: str) -> list[int]:
    """The token ids of ordinary text; unknown characters raise `ValueError`."""
    ids = list(tokenizer.encode(text, add_special_tokens=False)) if text else []
    unknown = getattr(tokenizer, "unk_token_id", None)
    if unknown is not None and unknown in ids and tokenizer.unk_token not in text:
        strange = [c for c in dict.fromkeys(text) if unknown in tokenizer.encode(c, add_special_tokens=False)]
        raise ValueError(f"tokenizer must have a token for {_listed(strange)}; got none, for {text!r}")
    return ids


def character_ids(tokenizer: Any, characters: Sequence[str]) -> list[int]:
    """The token id of each character, without the mark ("▁") that a tokenizer may put before every text."""
    known = {character: _character_id(tokenizer, character) for character in dict.fromkeys(characters)}
    unknown = [character for character, found in known.items() if found == "none"]
    split = [character for character, found in known.items() if found == "several"]
    if unknown or split:
        found = f"no token for {_listed(unknown)}" if unknown else f"no single token for {_listed(split)}"
        raise ValueError(f"tokenizer must have a token per character, as char_tokenizer() has; got {found}")
    return [int(known[character]) for character in characters]


def _character_id(tokenizer: Any, character: str) -> int | str:
    ids = list(tokenizer.encode(character, add_special_tokens=False))
    unknown = getattr(tokenizer, "unk_token_id", None)
    if len(ids) == 2 and tokenizer.convert_ids_to_tokens(ids[0]) == "▁":
        ids = ids[1:]
    own = tokenizer.convert_tokens_to_ids(character)
    candidates = [*(ids if len(ids) == 1 else []), *([own] if own is not None else [])]
    for index in candidates:
        if index != unknown and _stands_for(tokenizer, index, character):
            return index
    return "none" if unknown in ids or not ids else "several"


def _stands_for(tokenizer: Any, index: int, character: str) -> bool:
    """Whether the token adds the character, and nothing else, to the decoded text."""
    repeated = ([index] * n for n in (1, 2, 3))
    once, twice, thrice = (tokenizer.decode(ids, clean_up_tokenization_spaces=False) for ids in repeated)
    # The second condition is for whole-word tokenizers, which decode with spaces between tokens.
    return thrice == twice + character or tokenizer.convert_ids_to_tokens(index) == once == character


def _listed(characters: Sequence[str]) -> str:
    return ", ".join(map(repr, characters))
