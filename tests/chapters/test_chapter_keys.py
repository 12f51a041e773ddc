"""What every parameter of every chapter does: another key for the model, or the very same weights."""

import functools
from typing import Any

import pytest
import torch
import yaml

from attnlib.training import fit
from attnlib.training.key import key_parts
from book.chapters.chapter import Chapter
from book.chapters.refusals import ParameterError
from book.chapters.storing import NOTEBOOKS, all_chapters
from tests.parameters import defaults_of, profile

SHORTER = {"algorithmic_reasoning": {"tasks": ["string_reversal"], "override": {}, "supervised": []}}
CHOICES = {
    "schedule": ["exponential", "constant", "onecycle", "plateau", "plateau of the loss"],
    "language": ["reverse"],
    "also": [[]],
    "operators": ["+-"],
    "dropout": [0.1],
    "positions": ["learned"],
    "classes": [],
    "languages": [],
    "context": ["added"],
    "device": ["cpu"],
    "model": ["gpt2"],
    "measure": ["kendall"],
    "problem": ["1+2"],
    "sequence": ["cab"],
    "precision": ["bf16"],
    "tensorboard": [],  # needs a folder, and decides nothing
}
SURE = {
    "rasp_languages": "length longest n_layers width ff_width positions dropout train_samples steps seeds",
    "arithmetic_lens": "operators highest valid_problems n_layers width dropout steps clip moments seeds",
    "classification_dynamics": "train_documents difficulty embedding hidden steps every learning_rate seeds",
    "algorithmic_reasoning": "model steps batch_size seeds",
    "translation_dynamics": "train_sentences hidden layers context steps batch_size learning_rate seeds",
    "sequence_copying": "length hidden batch_size learning_rate steps every sequences",
    "quantifying_flow": "seeds n_layers n_heads width training_sentences steps batch_size learning_rate",
}

CLASSES = {name: all_chapters()[name] for name in SURE}
NEEDS = yaml.safe_load((NOTEBOOKS / "needs.yaml").read_text())
NEEDED = sorted({name for others in NEEDS.values() for name in others} & set(CLASSES))


@functools.cache
def values(name: str) -> dict[str, Any]:
    """A chapter's parameters at its smallest."""
    return defaults_of(name) | profile(name, "smoke") | SHORTER.get(name, {}) | {"device": "cpu"}


def others(parameter: str, value: Any) -> list[Any]:
    """Values near a parameter's own."""
    if parameter in CHOICES:
        return [choice for choice in CHOICES[parameter] if choice != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return (
            [value + 1, value * 2, value / 2, value - 1]
            if isinstance(value, float)
            else [value + 1, value * 2, value - 1]
        )
    if isinstance(value, list) and value and all(isinstance(each, int) for each in value):
        return [[each + 1 for each in value], [each + 10 for each in value], value[:1]]
    return []


def changed(name: str, parameter: str) -> Chapter | None:
    """The chapter with another value of one parameter, if it has one that it can run with."""
    for other in others(parameter, values(name)[parameter]):
        try:
            chapter = CLASSES[name].checked(values(name) | {parameter: other})
            chapter.setup(chapter.runs()[0])
            return chapter
        except (ParameterError, ValueError, FileNotFoundError):
            continue
    return None


def key(chapter: Chapter) -> dict[str, str]:
    """What the first model of a chapter is kept under."""
    setup = chapter.setup(chapter.runs()[0])
    how = {"valid": setup.valid, "score": setup.score, "hooks": setup.hooks}
    return key_parts(setup.model, setup.batches, setup.loss, setup.plan, **how)


def weights(chapter: Chapter) -> dict[str, torch.Tensor]:
    """The first model of a chapter, trained from the start."""
    setup = chapter.setup(chapter.runs()[0])
    score = {"evaluate": lambda model: setup.score(model, setup.valid)}
    fit(setup.model, setup.batches, setup.loss, setup.plan, progress=False, **score)
    return setup.model.state_dict()


@pytest.mark.parametrize(
    "name", sorted({name for others in NEEDS.values() for name in others} & set(CLASSES))
)
def test_a_quick_build_trains_the_models_that_others_ask_as_the_notebook_by_itself_does(name: str) -> None:
    """Records of such chapters say that they asked models of the profile "quick"."""
    own, quick = (defaults_of(name) | {"device": "cpu"} | each for each in ({}, profile(name, "quick")))
    assert key(CLASSES[name].checked(own)) == key(CLASSES[name].checked(quick))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, each in CLASSES.items() if "setup" in vars(each)])
def test_another_parameter_is_another_key_or_the_same_weights(name: str) -> None:
    first = CLASSES[name].checked(values(name))
    own, trained = key(first), weights(first)
    with_other_key, tried = set(), set()
    for parameter in values(name):
        chapter = changed(name, parameter)
        if chapter is None:
            continue
        tried.add(parameter)
        if key(chapter) != own:
            with_other_key.add(parameter)
            continue
        again = weights(chapter)
        assert again.keys() == trained.keys(), parameter
        assert all(torch.equal(again[each], weight) for each, weight in trained.items()), parameter
    assert not set(SURE[name].split()) - with_other_key
    assert len(tried) > len(values(name)) // 2
