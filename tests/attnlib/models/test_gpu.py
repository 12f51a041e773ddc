"""A GPU computes the numbers of the processor; `test_pretended_gpu` has what runs without a GPU."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from attnlib.attribution import METHODS, attributions
from attnlib.generators.base import Batch
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.base import seeded
from attnlib.models.pretrained import load_language_model
from attnlib.rollout import generate_with_rollout, rollout_of
from attnlib.training import Plan, fit
from attnlib.training.objectives import ReferenceLoss

IDS = torch.randint(4, 30, (2, 9), generator=torch.Generator().manual_seed(1))
MASK = torch.ones_like(IDS).index_fill(1, torch.arange(3), 0)
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def transformer(**options: Any) -> Transformer:
    with seeded(0):
        return Transformer(
            TransformerConfig(30, causal=True, n_layers=2, n_heads=2, width=16, **options)
        ).eval()


MODELS: dict[str, Callable[[], nn.Module]] = {
    "own": transformer,
    "llama": lambda: load_language_model("tiny-random", device="cpu")[0],
}


@gpu
@pytest.mark.parametrize("name", MODELS)
def test_every_method_gives_the_processors_scores(name: str) -> None:
    here = MODELS[name]()
    asked = {"query": -1, "target": 5, "foil": 6, "counterfactual": IDS.roll(1, 1)}
    found = attributions(deepcopy(here).to("cuda"), IDS, [*METHODS], MASK, **asked)
    for method, scores in attributions(here, IDS, [*METHODS], MASK, **asked).items():
        close = {"atol": 1e-3, "rtol": 1e-2, "equal_nan": True}
        torch.testing.assert_close(
            found[method].cpu(), scores, **close, msg=lambda said, m=method: f"{m}: {said}"
        )


@gpu
@pytest.mark.parametrize("way", [{}, {"rows": [-1]}, {"cumulative": True}, {"sink": [0]}, {"keys": [0, 1]}])
def test_rollout_and_generation_give_the_processors_numbers(way: dict[str, Any]) -> None:
    here = MODELS["llama"]()
    there = deepcopy(here).to("cuda")
    close = {"atol": 1e-4, "rtol": 1e-3}
    torch.testing.assert_close(
        rollout_of(there, IDS, MASK, **way).cpu(), rollout_of(here, IDS, MASK, **way), **close
    )
    written = [
        generate_with_rollout(model, IDS[:1], 4, do_sample=False).matrix.cpu() for model in (there, here)
    ]
    torch.testing.assert_close(*written, **close)


@gpu
def test_supervised_training_gives_the_processors_weights() -> None:
    looked = torch.ones(2, 9, 9, dtype=torch.bool).tril()
    batch = Batch(IDS, IDS, IDS > 0, looked, looked)
    models = {device: transformer() for device in ("cpu", "cuda")}
    for device, model in models.items():
        fit(
            model,
            lambda step: batch,
            ReferenceLoss(2.0, [(0, 1)]),
            Plan(steps=3, device=device),
            progress=False,
        )
    for name, weight in models["cpu"].state_dict().items():
        torch.testing.assert_close(
            models["cuda"].state_dict()[name].cpu(), weight, atol=2e-3, rtol=1e-3, msg=name
        )
