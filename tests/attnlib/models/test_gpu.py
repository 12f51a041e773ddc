"""What a GPU refuses is refused without one; where there is one, it computes the processor's numbers.

Tensors on torch's device `meta` have a shape and no numbers: whatever makes the processor wait for one
(`.item()`, a tensor in an `if`, `.numpy()`) raises. What the verbs check of a reader's tokens waits by
design, so that here are the passes themselves.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnlib.attribution import METHODS, attributions
from attnlib.generators.base import Batch
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import heads_ablated, reinforced
from attnlib.models.base import seeded
from attnlib.models.pretrained import load_language_model
from attnlib.rollout import generate_with_rollout, null_ratio, rollout_of, uniform_causal_rollout
from attnlib.stats import reference_mass
from attnlib.training import Plan, fit
from attnlib.training.objectives import ReferenceLoss

IDS = torch.randint(4, 30, (2, 9), generator=torch.Generator().manual_seed(1))
MASK = torch.ones_like(IDS).index_fill(1, torch.arange(3), 0)
NULL = uniform_causal_rollout(9, layers=2)
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class OneDevice(TorchDispatchMode):
    """Refuses what mixes devices, as CUDA does; numbers without dimensions may come from the processor."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = [
            leaf for leaf in tree_leaves((args, kwargs or {})) if isinstance(leaf, Tensor) and leaf.dim()
        ]
        if len({leaf.device for leaf in leaves}) > 1 and "copy" not in func.__name__:
            raise RuntimeError(f"Expected all tensors to be on the same device ({func.__name__})")
        return func(*args, **kwargs or {})


@pytest.fixture
def numberless() -> Iterator[None]:
    """Tensors are made without numbers, and on one device."""
    with torch.device("meta"), OneDevice():
        yield


def transformer(**options: Any) -> Transformer:
    with seeded(0):
        return Transformer(
            TransformerConfig(30, causal=True, n_layers=2, n_heads=2, width=16, **options)
        ).eval()


def ids() -> Tensor:
    return torch.ones(2, 9, dtype=torch.long)


def looks() -> Tensor:
    return torch.ones(2, 9, 9, dtype=torch.bool)


def inside(block: Callable[[Any], AbstractContextManager]) -> Tensor:
    model = transformer()
    with block(model):
        return model(ids()).logits


def gradient() -> Tensor:
    model = transformer()
    out = model(ids(), output_attentions=True)
    (out.logits.logsumexp(-1).sum() + out.attentions.square().sum()).backward()
    torch.optim.AdamW(model.parameters()).step()
    return model.embedding.weight


PASSES: dict[str, Callable[[], Tensor]] = {
    "learned positions": lambda: transformer(positions="learned")(ids()).logits,
    "rotary positions": lambda: transformer(positions="rotary")(ids()).logits,
    "padding": lambda: transformer()(ids(), ids() > 0).logits,
    "attention": lambda: transformer()(ids(), output_attentions=True).attentions,
    "reinforced heads": lambda: inside(lambda model: reinforced(model, None, looks(), 0.5)),
    "heads without an effect": lambda: inside(lambda model: heads_ablated(model, [(0, 1)])),
    "a step of training": gradient,
    "rollout over null": lambda: null_ratio(looks().float(), NULL.expand(2, 9, 9)),
    "reference mass": lambda: reference_mass(looks().float(), looks(), looks()),
}


@pytest.mark.usefixtures("numberless")
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_waits_for_no_number_and_stays_on_its_device(name: str) -> None:
    assert PASSES[name]().device.type == "meta"


MISTAKES: dict[str, Callable[[], Any]] = {
    "a tensor left on the processor": lambda: ids() + torch.ones(2, 9, device="cpu"),
    "a model that stayed": lambda: nn.Linear(9, 2, device="cpu")(looks().float()),
    "a number that is waited for": lambda: ids().sum().item(),
    "a condition": lambda: bool((ids() > 0).any()),
    "NumPy": lambda: ids().numpy(),
    "an unknown size": lambda: ids()[ids() > 0],
}


@pytest.mark.usefixtures("numberless")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str) -> None:
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
        MISTAKES[name]()


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
