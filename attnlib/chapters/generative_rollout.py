"""Parameters of the chapter on generative rollout."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from attnlib.chapters.base import Params


class GenerativeRolloutParams(Params):
    """Parameters of the chapter `generative_rollout`."""

    model: str = Field(description="a Hugging Face name, a folder, SmolLM2-135M-Instruct or tiny-random")
    prompt: str = Field(description="a prompt of your own; empty: the study's three examples")
    chat: bool = Field(description="whether to wrap prompts in the model's chat template, if it has one")
    max_new_tokens: int = Field(description="how many tokens to generate", ge=1, le=512)
    top_k: int = Field(description="how many prompt tokens to name", ge=1, le=50)
    ignore: list[str] = Field(description="further words to pass over, beside articles and punctuation")
    needles: int = Field(description="items of the needle test; 0: leave it out", ge=0, le=2000)
    facts: list[int] = Field(description="facts per item, by turns", min_length=1)
    blank_outs: int = Field(description="items, of those answered, to try the costly blank-out on", ge=0)
    seed: int = Field(description="of the needle items and of the random model", ge=0)
    device: Literal["auto", "cpu", "cuda"] = Field(description="auto takes a GPU if there is one")

    @model_validator(mode="after")
    def _possible(self) -> GenerativeRolloutParams:
        if not all(2 <= n <= 20 for n in self.facts):
            raise ValueError(f"facts should be numbers from 2 to 20; got {self.facts}")
        return self
