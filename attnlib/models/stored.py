"""Stored models: small trained models that come with the book, with their tasks, accuracies and provenance.

`results/models/<chapter>/<name>.safetensors` holds a `Transformer`'s weights. Its header holds the settings,
the task, the test samples, the accuracy on these, and the provenance. Readers can draw the model's attention
without training it; web pages run the model without a Python kernel. The file's checksum covers weights and
header, but is no signature (see `attnlib.files`): git shows whether a file came with the book, and the
accuracy can be measured again on `StoredModel.tests`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlib.checks import hint
from attnlib.files import CheckpointError, load_tensors
from attnlib.generators.algorithmic import StringReversalGenerator
from attnlib.generators.arithmetic import Arithmetic, arithmetic
from attnlib.generators.base import Batch
from attnlib.generators.rasp import LANGUAGES, Language, language
from attnlib.generators.tokenizer import char_tokenizer
from attnlib.models.transformer import Transformer

STORED = Path(__file__).parents[2] / "results" / "models"
"""The models that came with the book."""

VERSION = 1
"""The version of the header's format, to be raised when older headers can no longer be read."""

AGAIN = "Take the file from the repository again (git checkout -- results/models), or store the model again"
"""The advice in messages about a file that cannot be used."""

Task = Language | Arithmetic | StringReversalGenerator
"""The task that a stored model was trained on: a built-in RASP language, arithmetic, or string reversal."""


@dataclass(frozen=True)
class StoredModel:
    """A stored model, in evaluation mode on the CPU, and the information in its file's header.

    Attributes:
        name: the name of the model's run in the chapter.
        held_out: the test samples, as arguments of `task.sequences`, `splits` or `samples`.
        accuracy: `value`, `low`, `high` and `n` of "accuracy" (per token) and "exact match" on them.
        data: SHA-256 of the test samples.
        provenance: the chapter's parameters, `steps` and `seconds` of training, and the result of `origin`
            when the model was stored: commit, code, versions.
    """

    chapter: str
    name: str
    model: Transformer
    task: Task
    held_out: dict[str, Any]
    accuracy: dict[str, dict[str, float]]
    data: str
    provenance: dict[str, Any]

    @cached_property
    def tests(self) -> list[Batch]:
        """The held-out samples on which the model was tested."""
        return tests(self.task, self.held_out)

    @property
    def note(self) -> str:
        """One line with the model's accuracy and provenance."""
        tokens, whole = self.accuracy["accuracy"], self.accuracy["exact match"]
        kinds = {Language: "sequences", Arithmetic: "problems", StringReversalGenerator: "strings"}
        libraries = self.provenance["versions"]
        return (
            f"{100 * tokens['value']:.2f} % of tokens and {100 * whole['value']:.1f} % of {whole['n']:,.0f} "
            f"held-out {kinds[type(self.task)]} right; "
            f"{self.provenance['steps']:,} steps, {self.provenance['seconds']:.0f} s, torch "
            f"{libraries['torch']}, commit {self.provenance['commit'] or 'unknown'}"
        )


def tests(task: Task, held_out: Mapping[str, Any]) -> list[Batch]:
    """Held-out samples of a task in batches; in arithmetic, only the answer's tokens are scored."""
    if isinstance(task, Language):
        return task.in_batches(task.sequences(**held_out))
    if isinstance(task, StringReversalGenerator):
        return task.in_batches(task.samples(**held_out))
    return dataclasses.replace(task, operands_too=False).in_batches(task.splits(**held_out).test)


def stored_model(chapter: str, name: str, folder: Path | None = None) -> StoredModel:
    """A model that came with the book, by its chapter and the name of its run, or of its file.

    Raises:
        ValueError: there is no such chapter or model.
        CheckpointError: the file cannot be used.
    """
    folder = folder or STORED
    files = _files(folder, chapter)
    if not files:
        chapters = sorted({path.parent.name for path in folder.glob("*/*.safetensors")})
        raise ValueError(
            f"no model of a chapter {chapter!r} is stored; there are models of "
            f"{', '.join(chapters) or 'no chapter'}{hint(chapter, chapters)}"
        )
    if file_name(name) not in files:
        raise ValueError(
            f"{chapter} has no stored model {name!r} (others are trained by the chapter); there are "
            f"{', '.join(files)}{hint(file_name(name), files)}"
        )
    return _read(files[file_name(name)])


def stored_models(chapter: str, folder: Path | None = None) -> dict[str, StoredModel]:
    """All stored models of a chapter by name, in the order of their files; see `stored_model`."""
    found = map(_read, _files(folder or STORED, chapter).values())
    return {each.name: each for each in found}


def _files(folder: Path, chapter: str) -> dict[str, Path]:
    found = {path.stem: path for path in (folder / chapter).glob("*.safetensors")}
    return dict(sorted(found.items()))


def _read(path: Path) -> StoredModel:
    def refused(why: str) -> CheckpointError:
        return CheckpointError(f"{path} {why}. {AGAIN}.")

    try:
        weights, header = load_tensors(path)
    except CheckpointError as error:
        raise CheckpointError(f"{error} {AGAIN}.") from error
    except OSError as error:
        raise refused(f"cannot be read ({error.strerror})") from error
    stored = header.get("stored")
    if not isinstance(stored, dict):
        raise refused("is not a stored model but the checkpoint of a training")
    made = {key: stored.get(key) for key in ("version", "model")}
    if made != {"version": VERSION, "model": Transformer.__name__}:
        raise CheckpointError(
            f"{path} holds a {made['model']} in version {made['version']} of stored models; this attnlib "
            f"reads a {Transformer.__name__} in version {VERSION}. Take the file and the package from the "
            "same commit, or store the model again"
        )
    try:
        model = Transformer.built(path, single(weights), header)
        task = _MAKERS[stored["kind"]](**stored["task"])
    except CheckpointError as error:
        raise CheckpointError(f"{error}. {AGAIN}.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise refused(f"says nothing of its task that this attnlib knows: {error}") from error
    alphabet = stored.pop("alphabet", None)
    if isinstance(task, Language) and alphabet not in (None, task.alphabet):
        has = f"{task.name} has {task.alphabet!r} in this attnlib"
        raise refused(f"was trained on the symbols {alphabet!r}, and {has}")
    try:
        own = {key: stored.pop(key) for key in ("chapter", "name", "held_out", "accuracy", "data")}
        found = StoredModel(model=model, task=task, provenance=stored, **own)
        found.note  # noqa: B018 - raises if accuracy or provenance lacks an entry
    except (KeyError, TypeError, ValueError) as error:
        raise refused(f"does not say what it should, in {error}") from error
    if (found.chapter, file_name(found.name)) != (path.parent.name, path.stem):
        raise refused(f"is another model: {found.chapter}, {found.name!r}")
    return found


def single(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights converted to single precision, in which the model computes."""
    return {key: value.to(torch.float32) for key, value in weights.items()}


def _language(name: str, alphabet_size: int, bos: bool) -> Language:
    return language(name, alphabet_size, bos)


def _arithmetic(numbers: list[int], **settings: Any) -> Arithmetic:
    low, high = numbers
    return arithmetic(numbers=(low, high), **settings)


def _reversal(**settings: Any) -> StringReversalGenerator:
    return StringReversalGenerator(tokenizer=char_tokenizer(), **settings)


_MAKERS: dict[str, Any] = {"language": _language, "arithmetic": _arithmetic, "string reversal": _reversal}


def told(task: Task) -> dict[str, Any]:
    """A task as the kind and the arguments from which `_MAKERS` builds it again, as JSON values."""
    if isinstance(task, Language):
        if LANGUAGES.get(task.name) is not task.definition:
            raise ValueError(
                f"{task.name!r} is a language of your own: a function, which no file of weights can hold. "
                "Keep such a model by model.save(path)"
            )
        # A Dyck language has its own symbols, and ignores the size.
        size = 10 if task.definition.symbols else len(task.alphabet)
        return {"kind": "language", "task": {"name": task.name, "alphabet_size": size, "bos": task.bos}}
    if isinstance(task, StringReversalGenerator):
        own = {"charset": task.charset, "length": list(task.length), "seed": task.seed, "split": task.split}
        return {"kind": task.NAME, "task": own}
    space = task.space
    settings = {
        "operators": space.operators,
        "numbers": list(space.numbers),
        "n_operands": space.n_operands,
        "negative": space.negative,
        "reversed_digits": task.reversed_digits,
        "padded": task.padded,
        "operands_too": task.operands_too,
    }
    return {"kind": "arithmetic", "task": settings}


def file_name(name: str) -> str:
    """The file name, without suffix, of the run called `name`."""
    return re.sub(r"[^\w]+", "-", name).strip("-")
