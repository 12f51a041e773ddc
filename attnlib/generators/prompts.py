"""Token ids of prompts, plain or as a chat, with or without a continuation; and three example prompts."""

from __future__ import annotations

from typing import Any

from jaxtyping import Int64
from torch import Tensor

from attnlib.checks import check_some, check_text
from attnlib.options import plain_options

EXAMPLES = {
    "a name and a country": "My name is Anna and I live in France. The capital of my country is",
    "a context with a question": (
        "The ferry to the island leaves at nine in the morning and comes back at six in the evening. "
        "A ticket costs twelve euros, and children travel for free.\n"
        "Question: How much does a ticket cost?\n"
        "Answer: A ticket costs"
    ),
    "a long passage with a question": (
        "The lighthouse on the northern cape was built by a schoolteacher named Ingrid Halvorsen, who "
        "had lost two brothers to the rocks below it. For three years she carried stones up the cliff "
        "with a borrowed mule, and the fishermen laughed at her. In the fourth year a storm kept the "
        "fleet at sea for two nights, and it was her lamp, burning whale oil behind a window of green "
        "glass, that brought all eleven boats home. After that nobody laughed. The village gave her a "
        "house, a pension, and a silver bell, which she hung above the door and never once rang. "
        "Ships from the south still look for a green light, although the lamp has been electric since "
        "the war and the glass was broken long ago by a frightened owl. Her mule is buried in the "
        "garden, under a pear tree.\n"
        "Question: Who built the lighthouse?\n"
        "Answer: The lighthouse was built by a schoolteacher named"
    ),
}
"""The three kinds of prompt that the study of rollout for generation shows, with texts of our own."""


@plain_options
def encode(text: str, tokenizer: Any, chat: bool = False) -> Int64[Tensor, "1 token"]:
    """The token ids of a prompt, in the chat template if `chat`, without a tokenizer's end token."""
    check_some(prompt=text)
    check_text(prompt=text)
    if not chat:
        return _without_end(text, tokenizer)
    return _in_a_chat(text, tokenizer, return_tensors="pt", return_dict=True)["input_ids"]


@plain_options
def continued(
    text: str, continuation: str, tokenizer: Any, chat: bool = False
) -> tuple[Int64[Tensor, "1 prompt"], Int64[Tensor, " generated"]]:
    """The token ids of a prompt, and those of its continuation, from tokenizing both as one text.

    The continuation is appended without a space (so it begins with one where it begins a word). It must
    start at a token boundary, else `ValueError`. In a chat it is the beginning of the answer.
    """
    prompt = encode(text, tokenizer, chat)
    check_some(continuation=continuation)
    check_text(continuation=continuation)
    if chat:
        text = _in_a_chat(text, tokenizer, tokenize=False)
    whole = _without_end(text + continuation, tokenizer, add_special_tokens=not chat)[0]
    n = prompt.shape[1]
    if not whole[:n].equal(prompt[0]) or len(whole) == n:
        raise ValueError(
            f"the continuation {continuation!r} does not begin a token of its own behind {text[-20:]!r}; a "
            "blank in front of it may be missing, or one at the prompt's end may be too much"
        )
    return prompt, whole[n:]


def _without_end(text: str, tokenizer: Any, **how: bool) -> Int64[Tensor, "1 token"]:
    """The token ids of a text, without special tokens that the tokenizer appends."""
    read = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True, **how)
    own = (read["special_tokens_mask"][0] == 0).nonzero()
    return read["input_ids"][:, : int(own[-1]) + 1] if len(own) else read["input_ids"]


def _in_a_chat(text: str, tokenizer: Any, **told: Any) -> Any:
    """A user's message in the model's chat template ("default" if several), up to the answer's beginning.

    A template is code that comes with the model. Any exception that it raises becomes a `ValueError`.
    """
    template = tokenizer.chat_template
    if isinstance(template, dict) and "default" not in template:
        raise ValueError(
            f"this tokenizer has chat templates {', '.join(template)}, and none is called default: set "
            "tokenizer.chat_template to one of them, or ask with chat=False"
        )
    if not template:
        raise ValueError(
            "this tokenizer has no chat template; ask with chat=False, or take an instructed model"
        )
    message = [{"role": "user", "content": text}]
    try:
        return tokenizer.apply_chat_template(message, add_generation_prompt=True, **told)
    except Exception as error:
        raise ValueError(
            f"this tokenizer's chat template cannot be used ({type(error).__name__}: {error}); ask with "
            "chat=False"
        ) from error
