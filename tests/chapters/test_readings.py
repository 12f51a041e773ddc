"""What an explorer shows of a sample is the model's attention, without the prompt's long beginning."""

import torch

from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import task
from attnlib.models import CausalSizes
from attnlib.rollout.core import rollout_by_definition
from attnlib.widgets import AttentionExplorer
from book.chapters import readings

torch.set_num_threads(1)
TOKENIZER = char_tokenizer()
MODEL = CausalSizes(n_layers=2, n_heads=2, width=16).build("llama", TOKENIZER).eval()


def test_a_plain_text_is_shown_whole():
    sample = task("string_reversal", TOKENIZER).annotate("abc=cba")
    shown = readings.reading(MODEL, TOKENIZER, sample)
    assert "".join(shown["tokens"]) == "<bos>abc=cba"
    torch.testing.assert_close(shown["attentions"].sum(-1), torch.ones(2, 2, 8))
    assert torch.equal(shown["references"], sample.reference)
    assert "8 tokens, 2 layers x 2 heads" in repr(AttentionExplorer.from_examples({"abc": shown}))


def test_a_long_prompt_is_cut_to_the_question():
    generator = task("string_reversal", TOKENIZER, use_instruction=True, use_few_shot=True)
    shown = readings.reading(MODEL, TOKENIZER, generator.annotate("abc=cba"))
    assert "".join(shown["tokens"]) == "abc=cba"
    assert shown["attentions"].shape == (2, 2, 7, 7) and shown["references"].shape == (7, 7)
    assert (shown["attentions"].sum(-1) < 1).all()


def test_a_large_example_is_shown_as_a_mean_over_heads(monkeypatch):
    sample = task("string_reversal", TOKENIZER).annotate("abc=cba")
    whole = readings.reading(MODEL, TOKENIZER, sample)["attentions"]
    monkeypatch.setattr(readings, "MOST", 200)
    mean = readings.reading(MODEL, TOKENIZER, sample)["attentions"]
    torch.testing.assert_close(mean, whole.mean(1, keepdim=True))


def test_rollout_stands_in_the_place_of_the_heads():
    sample = task("string_reversal", TOKENIZER).annotate("abc=cba")
    heads, rolled = (readings.reading(MODEL, TOKENIZER, sample, rolled_out=each) for each in (False, True))
    assert rolled["attentions"].shape == (2, 1, 8, 8)
    (expected,) = rollout_by_definition([layer[None] for layer in heads["attentions"]])
    torch.testing.assert_close(rolled["attentions"][:, 0].double(), expected, atol=1e-6, rtol=0)
    assert torch.equal(rolled["references"], heads["references"])
