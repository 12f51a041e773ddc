"""Bad sets of parameters for every chapter, made from what its own are: refused in words, or harmless."""

import json
import reprlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from attnlib.models.causal import architectures
from book.chapters import demands
from book.chapters.chapter import Chapter
from book.chapters.flow.quantifying_flow import QuantifyingFlow
from book.chapters.generative import GenerativeRollout
from book.chapters.lens import ArithmeticLens
from book.chapters.reasoning import AlgorithmicReasoning
from book.chapters.records.runs import _file_name
from book.chapters.refusals import ParameterError
from tests.conftest import ROOT
from tests.parameters import CHAPTERS, defaults_of, profile

FLOATS = [float("inf"), float("-inf"), float("nan"), -2.0, 1e308, "x", True, None, [0.1]]
INTS = [-2, 2**63, 10**30, 10**9, True, 1.5, float("nan"), "1", None, [1]]
TEXTS = [
    *("a\0b", "\ud800", "a" * 5000, "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'),
    *("../../../outside", "/etc/passwd", "a\nb", "\u202eabc", "{{x}}", "${HOME}", "`id`", 7, None, []),
]

FREE = {
    "prompt",
    "text",
    "sentence",
    "sequence",
    "problem",
    "tokens",
    "ignore",
    "continuation",
    "scores_folder",
}
"""Parameters that hold a reader's own text, or a folder to write to: of any characters."""

NORMAL = {"tasks", "supervised", "strengths", "corpora", "ablations", "data"}
"""Parameters that a chapter brings into one form: without repetitions, in its own order or letters."""

MOMENT = 20
"""Seconds of a processor, however slow, after which a check no longer ends by itself; a tenth is usual."""


@pytest.fixture(autouse=True)
def a_large_machine(monkeypatch):
    """What fits into a machine does not depend on the one that the tests run on."""
    monkeypatch.setattr(demands, "memory_here", lambda _: 64 * 10**9)


def declared(name: str) -> dict[str, Any]:
    return defaults_of(name) | profile(name, "smoke") | {"device": "cpu"}


def bad(value: Any) -> list[Any]:
    """Bad values in place of a good one."""
    if isinstance(value, bool):
        return [1, "yes", None, []]
    if isinstance(value, int):
        return INTS
    if isinstance(value, float):
        return FLOATS
    if isinstance(value, str):
        return TEXTS
    if isinstance(value, list):
        inner = bad(value[0]) if value else [*TEXTS, *INTS]
        nested: list[Any] = []
        for _ in range(2000):
            nested = [nested]
        wrong = [[], [[]], [[[1]]], nested, None, 3, "x", {}, [*value] * 20_000, [*value, *value]]
        return [*wrong, *([each] for each in inner), *([*value, each] for each in inner[:3])]
    return [{"x": 1}, {"<script>": {}}, {"a" * 5000: {}}, {1: 2}, {"\0": {}}, [], None, "x", 3]


def bad_sets(name: str) -> Iterator[tuple[str, Any]]:
    for parameter, value in declared(name).items():
        if parameter == "device":
            yield from [(parameter, each) for each in ("gpu", "cuda:0", "", None, 0, "a" * 5000)]
        else:
            yield from [(parameter, each) for each in bad(value)]
    yield from [(each, 1) for each in ("stpes", "<script>", "a" * 5000, "\0", "\ud800", "__class__")]


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb")))
def test_bad_parameters_are_refused_in_words_or_harmless(name):
    chapter, good, tried = CHAPTERS[name], declared(name), 0
    chapter.checked(good)
    for parameter, value in bad_sets(name):
        tried, started = tried + 1, time.process_time()
        what = f"{parameter:.40}={reprlib.repr(value)}"
        try:
            p = chapter.checked(good | {parameter: value})
        except ParameterError as error:
            said = str(error)
            assert len(said) < 2000 and said.encode() and "\n  - " in said, what
            assert all(character.isprintable() or character == "\n" for character in said), what
        else:
            assert_harmless(p, parameter, value)
        assert time.process_time() - started < MOMENT, what
    assert tried >= 40


def assert_harmless(p: Chapter, parameter: str, value: Any) -> None:
    """Names are names, files are files of their folder, and nothing was made of the parameters."""
    what = f"{parameter}={reprlib.repr(value)}"
    file = _file_name(p.label, p.model_dump(mode="json"))
    assert file.isascii() and len(file) < 140 and not set(file) & set("/\\\0 ") and file[0] not in ".-", what
    for run in p.runs():
        assert run.name.isprintable() and len(run.name) < 300, what
        assert "<" not in run.name and ".." not in run.name, what
    assert json.dumps(p.model_dump(mode="json"), allow_nan=False).encode(), what
    if parameter not in NORMAL:
        assert p.model_dump()[parameter] == value, what
    if isinstance(value, str) and parameter not in FREE:
        assert value.isprintable() and not set(value) & set("<`$\n"), what


@pytest.mark.parametrize("name", sorted(CHAPTERS))
@pytest.mark.parametrize("which", ["smoke", "quick", "paper"])
def test_checks_change_nothing(name, which):
    given = defaults_of(name) | profile(name, which) | {"device": "cpu"}
    checked = CHAPTERS[name].checked(given).model_dump()
    assert {key for key in given if checked[key] != given[key]} <= NORMAL and checked.keys() == given.keys()


def of_task(name: str, part: str = "train", **settings: Any) -> dict[str, Any]:
    """Settings of one algorithmic task alone."""
    return {"tasks": [name], "supervised": [], "override": {name: {part: settings}}}


ODD: list[tuple[str, dict[str, Any], str]] = [
    *[
        ("algorithmic_reasoning", change, fragment)
        for change, fragment in [
            (of_task("string_reversal", length=[1, 10**7]), "length must"),
            (of_task("long_addition", length=[1, 5 * 10**6]), "length must"),
            (of_task("long_addition", num_of_nums=[2, 10**6]), "length must"),
            (of_task("long_multiplication", length=[1, 3000]), "length must"),
            (of_task("flip_flop", length=[1, 10**7]), "length must"),
            (of_task("flip_flop", "ood", length=[1, 10**7]), "the ood settings of flip_flop"),
            (of_task("string_reversal", length=[1, 3000]), "scratch reads 2,048 characters; got"),
            (of_task("string_reversal", charset=5), "charset must"),
            (of_task("flip_flop", use_flip="x"), "use_flip must"),
        ]
    ],
    *[
        (chapter, {parameter: "~nouser/x"}, f"{parameter} should be a folder that is there")
        for chapter, parameter in [
            ("algorithmic_reasoning", "model"),
            ("generative_rollout", "model"),
            ("quantifying_flow", "classifier"),
        ]
    ],
    *[
        (chapter, {parameter: "a" * 999}, "cannot be read: File name too long")
        for chapter, parameter in [
            ("classification_dynamics", "data"),
            ("translation_dynamics", "data"),
            ("arithmetic_lens", "data_folder"),
            ("generative_rollout", "model"),
            ("own_model", "model"),
            ("quantifying_flow", "classifier"),
            ("rasp_languages", "language_file"),
        ]
    ],
]
"""Parameters that once hung, took all memory, or raised a library's own error."""


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize(("name", "change", "fragment"), ODD, ids=lambda value: reprlib.repr(value))
def test_odd_parameters_are_refused_before_anything_is_drawn(name, change, fragment, monkeypatch):
    monkeypatch.setenv("ATTNLIB_DATA", str(ROOT))
    started = time.process_time()
    with pytest.raises(ParameterError, match=fragment) as told:
        CHAPTERS[name].checked(declared(name) | change)
    assert len(str(told.value)) < 2000 and time.process_time() - started < MOMENT


def test_every_problem_of_this_kind_is_told_at_once():
    with pytest.raises(ParameterError) as told:
        ArithmeticLens.checked(declared("arithmetic_lens") | {"clip": float("inf"), "seeds": [-1, 2**63]})
    assert str(told.value).split("\n  - ")[1:] == [
        "clip: should be a finite number; got inf",
        "seeds.0: should be from 0 to 4,294,967,295; got -1",
        "seeds.1: should be from 0 to 4,294,967,295; got 9223372036854775808",
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(ParameterError, match=r"device: should be auto, .*\(cpu\); got cuda"):
        GenerativeRollout.checked(declared("generative_rollout") | {"device": "cuda"})


@pytest.mark.parametrize("name", ["mamba", "xlstm"])
def test_models_without_attention_are_refused(name, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name}))
    with pytest.raises(ParameterError, match=f"should be a model with attention; got .*, of type {name}"):
        GenerativeRollout.checked(declared("generative_rollout") | {"model": str(tmp_path)})
    assert name in architectures()
    with pytest.raises(ParameterError, match=f"should be an architecture with attention; got '{name}'"):
        AlgorithmicReasoning.checked(declared("algorithmic_reasoning") | {"model": name})


def test_names_of_models_that_may_be_are_allowed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "up" / "down").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "up"):
        (folder / "config.json").write_text("{}")
    for name in ("owner/model", "owner/model@main", "gpt2", str(tmp_path), "up/down/../../up"):
        GenerativeRollout.checked(declared("generative_rollout") | {"model": name})
        QuantifyingFlow.checked(declared("quantifying_flow") | {"classifier": name, "corpora": ["sst"]})


@pytest.mark.parametrize("name", ["generative_rollout", "own_model"])
def test_a_folder_without_a_model_is_refused(name, tmp_path):
    with pytest.raises(ParameterError, match=f"the folder {tmp_path} holds no model: it has no config.json"):
        CHAPTERS[name].checked(declared(name) | {"model": str(tmp_path)})


@pytest.mark.parametrize("name", ["classification_dynamics", "translation_dynamics"])
def test_scores_go_to_a_folder_that_can_be(name, tmp_path):
    (tmp_path / "file").touch()
    for place in ("", str(tmp_path), str(tmp_path / "new/er")):
        CHAPTERS[name].checked(declared(name) | {"scores_folder": place})
    for place in ("file", "file/in"):
        with pytest.raises(ParameterError, match=f"scores_folder should .*{tmp_path}/file is a file"):
            CHAPTERS[name].checked(declared(name) | {"scores_folder": str(tmp_path / place)})
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_combination_is_refused_without_a_list_of_all_parameters():
    with pytest.raises(ParameterError) as told:
        ArithmeticLens.checked(declared("arithmetic_lens") | {"n_heads": 3})
    assert "batch_size" not in str(told.value)
