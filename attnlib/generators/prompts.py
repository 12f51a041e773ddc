"""Prompts in the manner of the study of rollout for generation: the answer stands in the text."""

from __future__ import annotations

from typing import Any

from jaxtyping import Int64
from torch import Tensor

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
"""The three kinds of prompt that the study shows, with texts of our own."""


def encode(text: str, tokenizer: Any, chat: bool = False) -> Int64[Tensor, "1 token"]:
    """A prompt as ids, in the tokenizer's chat template if asked for.

    Raises:
        ValueError: the text is empty, or there is no chat template.
    """
    if not text:
        raise ValueError("the prompt should have at least one character; got an empty text")
    if not chat:
        return tokenizer(text, return_tensors="pt")["input_ids"]
    if tokenizer.chat_template is None:
        raise ValueError(
            "this tokenizer has no chat template; ask with chat=False, or take an instructed model"
        )
    message = [{"role": "user", "content": text}]
    told = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
    return tokenizer.apply_chat_template(message, **told)["input_ids"]
