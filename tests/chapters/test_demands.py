"""Sizes that cannot fit are refused before anything is made, and long trainings are announced."""

import logging

import pytest
import torch

from book.chapters import demands
from book.chapters.copying import SequenceCopying
from book.chapters.demands import bytes_of, operations, refuse_too_large, weights
from book.chapters.rasp import RaspLanguages
from book.chapters.reasoning import AlgorithmicReasoning
from book.chapters.refusals import ParameterError
from tests.parameters import defaults_of

RASP = defaults_of("rasp_languages") | {"device": "cpu"}


@pytest.fixture(autouse=True)
def sixteen_gigabytes(monkeypatch):
    monkeypatch.setattr(demands, "memory_here", lambda _: 16 * 10**9)


@pytest.mark.parametrize(
    ("chapter", "change", "part"),
    [
        (
            RaspLanguages,
            {"batch_size": 100_000, "length": 1000, "longest": 1000, "n_layers": 2, "n_heads": 2},
            "for the attention of a batch",
        ),
        (RaspLanguages, {"test_samples": 10_000_000, "length": 1000, "longest": 1000}, "for samples 80 GB"),
        (
            AlgorithmicReasoning,
            {"n_layers": 48, "width": 4096, "n_heads": 64, "ff_width": 16384},
            "for weights 155 GB",
        ),
        (SequenceCopying, {"batch_size": 10_000_000, "hidden": 4096}, "for the vectors of a batch 3,277 GB"),
    ],
)
def test_what_cannot_fit_is_refused_with_the_limit(chapter, change, part):
    name = chapter.__module__.rpartition(".")[2]
    with pytest.raises(ParameterError, match="these sizes should fit into 16 GB of memory; got") as told:
        chapter.checked(defaults_of(name) | {"device": "cpu"} | change)
    assert part in str(told.value)
    for parameter in change:
        assert parameter == "longest" or f"{parameter} {change[parameter]:,}" in str(told.value)


def test_the_least_is_not_more_than_there_is():
    p = RaspLanguages.checked(RASP | {"n_layers": 2, "n_heads": 2})
    model = p.setup(p.runs()[0]).model
    assert 0.5 * sum(w.numel() for w in model.layers.parameters()) < weights(p)
    assert weights(p) <= sum(w.numel() for w in model.parameters())
    assert bytes_of(p)["for the attention of a batch"] == 4 * 2 * 2 * p.batch_size * p.length**2
    refuse_too_large(p, memory=int(sum(bytes_of(p).values())))
    with pytest.raises(ValueError, match="should fit into"):
        refuse_too_large(p, memory=int(sum(bytes_of(p).values())) - 1)


def test_what_a_gpu_cannot_hold_is_refused_whatever_the_machine_has(monkeypatch):
    p = RaspLanguages.checked(RASP)
    there = {"cpu": 10**13, "cuda": 8 * 10**9}
    monkeypatch.setattr(demands, "memory_here", lambda device: there[device.type])
    monkeypatch.setattr(demands, "bytes_of", lambda _: {"for weights": 9 * 10**9, "for samples": 10**11})
    refuse_too_large(p)
    monkeypatch.setattr(RaspLanguages, "torch_device", torch.device("cuda"))
    with pytest.raises(ValueError, match=r"should fit into 8 GB of memory; got, .* weights 9 GB"):
        refuse_too_large(p)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is not waited for")
def test_more_than_a_day_is_announced(caplog):
    caplog.set_level(logging.WARNING)
    p = RaspLanguages.checked(RASP)
    assert not caplog.messages and operations(p) / demands.SPEED < demands.LONG
    RaspLanguages.checked(RASP | {"width": 2048, "n_layers": 12, "steps": 1_000_000, "batch_size": 100})
    assert [text.partition(" days")[0] for text in caplog.messages] == ["each model takes about 1677.7"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is not waited for")
def test_a_long_step_and_many_samples_are_announced(caplog, monkeypatch):
    monkeypatch.setattr(demands, "memory_here", lambda _: 10**13)
    RaspLanguages.checked(RASP | {"batch_size": 10_000_000, "steps": 10})
    RaspLanguages.checked(RASP | {"test_samples": 2_000_000})
    step, samples = caplog.messages
    assert step.startswith("each step takes about ") and step.endswith(
        " minutes on one core; a GPU is faster"
    )
    assert samples == "test_samples 2,000,000: to draw so many takes minutes, before training begins"


@pytest.mark.parametrize(("processor", "warned"), [("AVX2", True), ("AVX512", False), ("DEFAULT", False)])
def test_bf16_is_said_to_be_slow_where_the_processor_has_none(processor, warned, caplog, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: processor)
    RaspLanguages.checked(RASP | {"precision": "float32"})
    assert not caplog.messages
    RaspLanguages.checked(RASP | {"precision": "bf16"})
    with demands.unsaid():
        RaspLanguages.checked(RASP | {"precision": "bf16"})
    said = ["this processor has no bf16: it multiplies 20 times faster with -p precision float32"]
    assert caplog.messages == said * warned
