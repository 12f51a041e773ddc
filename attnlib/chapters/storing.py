"""Stores trained models of a chapter in `results/models`, for readers who train nothing.

Behind the cells of a notebook::

    p = RaspLanguages.from_notebook(globals())
    p.train_all()
    store(p, "sort, supervised")

From the command line, with the notebook's own parameters but for those that are named::

    python -m attnlib.chapters.storing rasp_languages "hist2, supervised" -p language hist2 -p steps 8000
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Mapping, Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

from attnlib import chapters
from attnlib.chapters.algorithmic_reasoning import AlgorithmicReasoning, ReasoningRun
from attnlib.chapters.arithmetic_lens import ArithmeticLens, LensRun
from attnlib.chapters.base import Chapter
from attnlib.chapters.rasp_languages import RaspLanguages, RaspRun
from attnlib.files import CheckpointError
from attnlib.generators.algorithmic import StringReversalGenerator
from attnlib.models.transformer import Transformer
from attnlib.records import stored_model
from attnlib.records.models import STORED, Task, store_model

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def store(chapter: Chapter, name: str, folder: Path | None = None) -> Path:
    """Store the trained model of one of a chapter's runs, with how good it is on the chapter's test samples.

    Args:
        chapter: has trained it.
        name: of the run.
        folder: see `attnlib.records.store_model`.

    Raises:
        ValueError: the chapter has trained no such run, or its models are of no task that can be stored.
    """
    if name not in chapter.trained:
        raise ValueError(f"no run {name!r} was trained; there are {', '.join(chapter.trained) or 'none'}")
    found = chapter.trained[name]
    task, held_out = tested_on(chapter, found.run)
    if not isinstance(found.model, Transformer):
        raise ValueError(f"{name} is a {type(found.model).__name__}; only a Transformer is stored")
    told: dict[str, Any] = {"chapter": chapter.notebook, "name": name, "folder": folder}
    params = chapter.model_dump(mode="json")
    return store_model(found.model, task, held_out, params=params, training=found.history, **told)


@singledispatch
def tested_on(chapter: Chapter, run: Any) -> tuple[Task, dict[str, Any]]:
    """The task of a run, and the samples that its model is tested on, as `store_model` takes them.

    Raises:
        ValueError: nobody has said so here for this chapter.
    """
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
    """The values in a notebook's cell of parameters, which the `quick` profile runs with."""
    import papermill  # of the extra `book`: who only trains models has none

    cell = papermill.inspect_notebook(NOTEBOOKS / f"{notebook}.ipynb")
    return {name: ast.literal_eval(parameter["default"]) for name, parameter in cell.items()}


def all_chapters() -> dict[str, type[Chapter]]:
    """Every chapter, by the name of its notebook."""
    made = [each for each in vars(chapters).values() if isinstance(each, type) and issubclass(each, Chapter)]
    return {each.__module__.rpartition(".")[2]: each for each in made if each is not Chapter}


def chapter_of(notebook: str, changes: Mapping[str, str]) -> Chapter:
    """A chapter with its notebook's own parameters, but for these, which are text as typed.

    Raises:
        ValueError: there is no such chapter, or it cannot run with these parameters.
    """
    known = all_chapters()
    if notebook not in known:
        raise ValueError(f"there is no chapter {notebook!r}; there are {', '.join(known)}")
    defaults = defaults_of(notebook)
    typed = {
        name: text if isinstance(defaults.get(name), str) else _value(text) for name, text in changes.items()
    }
    return known[notebook].checked({**defaults, **typed})


def train_and_store(chapter: Chapter, name: str, folder: Path | None = None) -> Path:
    """Train the model of one of a chapter's runs, or load it if it was, and store it; see `store`."""
    runs = {run.name: run for run in chapter.runs()}
    if name not in runs:
        raise ValueError(f"{chapter.notebook} has no run {name!r} with these parameters; it has {list(runs)}")
    tested_on(chapter, runs[name])  # before the training, what could not be stored is refused
    chapter.train(runs[name])
    return store(chapter, name, folder)


def main(words: Sequence[str] | None = None) -> None:
    """What the command line does; a wrong word ends it with one line."""
    parser = argparse.ArgumentParser(
        "python -m attnlib.chapters.storing", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("chapter", help="such as rasp_languages")
    parser.add_argument("run", help='the name of one of its runs, such as "sort, supervised"')
    parser.add_argument(
        *("-p", "--parameter"), nargs=2, action="append", default=[], metavar=("NAME", "VALUE")
    )
    parser.add_argument("--folder", type=Path, default=STORED, help="with a folder per chapter (%(default)s)")
    asked = parser.parse_args(words)
    try:
        p = chapter_of(asked.chapter, dict(asked.parameter))
        path = train_and_store(p, asked.run, asked.folder)
        found = stored_model(p.notebook, asked.run, asked.folder)
    except (ValueError, OSError, CheckpointError) as error:
        sys.exit(str(error))
    print(f"{path}: {path.stat().st_size:,} bytes\n{found.note}")
    if not found.provenance["clean"]:
        print("It was made in a tree with uncommitted changes: commit, and store it again.")


def _value(text: str) -> Any:
    """A number, a list, True or False as Python writes them; all else is text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


if __name__ == "__main__":
    main()
