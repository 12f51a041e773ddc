"""The six algorithmic tasks: labels as the study published them, from texts that it wrote."""

import json
from pathlib import Path

import pytest
import torch

from attnlib.generators import IGNORE, char_tokenizer
from attnlib.generators.algorithmic import TASKS, task

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "algorithmic_tasks.json").read_text())
CHARACTERS, CHAT = char_tokenizer(), char_tokenizer()
CHAT.chat_template = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<U>{{ m.content }}{% else %}"
    "<A>{{ m.content }}<E>{% endif %}{% endfor %}"
)


def positions(mask, shift=1):
    """Where a mask is True, in characters of the text: token 0 is the beginning of the sequence."""
    return (mask.nonzero() - shift).squeeze(-1).tolist()


def check_golden(sample, golden, shift):
    size = len(sample.input_ids)
    assert size == golden["n_input_tokens"]
    assert sample.reference.shape == sample.evaluated.shape == (size, size)
    seen = sample.reference & sample.evaluated
    assert sorted(positions(seen, shift)) == sorted(golden["ones"])
    assert positions(~sample.evaluated.any(1), shift) == golden["ignored_rows"]
    empty = sample.evaluated.any(1) & ~seen.any(1)
    assert positions(empty, shift) == golden["zero_rows"]
    assert positions(sample.target_ids != IGNORE, shift) == golden["target_rows"]
    assert positions(~sample.evaluated[-1], shift) == golden["ignored_cols_in_last_row"]


@pytest.mark.parametrize("name", TASKS)
def test_labels_as_published_equal_the_studys(name):
    gold = [g for g in GOLDEN[name]["samples"] if g["target_rows"]]
    gold += GOLDEN["bug_flipflop_first_command"] if name == "flip_flop" else []
    for golden in gold:
        check_golden(task(name, CHARACTERS, as_published=True).annotate(golden["text"]), golden, shift=1)


@pytest.mark.parametrize("name", TASKS)
def test_labels_of_chats_as_published_equal_the_studys(name):
    around = {"apply_chat_template": True, "use_instruction": True, "instruction": "Hi.|"}
    g = task(name, CHAT, as_published=True, **around)
    for golden in GOLDEN[name]["chat"]["samples"]:
        text = golden["text"].removeprefix("<U>Hi.|").removesuffix("<E>")
        sample = g.annotate(text.replace("<A>", ""))
        assert sample.text.removeprefix("<bos>") == golden["text"]
        assert "".join((sample.prompt, "<A>", sample.answer)) == text
        check_golden(sample, golden, shift=0)


@pytest.mark.parametrize("name", TASKS)
def test_labels_are_the_studys_but_for_its_errors(name):
    differ = set()
    for golden in GOLDEN[name]["samples"]:
        if golden["target_rows"]:
            ours = task(name, CHARACTERS).annotate(golden["text"])
            published = task(name, CHARACTERS, as_published=True).annotate(golden["text"])
            for mask in ("reference", "evaluated"):
                if not torch.equal(getattr(ours, mask), getattr(published, mask)):
                    differ.add(mask)
    expected = {
        "long_multiplication": {"reference"},  # its labels leave the shift out
        "flip_flop": {"reference"},  # they leave the first command out
        "string_reversal": {"evaluated"},  # they leave the first character out
    }
    assert differ == expected.get(name, set())


def test_padding_is_like_the_studys():
    g = task("string_reversal", CHARACTERS)
    golden = GOLDEN["padding"]
    dataset = g.generate_dataset([g.annotate(text) for text in golden["texts"]], pad_token=0)
    assert list(dataset.batch.input_ids.shape) == golden["input_shape"]
    assert (dataset.batch.target_ids != IGNORE).int().tolist() == golden["target_ids"]
    items = [dataset[i] for i in range(len(dataset))]
    assert torch.stack([item["attn_labels"] for item in items]).shape == tuple(golden["attn_shape"])
    assert all(str(item["attn_labels"].dtype) == golden["attn_dtype"] for item in items)
    assert {int(item["input_ids"][-1]) for item in items[1:]} == {golden["pad_input_value"]}
