"""Ctrl-C at any line leaves the model, and all that blocks share, as they were."""

import sys
from collections.abc import Callable
from functools import partial
from linecache import getline
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM

import attnlib
from attnlib.attribution import METHODS, attribute
from attnlib.benchmarking.scoring import rows_counted
from attnlib.models import Transformer, TransformerConfig, base
from attnlib.models.attention import evaluating, heads_ablated, interface, reinforced
from attnlib.models.base import seeded
from attnlib.rollout import generate_with_rollout, rollout_of, stream_with_rollout

HOUSE = str(Path(attnlib.__file__).parent)
IDS = torch.tensor([[3, 5, 1, 4]])
OTHER = torch.tensor([3, 2, 1, 4])
LOOKS = torch.ones(1, 4, 4, dtype=torch.bool).tril()


def llama() -> nn.Module:
    """In training mode, but for a part of it."""
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    with seeded(0):
        model = LlamaForCausalLM(LlamaConfig(vocab_size=8, max_position_embeddings=16, **sizes)).train()
    model.model.norm.eval()
    return model


def own() -> nn.Module:
    """The same of ours."""
    with seeded(0):
        model = Transformer(TransformerConfig(8, n_layers=1, n_heads=2, width=8, causal=True)).train()
    model.layers[0].eval()
    return model


def asked(method: str, **options: Any) -> Callable[[Any], Any]:
    """A measure."""
    measure = partial(METHODS[method], **options)
    return lambda model: attribute(model, IDS, method=measure, counterfactual=OTHER)


def inside(block: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A call of the model in a block."""

    def call(model: Any) -> None:
        with block(model):
            model(IDS)

    return call


WAYS: dict[str, tuple[Callable[[], nn.Module], Callable[[Any], Any]]] = {
    "AttnLRP": (llama, asked("AttnLRP")),
    "AttnLRP of ours": (own, asked("AttnLRP")),
    "ALTI": (llama, asked("ALTI")),
    "ALTI-Logit": (own, asked("ALTI-Logit")),
    "activation patching": (llama, asked("activation patching")),
    "attention knockout": (llama, asked("attention knockout")),
    "integrated gradients": (own, asked("integrated gradients", steps=2)),
    "ContextCite": (own, asked("ContextCite", ablations=2)),
    "rollout": (llama, lambda model: rollout_of(model, IDS)),
    "a row of rollout": (own, lambda model: rollout_of(model, IDS.repeat(1, 100)[:, :300], rows=[-1])),
    "generation": (llama, lambda model: generate_with_rollout(model, IDS, 2, do_sample=False)),
    "streaming": (llama, lambda model: list(stream_with_rollout(model, IDS, 2, do_sample=False))),
    "reinforced": (llama, inside(lambda model: reinforced(model, None, LOOKS, 0.5))),
    "ablated": (own, inside(lambda model: heads_ablated(model, [(0, 1)]))),
    "a count of rows": (own, inside(rows_counted)),
    "evaluating": (own, inside(evaluating)),
}

NO_CALL = ("try:", "with self._lock:")


class Lines:
    """Counts the lines of the library that this thread executes; raises KeyboardInterrupt at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.seen = at, list[tuple[str, int]]()

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        """What Python calls at the beginning of a function, and then at its lines."""
        if not frame.f_code.co_filename.startswith(HOUSE):
            return None
        if event == "line":
            self.seen.append((frame.f_code.co_filename, frame.f_lineno))
            if len(self.seen) == self.at:
                raise KeyboardInterrupt
        return self


def run(way: Callable[[Any], Any], model: nn.Module, at: int | None = None) -> tuple[Lines, Any]:
    """The lines that a way executed, and the interrupt, which is held as a notebook holds it."""
    lines, before = Lines(at), sys.gettrace()
    sys.settrace(lines)
    try:
        way(model)
    except KeyboardInterrupt as error:
        return lines, error
    finally:
        sys.settrace(before)
    return lines, None


def state(model: nn.Module) -> dict[str, Any]:
    """All that a block may change, but for numbers."""
    own_functions = [m.attend for m in model.modules() if "attend" in vars(m)]
    return {
        "hooks": [
            (name, list(table))
            for module in model.modules()
            for name, table in vars(module).items()
            if "hooks" in name
        ],
        "training": [module.training for module in model.modules()],
        "functions": (dict(AttentionInterface._global_mapping), own_functions),
        "implementation": getattr(model.config, "_attn_implementation", None),
        "blocks": (interface._open.get(), dict(interface._led_here.users), dict(base._evaluated.users)),
        "torch": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.backends.cudnn.enabled),
        "modes": _get_current_function_mode_stack(),
    }


def numbers(model: nn.Module) -> list[Tensor]:
    """Logits and gradients."""
    logits = model(IDS).logits
    gradients = torch.autograd.grad(logits.logsumexp(-1).sum(), [*model.parameters()], allow_unused=True)
    return [logits, *(each for each in gradients if each is not None)]


def places(lines: list[tuple[str, int]]) -> list[int]:
    """The first and the last time that each line was executed, counted from 1.

    Python lets a signal in behind a call, so never at a `try` and never between a lock's block and its end.
    """
    calls = [(at, line) for at, line in enumerate(lines, 1) if getline(*line).strip() not in NO_CALL]
    first = {line: at for at, line in reversed(calls)}
    return sorted({*first.values(), *{line: at for at, line in calls}.values()})


def left_behind(name: str, step: int) -> list[str]:
    """Where an interrupt leaves something behind, of every `step`-th place."""
    make, way = WAYS[name]
    model = make()
    run(way, model)  # what is remembered from the first time on
    before, expected = state(model), numbers(model)
    every, found = run(way, model)[0].seen, []
    assert len(every) > 5 and state(model) == before
    for at in places(every)[::step]:
        file, line = every[at - 1]
        _, held = run(way, model, at)
        where = f"{Path(file).name}:{line}"
        if state(model) != before:
            found.append(f"{where} {[key for key, each in state(model).items() if each != before[key]]}")
            model = make()
            before = state(model)
        del held
    again = numbers(model)
    assert all(torch.equal(*pair) for pair in zip(expected, again, strict=True))
    return found


@pytest.mark.parametrize("name", WAYS)
def test_an_interrupt_leaves_nothing_behind(name: str) -> None:
    assert not left_behind(name, step=31)


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_an_interrupt_at_any_line_leaves_nothing_behind(name: str) -> None:
    assert not left_behind(name, step=1)
