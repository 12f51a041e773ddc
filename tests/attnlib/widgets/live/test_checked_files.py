"""A model's file is checked before it is used: by Python before it goes into a page, and by the page."""

import base64
import hashlib
import random

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from attnlib.models.causal import NO_NUMBER
from attnlib.models.gguf import convert
from attnlib.models.greedy import end_tokens, write_greedily
from attnlib.models.pretrained import load_language_model
from attnlib.rollout.generative import generate
from attnlib.widgets.front_end import front_end
from attnlib.widgets.live import LIVE, checking, packing
from tests.browser import open_browser
from tests.live_page import FILE, live_page, small_llama, small_tokenizer

pytestmark = pytest.mark.book
TEXT = "The ferry to the island leaves at nine"


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "small.gguf"
    packing.pack(small_llama(), small_tokenizer(), path)
    return path


def written_again(path, out, said, weights=None):
    """A GGUF file with other values for some of its keys, None for none, and other weights."""
    reader = GGUFReader(path)
    writer = GGUFWriter(out, "llama")
    kept = {
        key: field for key, field in reader.fields.items() if not key.startswith(("GGUF.", "general.arch"))
    }
    known = {key: (field.contents(), field.types) for key, field in kept.items()}
    changed = {key: (value, kind_of(value)) for key, value in said.items() if value is not None}
    for key, (value, kinds) in (known | changed).items():
        if key not in said or key in changed:
            writer.add_key_value(key, value, kinds[0], kinds[1] if len(kinds) > 1 else None)
    tensors = {tensor.name: np.array(tensor.data) for tensor in reader.tensors}
    for name, values in (weights(tensors) if weights else tensors).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def kind_of(value):
    if isinstance(value, list):
        return [GGUFValueType.ARRAY, *kind_of(value[0])]
    kinds = {bool: "BOOL", int: "UINT64", float: "FLOAT32", str: "STRING"}
    return [GGUFValueType[kinds[type(value)]]]


def with_one(name, value):
    """A weight of a matrix, or a vector, that is another."""

    def change(tensors):
        tensors[name].flat[7] = value
        return tensors

    return change


def renamed(name, other):
    return lambda tensors: {(other if each == name else each): values for each, values in tensors.items()}


def reshaped(name, shape):
    return lambda tensors: {
        each: values.reshape(shape) if each == name else values for each, values in tensors.items()
    }


TOKENS = [f"t{i}" for i in range(400)]
FORGED = {
    "a huge number of layers": ({"llama.block_count": 2**32 - 1}, None),
    "a layer too many": ({"llama.block_count": 4}, None),
    "no layers": ({"llama.block_count": 0}, None),
    "layers that are a word": ({"llama.block_count": "three"}, None),
    "no number of layers": ({"llama.block_count": None}, None),
    "another width": ({"llama.embedding_length": 128}, None),
    "no heads": ({"llama.attention.head_count": 0}, None),
    "heads that do not share": ({"llama.attention.head_count": 3}, None),
    "half a head": ({"llama.attention.head_count": 0.5, "llama.attention.key_length": 128}, None),
    "an odd size of heads": ({"llama.attention.key_length": 15}, None),
    "another hidden size": ({"llama.feed_forward_length": 104}, None),
    "no epsilon": ({"llama.attention.layer_norm_rms_epsilon": None}, None),
    "an epsilon that is no number": ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, None),
    "a base that is none": ({"llama.rope.freq_base": float("inf")}, None),
    "partial rotary positions": ({"llama.rope.dimension_count": 8}, None),
    "stretched positions": ({"llama.rope.scaling.type": "yarn"}, None),
    "experts": ({"llama.expert_count": 4}, None),
    "fewer tokens": ({"tokenizer.ggml.tokens": TOKENS[:100]}, None),
    "tokens that are numbers": ({"tokenizer.ggml.tokens": [*range(400)]}, None),
    "other tokens than are merged": ({"tokenizer.ggml.tokens": TOKENS}, None),
    "no merges": ({"tokenizer.ggml.merges": None}, None),
    "merges of unknown pieces": ({"tokenizer.ggml.merges": ["a qqq"]}, None),
    "a first token beyond": (
        {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 400},
        None,
    ),
    "no first token": ({"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": None}, None),
    "a weight that is not there": ({}, renamed("blk.1.attn_q.weight", "blk.1.attn_x.weight")),
    "a weight of another shape": ({}, reshaped("blk.1.ffn_up.weight", (64, 96))),
    "a weight that is no number": ({}, with_one("blk.2.ffn_down.weight", np.nan)),
    "a weight without end": ({}, with_one("output_norm.weight", np.inf)),
}


@pytest.mark.parametrize("kind", FORGED)
def test_what_a_page_would_refuse_is_refused_before_it_is_written(browser, packed, kind, tmp_path):
    said, weights = FORGED[kind]
    written_again(packed, tmp_path / "forged.gguf", said, weights)
    with pytest.raises(ValueError, match=r"forged\.gguf") as refused:
        checking.check(tmp_path / "forged.gguf")
    with live_page(browser, tmp_path / "forged.gguf", tmp_path) as (page, problems):
        message = page.evaluate(f"refused(opened({FILE}))")
        assert problems == []
    for text in (str(refused.value), message):
        assert text and "\n" not in text and "undefined" not in text
    assert not any(raw in message for raw in ("TypeError", "RangeError", "is not a function"))
    if kind.endswith((" is no number", " without end")) and weights:
        assert NO_NUMBER in message and NO_NUMBER in str(refused.value)


def test_a_file_that_is_written_again_as_it_is_is_taken(browser, packed, tmp_path):
    written_again(packed, tmp_path / "same.gguf", {"general.name": "<b>a model</b>"})
    checking.check(tmp_path / "same.gguf")
    with live_page(browser, tmp_path / "same.gguf", tmp_path) as (page, _):
        assert page.evaluate(f"opened({FILE})")["name"] == "<b>a model</b>"


def test_what_nobody_foresaw_is_a_sentence_too(browser, packed, tmp_path):
    """Lists in lists to a depth that no reader's stack has room for."""
    nested = b"".join([(9).to_bytes(4, "little") + (1).to_bytes(8, "little")] * 100_000)
    header = b"GGUF" + (3).to_bytes(4, "little") + (0).to_bytes(8, "little") + (1).to_bytes(8, "little")
    key = (1).to_bytes(8, "little") + b"a" + (9).to_bytes(4, "little")
    (tmp_path / "deep.gguf").write_bytes(header + key + nested)
    with live_page(browser, tmp_path / "deep.gguf", tmp_path) as (page, problems):
        message = page.evaluate(f"refused(opened({FILE}))")
        assert problems == []
    assert message.startswith("this model file is damaged, or of a kind that this page does not know (")


def test_a_text_of_pieces_that_a_vocabulary_lacks_is_refused(browser, packed, tmp_path):
    letters = GGUFReader(packed).fields["tokenizer.ggml.tokens"].contents()
    letters[letters.index("ð")] = "[none]"  # the first byte of an emoji
    written_again(packed, tmp_path / "fewer.gguf", {"tokenizer.ggml.tokens": letters})
    with live_page(browser, tmp_path / "fewer.gguf", tmp_path) as (page, _):
        page.evaluate(f"opened({FILE})")
        assert page.evaluate("refused(live.encode('a 😀'))") == 'this model has no tokens for " 😀"'
        assert len(page.evaluate("live.encode('a b').then(({ texts }) => texts)")) == 2


# ---- the checksum


@pytest.mark.parametrize("native", [True, False])
def test_the_checksum_is_that_of_hashlib(browser, native, tmp_path):
    draw = random.Random(0)
    sizes = [*range(130), 4096, 100_003]
    texts = [draw.randbytes(size) for size in sizes]
    hide = "" if native else "Object.defineProperty(globalThis, 'crypto', { value: {} });"
    script = f"{hide} {front_end('checksum.js', LIVE)[0]}"
    each = "sha256Of(new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]))"
    (tmp_path / "x.html").write_text(f"<!DOCTYPE html><script>{script}</script>")
    with live_page(browser, tmp_path / "x.html", tmp_path) as (page, problems):
        page.goto((tmp_path / "x.html").as_uri())
        found = page.evaluate(
            f"(texts) => Promise.all(texts.map((text) => {each}))",
            [base64.b64encode(text).decode() for text in texts],
        )
        assert problems == []
    assert found == [hashlib.sha256(text).hexdigest() for text in texts]


def test_a_file_with_another_checksum_is_refused_when_one_is_asked_for(browser, packed, tmp_path):
    data = packed.read_bytes()
    flipped = bytearray(data)
    flipped[-5000] ^= 1  # of a weight: the model answers, and nothing else tells
    own = hashlib.sha256(data).hexdigest()
    for content, right in ((data, True), (bytes(flipped), False)):
        (tmp_path / "file.gguf").write_bytes(content)
        with live_page(browser, tmp_path / "file.gguf", tmp_path) as (page, _):
            open_it = f"LiveModel.open({FILE}, {{ parts: PARTS, sha256: '{own}' }})"
            message = page.evaluate(f"refused({open_it})")
            assert (message is None) == right
            assert right or ("is not the file that the page was made for" in message and own[:12] in message)
            assert page.evaluate(f"opened({FILE})")["layers"] == 3  # where none is asked for


# ---- where a text ends


def ended(page, ids):
    return page.evaluate(
        """async (ids) => {
          const words = [];
          for await (const { id } of live.write(ids, { newTokens: 12 })) words.push(id);
          return words;
        }""",
        ids,
    )


@pytest.mark.parametrize("kind", ["one", "first of two", "second of two", "none", "in a GGUF file"])
def test_page_and_python_end_a_text_at_the_same_place(browser, kind, tmp_path):
    model, tokenizer = small_llama(), small_tokenizer()
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    model.generation_config.eos_token_id = None
    model.config.eos_token_id = tokenizer.eos_token = None
    write_greedily(model, tokenizer)
    text = generate(model, ids, 12, {})[0, ids.shape[1] :].tolist()
    end = next(token for token in text[3:] if token not in text[:3])
    other = next(token for token in range(5, 400) if token not in text)
    model.generation_config.eos_token_id = {
        "one": end,
        "first of two": [end, other],
        "second of two": [other, end],
        "none": None,
        "in a GGUF file": other,
    }[kind]
    path = tmp_path / "small.gguf"
    packing.pack(model, tokenizer, path)
    if kind == "in a GGUF file":  # as llama.cpp writes the end of a turn
        said = {"attnlib.end_token_ids": None, "tokenizer.ggml.eot_token_id": end}
        written_again(path, tmp_path / "other.gguf", said)
        path = tmp_path / "other.gguf"
        convert(path, tmp_path / "folder")
        model, tokenizer = load_language_model(str(tmp_path / "folder"), device="cpu")
        assert {*end_tokens(model, tokenizer)} == {end, other}
    python = generate(model, ids, 12, {"do_sample": False})[0, ids.shape[1] :].tolist()
    assert python == (text if kind == "none" else text[: text.index(end) + 1])
    with live_page(browser, path, tmp_path) as (page, _):
        page.evaluate(f"opened({FILE})")
        assert ended(page, ids[0].tolist()) == python


@pytest.mark.parametrize("kind", ["F32", "BF16", "Q4_0", "Q4_1", "Q8_0"])
def test_a_weight_that_is_no_number_is_found_in_every_type_of_weights(browser, kind, tmp_path, monkeypatch):
    def stored(weight):
        whole = Kind[kind] if weight.ndim > 1 else Kind.F32
        values = gguf.quants.quantize(weight.numpy(), whole)
        if weight.ndim > 1 and broken:
            size = {"F32": 4, "BF16": 2}.get(kind)
            last = values.view(np.uint8).reshape(-1, size or gguf.GGML_QUANT_SIZES[whole][1])[-1]
            last[:2] = (0x80, 0x7F) if kind == "BF16" else (0, 0x7C)
            if kind == "F32":
                last[:] = (0, 0, 0xC0, 0x7F)
        return values, whole

    monkeypatch.setattr(packing, "_narrowest", stored)
    for broken in (False, True):
        path = tmp_path / f"{broken}.gguf"
        packing.pack(small_llama(tie_word_embeddings=False), small_tokenizer(), path)
        with live_page(browser, path, tmp_path) as (page, _):
            message = page.evaluate(f"refused(opened({FILE}))")
        assert (message == f"this model {NO_NUMBER}") == broken and (message is None) != broken
        if broken:
            with pytest.raises(ValueError, match=NO_NUMBER):
                checking.check(path)
        else:
            checking.check(path)
