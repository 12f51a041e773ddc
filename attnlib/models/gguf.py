"""Conversion of GGUF, llama.cpp's format for quantised weights, to a folder that `from_pretrained` reads."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from tokenizers import AddedToken, pre_tokenizers

from attnlib.places import content, has_sha256, sha256_of

CONVERSION = 1
"""The version of `convert`, to be raised when the folder that it makes of a given file changes."""

MANIFEST = "manifest.json"
"""The file in a converted folder that records its source and the SHA-256 of all other files."""

END_TOKENS = "attnlib.end_token_ids"
"""The key under which a file that attnlib writes lists all end tokens; GGUF itself has no such list."""

_CONTROL = 3
"""GGUF's token type for control tokens, which are not text."""


def convert(gguf: Path, folder: Path) -> None:
    """De-quantise a model's weights to float32, and save it with its tokenizer as `folder`.

    Everything is written to another folder, which is then renamed, under a lock: a killed conversion leaves
    `folder` as it was, and the second of two simultaneous conversions finds the work done.
    """
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        source = sha256_of(gguf)
        if wrong_with(folder, source) is None:
            return
        unfinished, old = (folder.with_name(f"{folder.name}.{state}") for state in ("unfinished", "replaced"))
        for left in (unfinished, old):
            shutil.rmtree(left, ignore_errors=True)
        model = _dequantised(gguf)
        model.save_pretrained(unfinished)
        tokenizer = _tokenizer(gguf)
        tokenizer.model_max_length = model.config.max_position_embeddings
        tokenizer.save_pretrained(unfinished)
        whose = {"source": source, "conversion": CONVERSION, "files": _checksums(unfinished)}
        (unfinished / MANIFEST).write_text(json.dumps(whose, indent=1))
        if folder.exists():
            os.replace(folder, old)
        os.replace(unfinished, folder)
        shutil.rmtree(old, ignore_errors=True)


def wrong_with(folder: Path, source: str) -> str | None:
    """Why `folder` is not what `convert` makes of the file with SHA-256 `source`; `None` if it is.

    Additional files do not matter, as long as `from_pretrained` would not read them.
    """
    try:
        whose = json.loads(content(folder / MANIFEST))
        if (whose["source"], whose["conversion"]) != (source, CONVERSION):
            return "it was made from another file"
        bad = {name for name, sha256 in whose["files"].items() if not has_sha256(folder / name, sha256)}
        bad |= {path.name for path in folder.iterdir() if _is_read(path)} - {MANIFEST, *whose["files"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"its {MANIFEST} cannot be read ({type(error).__name__})"
    return f"{', '.join(sorted(bad))} is not as it was written" if bad else None


def end_tokens(given: Mapping[str, Any]) -> list[int]:
    """The ids of all tokens that end a text, a turn or a message, from a GGUF file's metadata."""
    named = [given.get(f"tokenizer.ggml.{end}_token_id") for end in ("eos", "eot", "eom")]
    return [*dict.fromkeys(id for id in [*named, *given.get(END_TOKENS, [])] if id is not None)]


def _checksums(folder: Path) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in sorted(folder.iterdir()) if path.name != MANIFEST}


def _is_read(path: Path) -> bool:
    """Whether `from_pretrained` might read this file, even if `convert` did not write it."""
    kinds = (".json", ".jinja", ".txt", ".model", ".safetensors", ".bin")
    return path.suffix in kinds and not path.name.startswith(".") and path.is_file()


def _dequantised(gguf: Path) -> Any:
    from gguf import GGUFReader
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    settings = loaded.config.to_dict()
    settings.pop("quantization_config", None)  # with it, transformers refuses to save
    model = type(loaded)(type(loaded.config).from_dict(settings))
    model.load_state_dict(loaded.state_dict())
    model.tie_weights()
    said = {key: field.contents() for key, field in GGUFReader(gguf).fields.items() if "token_id" in key}
    if len(ends := end_tokens(said)) > 1:  # transformers reads only one of them
        model.generation_config.eos_token_id = ends
    return model.to(torch.float32)


def _tokenizer(gguf: Path) -> Any:
    """The tokenizer, with the control tokens and digit splitting that transformers' GGUF reader omits."""
    from gguf import GGUFReader
    from transformers import AutoTokenizer

    fields = GGUFReader(gguf).fields
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    read = {key: fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "token_type", "pre")}
    kinds = zip(read["tokens"], read["token_type"], strict=True)
    control = [AddedToken(token, special=True, normalized=False) for token, kind in kinds if kind == _CONTROL]
    tokenizer.add_tokens(control, special_tokens=True)
    if read["pre"] == "smollm":  # split digits apart; then as GPT-2
        digits = pre_tokenizers.Digits(individual_digits=True)
        rest = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, rest])
    return tokenizer
