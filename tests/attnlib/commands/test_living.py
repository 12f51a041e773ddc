"""`attnlib look --live`: a page that holds a model, and one line for each that it cannot hold."""

import re

import gguf
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from attnlib.commands import main
from attnlib.generators.prompts import encode
from attnlib.pieces import pieces
from attnlib.rollout import generate_with_rollout
from attnlib.widgets.live import checking, packing
from tests.browser import open_browser, watched_page
from tests.explorers import HOSTILE
from tests.live_page import small_llama, small_tokenizer

TEXT = "The ferry to the island"


def saved(model, folder, tokenizer=None):
    model.save_pretrained(folder)
    (tokenizer or small_tokenizer()).save_pretrained(folder)
    return str(folder)


def refusal(capsys, *arguments) -> str:
    assert main(["look", *map(str, arguments), "--live"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    return err.strip().splitlines()[-1]


@pytest.mark.book
@pytest.mark.parametrize("kind", ["folder", "GGUF"])
def test_who_is_sent_the_page_sees_what_python_computes(kind, tmp_path, capsys):
    model, tokenizer, chat = small_llama(), small_tokenizer(), kind == "folder"
    name, page_file = saved(model, tmp_path / "ferry"), tmp_path / "sent.html"
    if kind == "GGUF":
        name = str(tmp_path / "ferry.gguf")
        packing.pack(model, tokenizer, tmp_path / "ferry.gguf")
    assert main(["look", name, TEXT, "--live", *["--chat"] * chat, "-o", str(page_file)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{page_file}\n" and re.search(r"Packing \d+ MB into a page", err)
    assert str(tmp_path) not in page_file.read_text()
    ids = encode(TEXT, tokenizer, chat)
    result = generate_with_rollout(model, ids, 24, do_sample=False)
    expected = pieces([*ids[0].tolist(), *result.tokens.tolist()], tokenizer)[ids.shape[1] :]
    with open_browser() as browser, watched_page(browser) as (page, problems):
        page.goto(page_file.as_uri())
        page.wait_for_selector("[data-g='0']")
        page.wait_for_function("document.querySelector('.attnw-going').hidden")
        shown = page.locator("[data-g]").all_inner_texts()
        assert len(shown) == len(expected)
        both = [pair for pair in zip(shown, expected, strict=True) if pair[1].strip().isprintable()]
        plain = [(seen.strip(), word.strip()) for seen, word in both if word.isascii() and word.strip()]
        assert len(plain) >= 2 and all(seen == word for seen, word in plain)
        assert "runs in it: nothing is sent anywhere" in page.locator("body").inner_text()
        assert problems == []


@pytest.mark.book
def test_markup_in_prompt_and_name_stays_text(tmp_path, capsys):
    name, page_file = saved(small_llama(), tmp_path / "a<b>c"), tmp_path / "sent.html"
    assert main(["look", name, " ".join(HOSTILE), "--live", "-o", str(page_file)]) == 0
    with open_browser() as browser, watched_page(browser) as (page, problems):
        page.goto(page_file.as_uri())
        page.wait_for_selector("[data-g='0']")
        assert page.locator("b, img").count() == 0
        assert problems == []


def test_options_that_are_asked_in_the_page_are_refused_before_it(capsys):
    for option in (["--method", "blank-out"], ["--new-tokens", "3"], ["--span", "x"]):
        assert "are asked in a live page, not before it" in refusal(capsys, "tiny-random", "a", *option)


def test_what_is_no_such_model_gets_one_line(tmp_path, capsys, monkeypatch):
    torch.manual_seed(0)
    other = GPT2LMHeadModel(GPT2Config(vocab_size=400, n_embd=32, n_layer=1, n_head=2))
    stretched = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
    (tmp_path / "page.gguf").write_text("<!DOCTYPE html>" + "x" * 100)
    for name, said in (
        (saved(other, tmp_path / "gpt2"), "a page computes models of Llama's shape"),
        (saved(small_llama(rope_parameters=stretched), tmp_path / "stretched"), "rotary positions 'linear'"),
        (saved(small_llama(attention_bias=True), tmp_path / "biased"), "biases"),
        ("tiny-random", "a page reads byte-level BPE"),
        ("rasp_languages/sort", "leave out --live"),
        (tmp_path / "nothing.gguf", "there is no file"),
        (tmp_path / "nothing", "there is no folder"),
        (tmp_path / "page.gguf", "page.gguf is no whole GGUF file"),
    ):
        assert said in refusal(capsys, name, TEXT)
    assert "the prompt is empty" in refusal(capsys, "tiny-random", " ")
    monkeypatch.setattr(packing, "MOST", 100_000)
    long = saved(small_llama(), tmp_path / "long")
    assert "a page can hold about 150 million" in refusal(capsys, long, TEXT)


@pytest.mark.parametrize(
    ("add", "said"),
    [
        (lambda writer: writer.add_tokenizer_pre("qwen2"), "the splitting 'qwen2'"),
        (lambda writer: writer.add_tensor("x", torch.zeros(8).double().numpy()), "stores weights as F64"),
    ],
    ids=["tokenizer", "weights"],
)
def test_a_file_of_another_kind_says_which(add, said, tmp_path, capsys):
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    add(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert said in refusal(capsys, tmp_path / "other.gguf", TEXT)


def test_a_model_that_a_page_cannot_compute_is_refused_before_it_is_written(tmp_path, capsys):
    there, page = small_llama(), tmp_path / "page.html"
    there.model.layers[1].mlp.up_proj.weight.data[0, 0] = torch.nan
    folder = saved(there, tmp_path / "nan")
    for live in (["--live"], []):  # in the same words
        assert main(["look", folder, TEXT, *live, "-o", str(page)]) == 1
        assert "computes what is no number: a weight of it is none" in capsys.readouterr().err
    there = small_llama()
    packing.pack(there, small_tokenizer(), tmp_path / "whole.gguf")
    data = (tmp_path / "whole.gguf").read_bytes()
    layers = b"llama.block_count\x04\0\0\0\x03\0"
    assert data.count(layers) == 1
    (tmp_path / "layers.gguf").write_bytes(data.replace(layers, layers[:-2] + b"\xff\xff"))
    (tmp_path / "nan.gguf").write_bytes(data[:-4] + b"\xff" * 4)
    assert "claims to have 65535 layers" in refusal(capsys, tmp_path / "layers.gguf", TEXT)
    assert "computes what is no number" in refusal(capsys, tmp_path / "nan.gguf", TEXT)
    plain = small_tokenizer()
    plain.chat_template = "{{ messages }}"
    folder = saved(there, tmp_path / "plain", plain)
    assert "no chat template that a page knows" in refusal(capsys, folder, TEXT, "--chat", "-o", page)
    assert not page.exists()


@pytest.mark.parametrize(("kind", "count"), [(4, 2**40), (0, 2**62), (8, 2**40), (9, 2**40), (0, 40_000)])
def test_a_header_that_claims_too_much_is_refused_before_anything_is_made_of_it(
    kind, count, tmp_path, capsys, monkeypatch
):
    """A list of so many numbers, texts or lists, in a file that ends before them, or holds too many."""
    monkeypatch.setattr(checking, "MOST_VALUES", 30_000)
    whole = [(3).to_bytes(4, "little"), *(each.to_bytes(8, "little") for each in (0, 1, 1)), b"a"]
    header = b"GGUF" + b"".join(whole) + (9).to_bytes(4, "little") + kind.to_bytes(4, "little")
    (tmp_path / "forged.gguf").write_bytes(header + count.to_bytes(8, "little") + bytes(50_000))
    said = refusal(capsys, tmp_path / "forged.gguf", TEXT)
    assert "forged.gguf is no whole GGUF file" in said


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path, capsys):
    with (tmp_path / "large.gguf").open("wb") as file:
        file.truncate(packing.MOST + 1)
    assert "large.gguf has 330 MB; a page can hold" in refusal(capsys, tmp_path / "large.gguf", TEXT)
