"""What holds on a machine with GPUs, as far as one without can tell; see also `test_gpu`."""

from collections.abc import Callable
from types import SimpleNamespace

import accelerate
import pytest
import torch

from attnlib.models import Classifier, ClassifierConfig
from attnlib.models.base import seeded
from attnlib.models.causal import CausalSizes
from attnlib.models.copier import Copier, CopierConfig
from attnlib.models.devices import device_of, pick_device
from attnlib.models.pretrained import load_language_model, untrained_twin
from attnlib.training import Plan, fit
from book.chapters.attribution_benchmark.measures import untrained
from book.chapters.copying.heads import initial_head

COPIER = CopierConfig(vocabulary=5, hidden=4, seeds=(0,))
TOKENIZER = SimpleNamespace(pad_token_id=0, bos_token_id=1, eos_token_id=2)


def train() -> None:
    model = torch.nn.Linear(2, 1)
    fit(
        model,
        lambda step: torch.ones(3, 2),
        lambda m, x: m(x).sum(),
        Plan(steps=1, device="cpu"),
        progress=False,
    )


DRAWING: dict[str, Callable[[], object]] = {
    "copier": lambda: Copier(COPIER),
    "head": lambda: initial_head(COPIER, 3),
    "causal": lambda: CausalSizes(1, 1, 4).build("transformer", range(9)),
    "tiny": lambda: load_language_model("tiny-random", device="cpu"),
    "twin": lambda: untrained_twin(load_language_model("tiny-random", device="cpu")[0]),
    "recurrent twin": lambda: untrained(Classifier(ClassifierConfig(9, 4, 4, 4))),
    "training": train,
}


@pytest.mark.parametrize("name", DRAWING)
def test_what_is_drawn_on_the_processor_reseeds_no_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded_gpus: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded_gpus.append)
    DRAWING[name]()
    assert not seeded_gpus


def test_a_seed_gives_the_numbers_of_torchs_own() -> None:
    with seeded(7):
        drawn = torch.rand(5)
    with torch.random.fork_rng([]):
        torch.manual_seed(7)
        assert torch.equal(drawn, torch.rand(5))


def test_recurrent_layers_keep_float32() -> None:
    assert not torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(
    ("gpus", "apple", "expected"),
    [(2, True, "cuda"), (0, True, "mps"), (0, False, "cpu")],
)
def test_auto_takes_the_first_gpu_that_is_there(
    gpus: int, apple: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: apple)
    assert pick_device("auto") == torch.device(expected)
    assert Plan(steps=1).torch_device() == torch.device(expected)


@pytest.mark.parametrize("name", ["cuda:7", "meta", "gpu"])
def test_a_device_that_is_not_here_is_refused_with_those_that_are(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for ask in (pick_device, lambda device: load_language_model("tiny-random", device=device)):
        with pytest.raises(ValueError, match=r"device should be auto, or one that is here \(cpu\); got"):
            ask(name)


def test_a_device_may_be_one_of_torchs() -> None:
    assert pick_device(torch.device("cpu")) == pick_device("cpu") == torch.device("cpu")
    assert Plan(steps=1, device="cpu:0").settings()["device"] == "cpu"


def test_where_a_model_takes_its_tokens() -> None:
    model = load_language_model("tiny-random", device="cpu")[0]
    assert device_of(model) == torch.device("cpu") and device_of(torch.nn.Identity()) is None
    offloaded = accelerate.cpu_offload(model, execution_device=torch.device("cpu"))
    assert next(offloaded.parameters()).device.type == "meta" and device_of(offloaded) == torch.device("cpu")
