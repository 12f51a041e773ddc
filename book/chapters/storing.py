"""Stores trained models of a chapter in `results/models`, for readers who train nothing.

At the end of a notebook::

    p = RaspLanguages.from_notebook(globals())
    p.train_all()
    store(p, "sort, supervised")

From the command line, with the notebook's own parameters except those given with ``-p``::

    python -m book.chapters.storing rasp_languages "hist2, supervised" -p language hist2 -p steps 8000
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

from attnlib.files import CheckpointError, save_tensors
from attnlib.generators.algorithmic import StringReversalGenerator
from attnlib.generators.base import Batch
from attnlib.generators.rasp import Language
from attnlib.measures.accuracy import sample_scores
from attnlib.models.base import config_of
from attnlib.models.stored import STORED, VERSION, Task, file_name, single, stored_model, tests, told
from attnlib.models.transformer import Transformer
from attnlib.places import make_folder
from attnlib.stats import answer_accuracy
from attnlib.training.key import digest
from book import chapters
from book.chapters.chapter import Chapter
from book.chapters.lens.arithmetic_lens import ArithmeticLens, LensRun
from book.chapters.rasp.rasp_languages import RaspLanguages, RaspRun
from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning, ReasoningRun
from book.chapters.records.provenance import origin

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def store(chapter: Chapter, name: str, folder: Path | None = None) -> Path:
    """Store the trained model of one of a chapter's runs, with its scores on the chapter's test samples."""
    if name not in chapter.trained:
        raise ValueError(f"no run {name!r} was trained; there are {', '.join(chapter.trained) or 'none'}")
    found = chapter.trained[name]
    task, held_out = tested_on(chapter, found.run)
    if not isinstance(found.model, Transformer):
        raise ValueError(f"{name} is a {type(found.model).__name__}; only a Transformer is stored")
    whose: dict[str, Any] = {"chapter": chapter.notebook, "name": name, "folder": folder}
    whose |= {"params": chapter.recorded_parameters, "training": found.history}
    return store_model(found.model, task, held_out, **whose)


def data_of(batches: Iterable[Batch]) -> str:
    """The SHA-256 of the inputs and targets of batches."""
    return digest([(batch.input_ids, batch.target_ids) for batch in batches])


def store_model(
    model: Transformer,
    task: Task,
    held_out: Mapping[str, Any],
    *,
    chapter: str,
    name: str,
    params: Mapping[str, Any],
    training: Any,
    folder: Path | None = None,
) -> Path:
    """Round a trained model's weights to half precision, test the rounded model, and store it."""
    if training.interrupted:
        raise ValueError(f"{name} is not stored: its training was interrupted; run the chapter again")
    kind = told(task)
    weights = {key: value.detach().cpu().half() for key, value in model.state_dict().items()}
    header = {"config": config_of(model)}
    rounded = Transformer.built(name, single(weights), header)
    batches = tests(task, held_out)
    scores = answer_accuracy(sample_scores(rounded, batches)).set_index("metric")
    header["stored"] = {
        "version": VERSION,
        "model": type(model).__name__,
        "chapter": chapter,
        "name": name,
        **kind,
        **({"alphabet": task.alphabet} if isinstance(task, Language) else {}),
        "held_out": dict(held_out),
        "accuracy": scores.to_dict("index"),
        "data": data_of(batches),
        "parameters": dict(params),
        "steps": training.steps,
        "seconds": round(training.seconds, 1),
        **origin(),
    }
    path = (folder or STORED) / chapter / f"{file_name(name)}.safetensors"
    make_folder(path.parent)
    save_tensors(path, weights, header)
    return path


@singledispatch
def tested_on(chapter: Chapter, run: Any) -> tuple[Task, dict[str, Any]]:
    """The task of a run, and the samples that its model is tested on, as `store_model` takes them."""
    raise ValueError(f"{chapter.notebook} says in no `tested_on` what its models are tested on")


@tested_on.register
def _(chapter: RaspLanguages, run: RaspRun) -> tuple[Task, dict[str, Any]]:
    return run.language, {"n": chapter.test_samples, "split": "test", "max_length": chapter.length}


@tested_on.register
def _(chapter: ArithmeticLens, run: LensRun) -> tuple[Task, dict[str, Any]]:
    if chapter.data_folder:
        raise ValueError(
            "a stored model is tested on problems that its file can name: drawn ones, not those of "
            f"data_folder={chapter.data_folder!r}; train it with data_folder=''"
        )
    sizes = run.published or (chapter.train_problems, chapter.valid_problems, chapter.test_problems)
    splits = dict(zip(("train", "valid", "test"), sizes, strict=True))
    return chapter.task(run), {**splits, "as_published": run.published is not None}


@tested_on.register
def _(chapter: AlgorithmicReasoning, run: ReasoningRun) -> tuple[Task, dict[str, Any]]:
    task = chapter.generator(run.task, "id")
    if not (isinstance(task, StringReversalGenerator) and chapter.from_scratch):
        raise ValueError(
            f"{run.name} cannot be stored: of this chapter, only string reversal from scratch is"
        )
    return task, {"n": chapter.test_samples}


# ---- from the command line


def defaults_of(notebook: str) -> dict[str, Any]:
    """The values in a notebook's cell of parameters."""
    if notebook not in (known := all_chapters()):
        raise ValueError(f"there is no chapter {notebook!r}; there are {', '.join(known)}")
    import papermill  # part of the extra `book`, which training alone does not need

    cell = papermill.inspect_notebook(NOTEBOOKS / f"{notebook}.ipynb")
    return {name: ast.literal_eval(parameter["default"]) for name, parameter in cell.items()}


def all_chapters() -> dict[str, type[Chapter]]:
    """Every chapter, by the name of its notebook."""
    folders = [importlib.import_module(f"{chapters.__name__}.{name}") for name in chapters.CHAPTERS]
    made = [getattr(folder, name) for folder in folders for name in folder.__all__]
    return {each.__module__.rpartition(".")[2]: each for each in made}


def chapter_of(notebook: str, changes: Mapping[str, Any]) -> Chapter:
    """A chapter with its notebook's own parameters except for these changes."""
    own = defaults_of(notebook)
    return all_chapters()[notebook].checked({**own, **changes})


def typed(notebook: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of parameters from the command line; a text stays one where the notebook's value is text."""
    own = defaults_of(notebook)
    return {name: text if isinstance(own.get(name), str) else _value(text) for name, text in texts.items()}


def train_and_store(chapter: Chapter, name: str, folder: Path | None = None) -> Path:
    """Train the model of one of a chapter's runs, or load it if it is cached, and store it; see `store`."""
    runs = {run.name: run for run in chapter.runs()}
    if name not in runs:
        raise ValueError(f"{chapter.notebook} has no run {name!r} with these parameters; it has {list(runs)}")
    tested_on(chapter, runs[name])  # raises, before the training, if the model could not be stored
    chapter.train(runs[name])
    return store(chapter, name, folder)


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line; wrong arguments end it with a message of one line."""
    parser = argparse.ArgumentParser(
        "python -m book.chapters.storing", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("chapter", help="such as rasp_languages")
    parser.add_argument("run", help='the name of one of its runs, such as "sort, supervised"')
    parser.add_argument(
        *("-p", "--parameter"), nargs=2, action="append", default=[], metavar=("NAME", "VALUE")
    )
    parser.add_argument("--folder", type=Path, default=STORED, help="with a folder per chapter (%(default)s)")
    asked = parser.parse_args(words)
    try:
        p = chapter_of(asked.chapter, typed(asked.chapter, dict(asked.parameter)))
        path = train_and_store(p, asked.run, asked.folder)
        found = stored_model(p.notebook, asked.run, asked.folder)
    except (ValueError, OSError, CheckpointError) as error:
        sys.exit(str(error))
    print(f"{path}: {path.stat().st_size:,} bytes\n{found.note}")
    if not found.provenance["clean"]:
        print("It was made in a tree with uncommitted changes: commit, and store it again.")


def _value(text: str) -> Any:
    """The value of a text that is a Python literal (a number, a list, True or False); else the text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


if __name__ == "__main__":
    main()
