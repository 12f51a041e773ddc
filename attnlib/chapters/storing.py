"""Stores trained models of a chapter in `results/models`, for readers who train nothing.

::

    p = RaspLanguages.from_notebook(globals())
    p.train_all()
    store(p, "sort, supervised")
"""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path
from typing import Any

from attnlib.chapters.arithmetic_lens import ArithmeticLens, LensRun
from attnlib.chapters.base import Chapter
from attnlib.chapters.rasp_languages import RaspLanguages, RaspRun
from attnlib.models.transformer import Transformer
from attnlib.records.models import Task, store_model


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
    sizes = run.published or (chapter.train_problems, chapter.valid_problems, chapter.test_problems)
    splits = dict(zip(("train", "valid", "test"), sizes, strict=True))
    return chapter.task(run), {**splits, "as_published": run.published is not None}
