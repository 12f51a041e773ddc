"""Checks whether a page can compute a GGUF file, made before the page is written.

The page's own scripts (`gguf.js`, `tokenizer.js`, `worker.js`) make the same checks again, since its reader
may choose another file.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from attnlib.models.causal import NO_NUMBER

TYPES = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0")
"""GGUF's types of weights that a page can read."""

SPLITTINGS: dict[str, list[dict[str, Any]]] = {
    "gpt-2": [{"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}],
    "smollm": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
    ],
}
"""Pre-tokenizers that a page knows: GGUF's name, and the equal steps of the library `tokenizers`."""

MOST = 330_000_000
"""The largest file that goes into a page, in bytes: 150 million weights of 16 bits, and a little more."""

MOST_VALUES = 2**23
"""The most values that are read from a file's header, which has about five per token of the vocabulary."""


def check(path: Path) -> str:
    """Return the licence of a GGUF file; raise a `ValueError` with the reason if a page cannot compute it."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if path.stat().st_size > MOST:
        raise ValueError(
            f"{path.name} has {path.stat().st_size / 1e6:.0f} MB; a page can hold {MOST / 1e6:.0f} MB, about "
            "150 million weights of 16 bits. Take a smaller model, or weights of 4 or 8 bits"
        )
    try:
        reader = _read(path)
        tensors = {tensor.name: tensor for tensor in reader.tensors}
        given = {key: field.contents() for key, field in reader.fields.items()}
    except Exception as error:  # the reader raises what numpy raises
        raise ValueError(f"{path.name} is no whole GGUF file ({type(error).__name__}: {error})") from error
    if (kind := given.get("general.architecture")) != "llama":
        raise ValueError(
            f"{path.name} holds a model of the architecture {kind}; a page computes those of Llama's shape"
        )
    if unknown := sorted({tensor.tensor_type.name for tensor in tensors.values()} - {*TYPES}):
        raise ValueError(
            f"{path.name} stores weights as {', '.join(unknown)}; a page reads {', '.join(TYPES)}. Take a "
            "file quantised so"
        )
    tokenizer, splitting = given.get("tokenizer.ggml.model"), given.get("tokenizer.ggml.pre")
    if tokenizer != "gpt2" or splitting not in SPLITTINGS:
        raise ValueError(
            f"{path.name} has the tokenizer {tokenizer!r} with the splitting {splitting!r}; a page reads "
            f"'gpt2' with {' or '.join(map(repr, SPLITTINGS))}"
        )
    try:
        _check_tokens(given, _check_shapes(given, tensors))
    except ValueError as error:
        raise ValueError(f"{path.name} cannot be computed by a page: {error}") from error
    for tensor in tensors.values():
        if not _is_finite(tensor):
            raise ValueError(f"{path.name} {NO_NUMBER} ({tensor.name})")
    return given.get("general.license") or "see where the model is from"


def _read(path: Path) -> Any:
    """The reader of a GGUF file; raises a `ValueError` if its header claims more values than it holds."""
    from gguf import GGUFReader

    class Reader(GGUFReader):
        read = 0

        def _get(self, offset: Any, dtype: Any, count: Any = 1, *more: Any, **named: Any) -> Any:
            """Values at an offset; raises a ValueError beyond the file's end, where gguf loops for ever."""
            self.read += 1
            found = super()._get(offset, dtype, count, *more, **named)
            if len(found) < count or self.read > MOST_VALUES:
                raise ValueError("it claims to hold more than it does, or than any file")
            return found

    return Reader(path)


def knows_chat(path: Path) -> bool:
    """Whether a file's chat template is ChatML, the only one that pages support."""
    from gguf import GGUFReader

    fields = GGUFReader(path).fields
    template = fields.get("tokenizer.chat_template")
    written = template is not None and "<|im_start|>assistant" in str(template.contents())
    return written and "<|im_start|>" in fields["tokenizer.ggml.tokens"].contents()


def _check_shapes(given: dict[str, Any], tensors: dict[str, Any]) -> int:
    """The size of the vocabulary; raises a `ValueError` for invalid sizes, or weights of other shapes."""

    def of(name: str, otherwise: Any = None) -> Any:
        return given.get(f"llama.{name}", otherwise)

    width, heads = of("embedding_length"), of("attention.head_count")
    for name, value in {"embedding_length": width, "head_count": heads}.items():
        _check_whole(name, value)
    embedding = tensors.get("token_embd.weight")
    vocabulary = int(embedding.shape[1]) if embedding is not None and len(embedding.shape) == 2 else None
    sizes = {
        "block_count": of("block_count"),
        "head_count_kv": of("attention.head_count_kv", heads),
        "key_length": of("attention.key_length", width / heads if width % heads else width // heads),
        "feed_forward_length": of("feed_forward_length"),
        "context_length": of("context_length"),
        "number of tokens": vocabulary,
    }
    for name, value in sizes.items():
        _check_whole(name, value)
    layers, kept, size, hidden, *_ = sizes.values()
    for name, value in {
        "layer_norm_rms_epsilon": of("attention.layer_norm_rms_epsilon"),
        "rope.freq_base": of("rope.freq_base", 10000.0),
    }.items():
        if not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
            raise ValueError(f"its {name} should be a number above 0; got {value!r}")
    if 9 * layers > len(tensors):
        raise ValueError(f"it claims to have {layers} layers, and has {len(tensors)} weights, 9 for each")
    if any(each % 8 for each in (width, size, hidden)) or heads % kept:
        raise ValueError(
            f"its sizes should be multiples of 8, and its heads of its key heads; they are {width}, {hidden} "
            f"and {size}, and {heads} of {kept}"
        )
    stretched = of("rope.dimension_count", size) != size or of("rope.scaling.type", "none") != "none"
    if stretched or "rope_freqs.weight" in tensors or of("expert_count", 0):
        raise ValueError("it has stretched or partial rotary positions, or experts")
    expected = {"token_embd.weight": [width, vocabulary], "output_norm.weight": [width]}
    if "output.weight" in tensors:
        expected["output.weight"] = [width, vocabulary]
    queries, keys = heads * size, kept * size
    for layer in range(layers):
        for name, shape in {
            "attn_q": [width, queries],
            "attn_k": [width, keys],
            "attn_v": [width, keys],
            "attn_output": [queries, width],
            "ffn_gate": [width, hidden],
            "ffn_up": [width, hidden],
            "ffn_down": [hidden, width],
            "attn_norm": [width],
            "ffn_norm": [width],
        }.items():
            expected[f"blk.{layer}.{name}.weight"] = shape
    if strange := sorted({*tensors} - {*expected}):
        raise ValueError(f"it has weights that a page knows nothing of: {', '.join(strange[:3])}")
    for name, shape in expected.items():
        if name not in tensors:
            raise ValueError(f"it lacks {name}")
        if (found := [*map(int, tensors[name].shape)]) != shape:
            raise ValueError(f"{name} should have the shape {shape}; it has {found}")
        if len(shape) == 1 and tensors[name].tensor_type.name != "F32":
            raise ValueError(f"{name} should be stored as F32; it is {tensors[name].tensor_type.name}")
    assert vocabulary is not None
    return vocabulary


def _check_whole(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**53:
        raise ValueError(f"its {name} should be a whole number from 1 on; got {value!r}")


def _check_tokens(given: dict[str, Any], vocabulary: int) -> None:
    """Raise a `ValueError` for a tokenizer that is incomplete or inconsistent."""
    lists = dict[str, list[Any]]()
    for name, kind in {"tokens": str, "token_type": int, "merges": str}.items():
        found = given.get(f"tokenizer.ggml.{name}")
        if not isinstance(found, list) or not all(isinstance(each, kind) for each in found):
            raise ValueError(f"its tokenizer's {name} should be a list of {kind.__name__}; it is none")
        if name != "merges" and len(found) != vocabulary:
            raise ValueError(f"its {name} should be {vocabulary}, one for each token; there are {len(found)}")
        lists[name] = found
    known = {*lists["tokens"]}
    for merge in lists["merges"]:
        pair = merge.split(" ")
        if len(pair) != 2 or not {*pair, "".join(pair)} <= known:
            raise ValueError(f"its tokenizer merges tokens that it does not have: {merge!r}")
    first = given.get("tokenizer.ggml.bos_token_id")
    if given.get("tokenizer.ggml.add_bos_token") and not (isinstance(first, int) and 0 <= first < vocabulary):
        raise ValueError(f"the token that it puts before a text should be below {vocabulary}; got {first}")


def _is_finite(tensor: Any) -> bool:
    from gguf.quants import dequantize

    return bool(np.isfinite(dequantize(tensor.data, tensor.tensor_type)).all())
