"""From GGUF, llama.cpp's file of quantised weights, to a folder that `from_pretrained` reads."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from tokenizers import AddedToken, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer

CONVERSION = 1
"""Rises when `convert` would make another folder of the same file."""

_CONTROL = 3
"""GGUF's type of tokens that are no text."""


def convert(gguf: Path, folder: Path) -> None:
    """De-quantise a model's weights to float32, and save it with its tokenizer as `folder`.

    Everything is written beside `folder` and moved there whole, under a lock: a killed conversion leaves no
    `folder`, what it did leave goes with the next one, and of two at once the second finds the work done.

    Args:
        gguf: a GGUF file of an architecture that transformers can read.
        folder: must not exist; its parent must.

    Raises:
        ImportError: the packages `gguf` and `accelerate` (the extra `lm`) are not installed.
    """
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if folder.is_dir():
            return
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        model = _dequantised(gguf)
        model.save_pretrained(unfinished)
        tokenizer = _tokenizer(gguf)
        tokenizer.model_max_length = model.config.max_position_embeddings
        tokenizer.save_pretrained(unfinished)
        os.replace(unfinished, folder)


def _dequantised(gguf: Path) -> Any:
    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    settings = loaded.config.to_dict()
    settings.pop("quantization_config", None)  # as long as it is there, transformers refuses to save
    model = type(loaded)(type(loaded.config).from_dict(settings))
    model.load_state_dict(loaded.state_dict())
    model.tie_weights()
    return model.to(torch.float32)


def _tokenizer(gguf: Path) -> Any:
    """The tokenizer, with what transformers' GGUF reader leaves out of it."""
    from gguf import GGUFReader

    fields = GGUFReader(gguf).fields
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    read = {key: fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "token_type", "pre")}
    control = [
        token for token, kind in zip(read["tokens"], read["token_type"], strict=True) if kind == _CONTROL
    ]
    tokenizer.add_tokens(
        [AddedToken(token, special=True, normalized=False) for token in control], special_tokens=True
    )
    if read["pre"] == "smollm":  # every digit for itself; then as GPT-2
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    return tokenizer
