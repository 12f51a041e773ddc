"""What `test_pretended_gpu.py` runs in a process of its own, on a GPU that is only pretended."""

from __future__ import annotations

import copy
import dataclasses
import doctest
import functools
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as trees

import attnlib
from attnlib.attribution import METHODS, attribute, attributions, learned_heads, measure, span_attributions
from attnlib.attribution.prompts import Prompts, by_length
from attnlib.commands import looking
from attnlib.generators import base
from attnlib.generators.base import Batch
from attnlib.models import Classifier, ClassifierConfig, Transformer, TransformerConfig
from attnlib.models.base import seeded
from attnlib.models.pretrained import load_language_model
from attnlib.models.seq2seq import EOS_ID, Seq2Seq, Seq2SeqConfig, translate
from attnlib.rollout import (
    attention_flow,
    generate_with_rollout,
    null_ratio,
    rollout,
    rollout_of,
    stream_with_rollout,
    uniform_causal_rollout,
)
from attnlib.rollout.generative import raw_attention
from attnlib.training import Plan, fit
from attnlib.training.objectives import ReferenceLoss, score_samples, token_loss
from book.chapters.attribution_benchmark.single_head import ReadDocuments
from book.chapters.storing import all_chapters
from tests.parameters import defaults_of, profile

try:
    from tests.pretended import NAME, OnDevice, waits
except Exception as error:
    pytest.skip(f"{type(error).__name__}: {error}", allow_module_level=True)

base.PINNED.add(NAME)


def counted(do: Callable[[], Any]) -> tuple[Any, Counter[tuple[str, str]]]:
    """What a function returns, and what it waited for."""
    before = Counter(waits)
    return do(), waits - before


def agree(there: Tensor, here: Tensor, what: str = "") -> None:
    """A tensor of the device holds the processor's numbers."""
    assert isinstance(there, OnDevice), what
    close = {"atol": 1e-4, "rtol": 1e-3, "equal_nan": True}
    torch.testing.assert_close(there.cpu(), here, **close, msg=lambda text: f"{what} {text}")


# ---- training ----------------------------------------------------------------------------------------

TRAINED = {
    name: all_chapters()[name]
    for name in (
        "rasp_languages",
        "arithmetic_lens",
        "classification_dynamics",
        "algorithmic_reasoning",
        "translation_dynamics",
        "sequence_copying",
    )
}
"""The chapters that train: RASP (with supervision), the lens (with scheduled sampling), and so on."""

MOST = {"arithmetic_lens": 1, "algorithmic_reasoning": 1, "translation_dynamics": 1}
"""Waits of a training step, for what data decide: whether a coin is thrown, how many tokens are asked for."""


def steps_of(setup: Any, device: str, **changes: Any) -> tuple[torch.nn.Module, list[int]]:
    """A model after three steps, and how often each of them waited."""
    seen = list[Counter]()
    free = {"stop_at": None, "schedule": "constant", "warmup": 0, "evaluate_every": 100}
    plan = dataclasses.replace(setup.plan, steps=3, device=device, **free | changes)
    model = copy.deepcopy(setup.model)
    fit(model, setup.batches, setup.loss, plan, hooks=[lambda _: seen.append(Counter(waits))], progress=False)
    return model, [sum((after - before).values()) for before, after in pairwise(seen)]


def same_weights(there: torch.nn.Module, here: torch.nn.Module) -> None:
    """Two models have the same weights, but for rounding (which Adam makes as large as its rate at first)."""
    for name, weight in here.state_dict().items():
        torch.testing.assert_close(there.state_dict()[name].cpu(), weight, atol=2e-3, rtol=1e-3, msg=name)


@pytest.mark.parametrize("name", TRAINED)
def test_three_steps_of_every_kind_of_run(name: str) -> None:
    chapter = TRAINED[name].checked(defaults_of(name) | profile(name, "smoke") | {"device": "cpu"})
    kinds = set[Any]()
    for run in chapter.runs():
        setup = chapter.setup(run)
        kind = type(setup.model), type(setup.loss), str(setup.loss)[:80], getattr(run, "uniform", None)
        if kind in kinds or len(kinds) == 3:
            continue
        kinds.add(kind)
        there, waited = steps_of(setup, NAME)
        same_weights(there, steps_of(setup, "cpu")[0])
        assert max(waited) <= MOST.get(name, 0), run.name
        agree_scores(setup, there)


def agree_scores(setup: Any, there: torch.nn.Module) -> None:
    """A score of a model on the device is that of the same model on the processor."""
    found = setup.score(there, setup.valid[:1])
    assert found == pytest.approx(setup.score(copy.deepcopy(there).to("cpu"), setup.valid[:1]), abs=1e-4)


def lens() -> tuple[Any, Any]:
    """The lens's set-up, and its batches with a reference."""
    chapter = TRAINED["arithmetic_lens"].checked(
        defaults_of("arithmetic_lens") | profile("arithmetic_lens", "smoke")
    )
    run = chapter.runs()[0]
    part, task = chapter.splits(run).train, chapter.task(run)
    return chapter.setup(run), lambda step: task.batch(part[torch.arange(8 * step, 8 * step + 8)])


@pytest.mark.parametrize("heads", [None, [(0, 1), (1, 0)]])
def test_supervision_by_a_reference(heads: Any) -> None:
    setup, batches = lens()
    setup = dataclasses.replace(setup, batches=batches, loss=ReferenceLoss(2.0, heads))
    there, waited = steps_of(setup, NAME, clip=0.5)
    same_weights(there, steps_of(setup, "cpu", clip=0.5)[0])
    assert max(waited) <= 1


def test_an_evaluation_waits_no_more_for_more_weights() -> None:
    def waited(layers: int) -> int:
        model, batch = own(layers), Batch(IDS, IDS, IDS > -1)
        setup = SimpleNamespace(model=model, batches=lambda _: batch, loss=token_loss(), plan=Plan(steps=3))
        return max(steps_of(setup, NAME, evaluate_every=1)[1])

    assert waited(1) == waited(4)


class Killed(Exception):
    """What ends a run."""


def test_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    setup, _ = lens()
    plan = dataclasses.replace(setup.plan, steps=4, evaluate_every=2, device=NAME, stop_at=None)
    models = [copy.deepcopy(setup.model) for _ in range(3)]

    def run(model: Any, folder: str, hook: Callable[[Any], Any] = lambda event: None) -> None:
        score = lambda model: setup.score(model, setup.valid[:1])  # noqa: E731
        how = {"evaluate": score, "folder": tmp_path / folder, "hooks": [hook], "progress": False}
        fit(model, setup.batches, setup.loss, plan, **how)

    def kill(event: Any) -> None:
        if event.step == 3:
            raise Killed

    run(models[0], "whole")
    with pytest.raises(Killed):
        run(models[1], "killed", kill)
    run(models[2], "killed")
    for name, weight in models[0].state_dict().items():
        assert torch.equal(weight.cpu(), models[2].state_dict()[name].cpu()), name


# ---- measures ----------------------------------------------------------------------------------------

IDS = torch.randint(4, 30, (2, 9), generator=torch.Generator().manual_seed(1))
OTHER = IDS.clone()
OTHER[:, [2, 5]] = 7
MASK = torch.ones_like(IDS)
MASK[1, :3] = 0


def own(layers: int = 2) -> torch.nn.Module:
    """A transformer of ours."""
    with seeded(0):
        sizes = {"n_layers": layers, "n_heads": 2, "width": 16, "max_length": 32}
        return Transformer(TransformerConfig(30, causal=True, **sizes)).eval()


MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "own": own,
    "llama": lambda: load_language_model("tiny-random", device="cpu")[0],
}


def every_measure(model: torch.nn.Module, place: str) -> dict[str, Tensor]:
    """The scores of all measures, asked with tokens that lie somewhere."""
    ids, mask, other = (each.to(place) for each in (IDS, MASK, OTHER))
    asked = {"query": -1, "target": 5, "foil": 6, "counterfactual": other}
    return attributions(model, ids, [*METHODS], mask, **asked)


@pytest.mark.parametrize("place", ["cpu", NAME])
@pytest.mark.parametrize("model", MODELS)
def test_every_measure(model: str, place: str) -> None:
    here = MODELS[model]()
    found = every_measure(copy.deepcopy(here).to(NAME), place)
    for method, scores in every_measure(here, "cpu").items():
        agree(found[method], scores, method)


def split(model: Any, first: str, last: str) -> Any:
    """A copy of a Llama on two devices, with forwards that bring what they are given, as accelerate's do."""
    model = copy.deepcopy(model).to(first)

    def bringing(module: Any) -> Callable[..., Any]:
        forward = module.to(last).forward

        def brought(*given: Any, **named: Any) -> Any:
            given, named = trees.tree_map_only(Tensor, lambda each: each.to(last), (given, named))
            return forward(*given, **named)

        return functools.wraps(forward)(brought)

    for module in (model.model.layers[-1], model.model.norm, model.lm_head):
        module.forward = bringing(module)
    return model


@pytest.mark.parametrize("devices", [("cpu", NAME), (NAME, "cpu")])
def test_every_measure_of_a_model_on_two_devices(devices: tuple[str, str]) -> None:
    here = MODELS["llama"]()
    found = every_measure(split(here, *devices), "cpu")
    for method, scores in every_measure(here, "cpu").items():
        close = {"atol": 1e-4, "rtol": 1e-3, "equal_nan": True}
        torch.testing.assert_close(found[method].cpu(), scores, **close, msg=method)


@pytest.mark.parametrize("devices", [("cpu", NAME), (NAME, "cpu")])
def test_rollout_of_a_model_on_two_devices(devices: tuple[str, str]) -> None:
    here = MODELS["llama"]()
    model, close = split(here, *devices), {"atol": 1e-4, "rtol": 1e-3}
    for way in ({}, {"cumulative": True}, {"rows": [-1]}, {"rows": [-1], "cumulative": True}, {"sink": [0]}):
        expected = rollout_of(here, IDS, MASK, **way)
        torch.testing.assert_close(rollout_of(model, IDS, MASK, **way).cpu(), expected, **close)
    options = {"max_new_tokens": 4, "do_sample": False, "sink": [0]}
    one, other = (generate_with_rollout(each, IDS[:1], **options) for each in (model, here))
    torch.testing.assert_close(one.matrix.cpu(), other.matrix, **close)
    torch.testing.assert_close(raw_attention(model, one).matrix.cpu(), raw_attention(here, other).matrix)
    streamed = [stream_with_rollout(each, IDS[:1], **options) for each in (model, here)]
    for ours, theirs in zip(*streamed, strict=True):
        torch.testing.assert_close(ours.row.cpu(), theirs.row, **close)


def test_what_is_left_on_the_processor_is_brought() -> None:
    here = MODELS["llama"]()
    model, ids = copy.deepcopy(here).to(NAME), IDS[:1]
    agree(
        rollout_of(model, IDS, MASK, position_ids=MASK.cumsum(1)),
        rollout_of(here, IDS, MASK, position_ids=MASK.cumsum(1)),
    )
    agree(attribute(model, ids[0], method="AttnLRP"), attribute(here, ids[0], method="AttnLRP"))
    agree(METHODS["ALTI"](model, IDS, MASK), METHODS["ALTI"](here, IDS, MASK))
    for how in ({}, {"written": 5}):
        found, expected = (
            span_attributions(each, ids[0], (6, 8), ["rollout", "AttnLRP"], **how) for each in (model, here)
        )
        for method, scores in expected.items():
            agree(found[method], scores, method)
    given = generate_with_rollout(model, ids, continuation=torch.tensor([5, 6]))
    agree(given.matrix, generate_with_rollout(here, ids, continuation=torch.tensor([5, 6])).matrix)
    agree(raw_attention(model, given).matrix, raw_attention(here, given).matrix)
    questions = [Prompts(IDS, 8)]
    assert torch.allclose(
        learned_heads(model, questions).weights, learned_heads(here, questions).weights, atol=1e-3
    )
    agree(own().to(NAME)(IDS, MASK).logits.detach(), own()(IDS, MASK).logits.detach())


@pytest.mark.parametrize("method", ["gradient norm", "integrated gradients", "blank-out"])
def test_a_recurrent_model_asked(method: str) -> None:
    with seeded(0):
        here = ReadDocuments(Classifier(ClassifierConfig(30, 8, 8, 8))).eval()
    there = copy.deepcopy(here).to(NAME)
    found = attributions(there, IDS.to(NAME), method, target=1)[method]
    agree(found, attributions(here, IDS, method, target=1)[method])


def test_prompts_of_every_length_are_waited_for_once() -> None:
    def waited(mask: Tensor) -> int:
        asked = (IDS.to(NAME), mask.to(NAME), -1, None, None)
        return sum(counted(lambda: list(by_length(torch.nn.Identity(), *asked)))[1].values())

    assert waited(torch.ones_like(IDS)) == waited(MASK)


# ---- rollout -----------------------------------------------------------------------------------------

WEIGHTS = torch.tensor([[0.3, 0.7], [0.6, 0.4]])
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "without residual": {"residual": False},
    "cumulative": {"cumulative": True},
    "rows": {"rows": [0, -1]},
    "cumulative rows": {"rows": [0, -1], "cumulative": True},
    "no sink": {"sink": [0]},
    "weighted": {"head_weights": WEIGHTS},
}


def there(way: dict[str, Any]) -> dict[str, Any]:
    """The same options, with their tensors on the device."""
    return {name: each.to(NAME) if isinstance(each, Tensor) else each for name, each in way.items()}


@pytest.mark.parametrize("way", WAYS)
def test_rollout_of_attention_that_is_there(way: str) -> None:
    drawn = torch.rand(2, 2, 2, 9, 9, generator=torch.Generator().manual_seed(0))
    attention = drawn.tril().add(1e-9).softmax(-1)
    agree(rollout(attention.to(NAME), **there(WAYS[way])), rollout(attention, **WAYS[way]))
    if not WAYS[way].keys() - {"rows"}:  # flow knows no others, and is computed on the processor
        flow = attention_flow(attention.to(NAME), **there(WAYS[way]))
        assert torch.allclose(flow, attention_flow(attention, **WAYS[way]), atol=1e-5)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("without residual", "weighted")])
def test_rollout_while_a_model_runs(way: str, padded: bool) -> None:
    model, mask = own(), MASK if padded else None
    on_it = None if mask is None else mask.to(NAME)
    found = rollout_of(copy.deepcopy(model).to(NAME), IDS.to(NAME), on_it, **there(WAYS[way]))
    agree(found, rollout_of(model, IDS, mask, **WAYS[way]))


def test_rollout_does_not_wait_for_every_layer() -> None:
    def waited(layers: int, ways: Callable[[Any, Tensor], Any]) -> int:
        model, ids = own(layers).to(NAME), IDS.to(NAME)
        return sum(counted(lambda: ways(model, ids))[1].values())

    for way in (
        lambda model, ids: rollout_of(model, ids),
        lambda model, ids: rollout_of(model, ids, rows=[-1]),
        lambda model, ids: rollout(model(ids, output_attentions=True).attentions),
        lambda model, ids: rollout(model(ids, output_attentions=True).attentions, rows=[-1]),
        lambda model, ids: rollout(model(ids, output_attentions=True).attentions, sink=[0]),
    ):
        assert waited(2, way) == waited(5, way)


def test_generation() -> None:
    here = MODELS["llama"]()
    pairs = [(copy.deepcopy(here).to(NAME), IDS[:1].to(NAME)), (here, IDS[:1])]
    options = {"max_new_tokens": 4, "do_sample": False}
    one, other = (generate_with_rollout(*pair, **options) for pair in pairs)
    for each in dataclasses.fields(other):
        value = getattr(other, each.name)
        if isinstance(value, Tensor) and value.is_floating_point():
            torch.testing.assert_close(getattr(one, each.name).cpu(), value, atol=1e-4, rtol=1e-3)
    streamed = [list(stream_with_rollout(*pair, **options)) for pair in pairs]
    for ours, theirs in zip(*streamed, strict=True):
        assert ours.token == theirs.token
        agree(ours.row, theirs.row)


def test_rollout_over_null() -> None:
    state, null = rollout_of(own(), IDS), uniform_causal_rollout(IDS.shape[1], layers=2)
    agree(null_ratio(state.to(NAME), null), null_ratio(state, null))


@pytest.mark.parametrize("towards_the_end", [-100.0, 0.0, 2.0])
def test_a_translation_is_not_waited_for_at_every_token(towards_the_end: float) -> None:
    with seeded(0):
        here = Seq2Seq(Seq2SeqConfig(12, hidden=8, layers=2)).eval()
    with torch.no_grad():
        here.to_vocabulary.bias[EOS_ID] += towards_the_end
    source, lengths = IDS % 12, torch.tensor([9, 7])
    written, scores = translate(here, source, lengths, width=2, max_length=30)
    assert (written.shape[1] == 30) is (towards_the_end < 0)
    given = copy.deepcopy(here).to(NAME), source.to(NAME), lengths.to(NAME)
    found, waited = counted(lambda: translate(*given, width=2, max_length=30))
    assert torch.equal(found[0].cpu(), written)
    agree(found[1], scores)
    assert sum(waited.values()) <= 4 + 30 // 8


# ---- what pages print --------------------------------------------------------------------------------

ROOT = Path(__file__).parents[1]


def printed(page: str, section: str) -> str:
    """The Python of a section, or of all of a page."""
    text = (ROOT / page).read_text()
    text = text[text.index(section) :]
    return "".join(
        "".join(each.source for each in doctest.DocTestParser().get_examples(block))
        if ">>>" in block
        else block
        for block in re.findall(r"^```py\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    )


@pytest.mark.parametrize(
    ("page", "section"),
    [("README.md", ""), ("book/think.md", "## Find a needle"), ("book/related.md", "")],
)
def test_what_a_page_prints_runs_where_a_gpu_is(
    page: str, section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long.txt").write_text("Once upon a time. " * 8)
    monkeypatch.chdir(tmp_path)
    loaded = []

    def load(*_: Any, **__: Any) -> tuple[Any, Any]:
        loaded.append(load_language_model("tiny-random", device=NAME))
        return loaded[-1]

    for module in (attnlib, looking):
        monkeypatch.setattr(module, "load_language_model", load)
    exec(printed(page, section), {})
    assert loaded and all(next(model.parameters()).device.type == NAME for model, _ in loaded)


# ---- the device itself -------------------------------------------------------------------------------


def test_mistakes_are_refused() -> None:
    x = torch.rand(3, 3).to(NAME)
    mistakes: dict[str, Callable[[], Any]] = {
        "a tensor left on the CPU": lambda: x + torch.rand(3, 3),
        "joined with one": lambda: torch.cat([x, torch.rand(3, 3)]),
        "indexed by ours": lambda: torch.rand(3, 3)[x > 0.5],
        "NumPy": lambda: x.numpy(),
        "the CPU's generator": lambda: torch.rand(3, device=NAME, generator=torch.Generator()),
        "whole numbers": lambda: x.long() @ x.long(),
        "double precision": lambda: x.double(),
        "a model that stayed": lambda: torch.nn.Linear(3, 3)(x),
    }
    for name, mistake in mistakes.items():
        with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
            print(name, mistake())


def test_mistakes_in_what_a_reader_gives_are_refused() -> None:
    @measure
    def forgetful(model: Any, prompts: Any) -> Tensor:
        return torch.arange(prompts.ids.shape[1]) * (prompts.ids > 0)

    model = own().to(NAME)
    with pytest.raises(RuntimeError, match="same device"):
        attributions(model, IDS.to(NAME), forgetful)
    batch = Batch(IDS, IDS, IDS > -1)
    with pytest.raises(RuntimeError, match="same device"):
        token_loss()(model, batch)
    score_samples(model, [batch])  # which moves it


def test_waits_are_counted() -> None:
    x, flags = torch.rand(4).to(NAME), torch.tensor([True, False, True, True])
    for many, do in {
        1: lambda: float(x.sum()),
        2: lambda: (x[flags.to(NAME)],),
        3: lambda: [bool(each > 0) for each in x[:3]],
        0: lambda: (base.moved(flags, NAME), x * 2, x[:0].any()),
    }.items():
        assert sum(counted(do)[1].values()) == many
    assert sum(counted(lambda: x[[0, 2]])[1].values()) == 1  # a list is copied
