"""A page with a live language model, and small models to open in it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Browser, Page
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from attnlib.generators.prompts import EXAMPLES
from attnlib.models.base import seeded
from attnlib.widgets.front_end import front_end
from attnlib.widgets.live import LIVE, parts
from tests.browser import watched_page

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}{{ '<|im_start|>' + message['role'] + "
    "'\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SCRIPT = """
const PARTS = %s;
async function written(...given) { // every word, its arrays as lists
  const words = [], plain = (value) => (ArrayBuffer.isView(value) ? [...value] : value);
  for await (const word of live.write(...given)) {
    words.push(Object.fromEntries(Object.entries(word).map(([name, value]) => [name, plain(value)])));
  }
  return words;
}
async function opened(source, parts = PARTS) {
  window.live = await LiveModel.open(source, { parts });
  return live.about;
}
const refused = (promise) => promise.then(() => null, (error) => error.message);
const blanked = async (...given) => [...await live.blankOut(...given)].map(String); // NaN is no JSON
"""
FILE = "document.querySelector('input').files[0]"


@contextmanager
def live_page(browser: Browser, file: Path, folder: Path) -> Iterator[tuple[Page, list[str]]]:
    """A page from disk in which a reader has chosen a model's file; nothing is opened yet."""
    script = front_end("model.js", LIVE)[0] + SCRIPT % json.dumps(parts()).replace("</", "<\\/")
    place = folder / "live.html"
    place.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><input type="file"><script>"use strict";{script}</script>'
    )
    with watched_page(browser) as (page, problems):
        page.goto(place.as_uri())
        page.set_input_files("input", file)
        yield page, problems


def small_llama(**settings: Any) -> Any:
    """A Llama of random weights that hold in 16 bits, whose heads look at this or that."""
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
    how = {"vocab_size": 400, "initializer_range": 0.2, "tie_word_embeddings": True, "eos_token_id": 2}
    with seeded(0):
        model = LlamaForCausalLM(LlamaConfig(**{**sizes, **heads, **how, **settings})).eval()
    model.load_state_dict({name: weight.half().float() for name, weight in model.state_dict().items()})
    return model


def small_tokenizer(digits: bool = True) -> Any:
    """Byte-level pairs of a few texts, split as SmolLM's or as GPT-2's."""
    tokenizer = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    steps = [pre_tokenizers.Digits(individual_digits=True), level]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if digits else level
    tokenizer.decoder = decoders.ByteLevel()
    letters, special = pre_tokenizers.ByteLevel.alphabet(), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(vocab_size=390, initial_alphabet=letters, special_tokens=special)
    tokenizer.train_from_iterator(EXAMPLES.values(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    names = {"bos_token": special[1], "eos_token": special[2], "pad_token": special[2]}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=CHATML, **names)


def rows_of(word: dict[str, Any], name: str, *shape: int) -> torch.Tensor:
    """A word's rows `[*shape n]`."""
    return torch.tensor(word[name]).view(*shape, word["n"])
