"""The cache key: another one for all that decides the weights, and for nothing else."""

import dataclasses
import functools
import importlib
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import attnlib
from attnlib.generators import StringReversalGenerator, char_tokenizer
from attnlib.generators.order import EpochBatches
from attnlib.generators.translation import PairBatch
from attnlib.models import Transformer, TransformerConfig
from attnlib.training import token_loss
from attnlib.training.keeping import Snapshots
from attnlib.training.key import Unreadable, digest, key_parts, source_of
from tests.attnlib.small_runs import LANGUAGE, PLAN, SEEN, VALID, build, train, what_is_trained


def parts(**changes):
    changes = {"model": build(), "hooks": [Snapshots([0, 12])]} | changes
    return key_parts(**what_is_trained(**changes))


SCRIPT = """if True:
    import sys
    sys.path.insert(0, sys.argv[1])
    from test_key import digest, parts
    print(digest(parts()))
"""


def test_the_same_arguments_are_the_same_in_every_process():
    command = [sys.executable, "-c", SCRIPT, os.path.dirname(__file__)]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == digest(parts()) == digest(parts())


def frozen():
    model = build()
    model.embedding.weight.requires_grad_(False)
    return model


def other_score(model, batches):
    return {"accuracy": 1.0}


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"model": build(seed=1)}, {"model"}),
        ({"model": build(dropout=0.1)}, {"model"}),
        ({"model": build(max_length=100)}, {"model"}),
        ({"model": frozen()}, {"model"}),
        ({"batches": LANGUAGE.batches(SEEN, 10, seed=1)}, {"data"}),
        ({"batches": LANGUAGE.batches(SEEN, 11)}, {"data"}),
        ({"batches": LANGUAGE.batches(SEEN[torch.arange(59)], 10)}, {"data"}),
        ({"batches": LANGUAGE.batches(SEEN, 10, target_attention=True)}, {"data"}),
        ({"plan": dataclasses.replace(PLAN, seed=1)}, {"plan"}),
        ({"plan": dataclasses.replace(PLAN, learning_rate=0.1)}, {"plan"}),
        ({"plan": dataclasses.replace(PLAN, steps=13)}, {"plan"}),
        # "auto" is the processor where there is no GPU, and a run on a GPU is another one
        (
            {"plan": dataclasses.replace(PLAN, device="auto")},
            {"plan"} if torch.cuda.is_available() else set(),
        ),
        ({"plan": dataclasses.replace(PLAN, log_every=1, tensorboard=True)}, set()),
        ({"loss": token_loss(0.4)}, {"loss"}),
        ({"loss": token_loss(0.5, as_published=True)}, {"loss"}),
        ({"valid": VALID[:1] * 2}, {"valid"}),
        ({"score": other_score}, {"score"}),
        ({"hooks": [Snapshots([0, 6, 12])]}, {"hooks"}),
        ({"hooks": []}, {"hooks"}),
        ({"hooks": [Snapshots([0, 12]), print]}, set()),
    ],
)
def test_every_change_is_seen_and_only_where_it_is(change, differs):
    before, after = parts(), parts(**change)
    assert {name for name in before if before[name] != after[name]} == differs


def test_the_batches_of_every_kind_count_by_what_they_hold_and_none_is_drawn(monkeypatch):
    drawn = []
    monkeypatch.setattr(type(LANGUAGE), "batch", lambda *_: drawn.append(1))
    batches = LANGUAGE.batches(SEEN, 10)
    assert parts(batches=batches) == parts() and not drawn


def test_what_batches_remember_does_not_count():
    """Orders of an epoch, chunks of texts: kept from call to call, and no setting."""
    tokenizer = char_tokenizer()
    for make in (
        lambda: StringReversalGenerator(tokenizer=tokenizer, length=(1, 4)).batches(5),
        lambda: EpochBatches(lambda rows: rows, np.arange(1, 30), 5),
    ):
        batches = make()
        before = digest(batches)
        batches(3)
        assert digest(batches) == before == digest(make())


def test_tensors_count_by_their_numbers_shape_and_type():
    some = torch.arange(6.0)
    assert digest(some.view(2, 3).T) == digest(some.view(2, 3).T.contiguous())
    others = [some, some.view(2, 3), some.double(), some.bfloat16(), some.numpy(), -some]
    assert len({digest(each) for each in others}) == len(others)
    assert digest(np.float32(1)) != digest(np.float64(1))


def test_sentences_of_equal_lengths_are_other_data():
    """Once, a batch of pairs counted by where its tokens to predict are, and not by its tokens."""
    ids, lengths = torch.tensor([[1, 5, 2]]), torch.tensor([3])
    batches = [PairBatch(ids, lengths, ids + more, lengths, torch.tensor([0])) for more in (0, 1)]
    assert parts(valid=batches[:1])["valid"] != parts(valid=batches[1:])["valid"]


def test_an_edit_of_what_trains_is_another_source(tmp_path):
    found = set()
    for text in ("a = 1", "a = 2"):
        (tmp_path / "training").mkdir(exist_ok=True)
        (tmp_path / "training" / "loop.py").write_text(text)
        found.add(source_of(tmp_path))
    assert len(found) == 2 and parts()["code"] == source_of(Path(attnlib.__file__).parent)


# --- Code -----------------------------------------------------------------------------------------------

MODULE = '''"""A reader's own loss."""
import torch.nn.functional as F
import reader_helpers
from reader_helpers import doubled

SCALE = {scale}


class Twice:
    """Doubles."""

    def __call__(self, x: int) -> int:
        # {comment}
        return {twice}


def unrelated():
    return {unrelated}


def loss(model, batch):
    import reader_later  # {comment}

    return reader_later.THREE * SCALE * doubled(reader_helpers.halved(Twice()(1)))
'''
HELPERS = "def doubled(x):\n    return {factor} * x\n\n\ndef halved(x):\n    return x / {divisor}\n"
TEXT = {"scale": 2, "comment": "one", "twice": "2 * x", "unrelated": 1}


def key_of_reader(helpers=None, later=3, **changes):
    """The digest of a reader's loss, read anew from files."""
    texts = {"reader_helpers": HELPERS.format(**{"factor": 2, "divisor": 2} | (helpers or {}))}
    texts["reader_later"] = f"THREE = {later}"
    texts["reader_loss"] = MODULE.format(**TEXT | changes)
    for name, text in texts.items():
        Path(f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return digest(importlib.import_module("reader_loss").loss)


def test_a_readers_code_counts_as_far_as_it_is_used(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    key = key_of_reader()
    for same in ({"comment": "two"}, {"unrelated": 2}):
        assert key_of_reader(**same) == key, same
    helpers = [{"helpers": {name: 3}} for name in ("factor", "divisor")]
    for other in ({"scale": 3}, {"twice": "x + x"}, {"later": 4}, *helpers):
        assert key_of_reader(**other) != key, other


CLASS = "import torch\nclass A:\n {}\ndef loss(m, b): return A.w"
WRAPPED = """from functools import wraps
from torch.nn.functional import cross_entropy
def times(f):
    @wraps(f)
    def scaled(*args): return {} * f(*args)
    return scaled
loss = times({})
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def loss(m, b): return 1", "def loss(m, b): return 2"),
        ("loss = lambda m, b: m", "loss = lambda m, b: b"),
        ("w = 1\ndef loss(m, b): return w", "w = 2\ndef loss(m, b): return w"),
        ("def loss(m, b, w=1): return w", "def loss(m, b, w=2): return w"),
        ("def loss(m, b): return (lambda: 1)()", "def loss(m, b): return (lambda: 2)()"),
        ("def f(): return 1\ndef loss(m, b): return f()", "def f(): return 2\ndef loss(m, b): return f()"),
        ("class A:\n w = 1\ndef loss(m, b): return A.w", "class A:\n w = 2\ndef loss(m, b): return A.w"),
        (WRAPPED.format(1, "lambda m, b: 1"), WRAPPED.format(2, "lambda m, b: 1")),
        (WRAPPED.format(1, "lambda m, b: 1"), WRAPPED.format(1, "lambda m, b: 2")),
        (WRAPPED.format(1, "cross_entropy"), WRAPPED.format(2, "cross_entropy")),
        ("loss = [1.0].__getitem__", "loss = [2.0].__getitem__"),
        ("loss = (lambda m, b: m, lambda m, b: b)[0]", "loss = (lambda m, b: m, lambda m, b: b)[1]"),
        ("def loss(m, b): return loss, 1", "def loss(m, b): return loss, 2"),
        (CLASS.format("w = 'sum'"), CLASS.format("w = 'mean'")),
        (CLASS.format("w = torch.tensor(1)"), CLASS.format("w = torch.tensor(2)")),
        (CLASS.format("w = torch.nn.ReLU()"), CLASS.format("w = torch.nn.GELU()")),
        (
            CLASS.format("@classmethod\n def w(c): return 1"),
            CLASS.format("@classmethod\n def w(c): return 2"),
        ),
    ],
)
def test_what_is_typed_at_a_prompt_counts_by_its_code(before, after):
    keys = []
    for text in (before, before, after):
        names = {"__name__": "__main__"}
        exec(compile(text, "prompt", "exec"), names)
        keys.append(digest(names["loss"]))
    assert keys[0] == keys[1] != keys[2]


NOT_READ = object()


class Scaled(torch.nn.Module):
    """A reader's module, which holds its settings as plain attributes."""

    def __init__(self, scale=1.0, activation=torch.tanh, inner=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.scale, self._activation, self.inner = scale, activation, inner


def test_a_readers_module_counts_by_what_it_holds_beside_weights():
    models = [
        Scaled(),
        Scaled(2.0),
        Scaled(activation=torch.relu),
        Scaled(inner=Scaled()),
        Scaled(inner=Scaled(2.0)),
    ]
    keys = [parts(model=model)["model"] for model in models]
    assert len({*keys}) == len(keys) and keys[0] == parts(model=Scaled())["model"]


class Around(torch.nn.Module):
    """A reader's module around one of torch's or ours."""

    def __init__(self, inner, least=0.0, config=None):
        super().__init__()
        self.inner, self.config = inner, config
        self.register_buffer("least", torch.full((2,), least), persistent=False)


def layer(**settings):
    return torch.nn.TransformerEncoderLayer(8, **{"nhead": 2, "dim_feedforward": 8} | settings)


def of_ours(**settings):
    return Transformer(TransformerConfig(9, width=8, n_heads=2, max_length=12, **settings))


def test_what_no_repr_says_of_a_readers_model_counts():
    """Once, the model of one was handed the weights of another."""
    torch.manual_seed(0)
    weights = layer().state_dict()
    differ = [{}, {"nhead": 4}, {"norm_first": True}, {"activation": "gelu"}]
    models = [layer(**settings) for settings in differ]
    for each in models:
        each.load_state_dict(weights)
    inner = of_ours(causal=True)
    models += [
        Around(models[0]),
        Around(models[1]),
        Around(models[0], 1.0),
        Around(models[0], config={"scale": 2}),
    ]
    models += [Around(inner), Around(copied := of_ours(causal=False))]
    copied.load_state_dict(inner.state_dict())
    keys = [parts(model=each)["model"] for each in models]
    assert len({*keys}) == len(keys)
    again = layer()
    again.load_state_dict(weights)
    assert parts(model=again)["model"] == keys[0]


def hooked():
    model = Scaled()
    model.register_forward_hook(lambda model, given, found: 2 * found)
    return model


def test_a_hook_on_a_model_counts():
    assert parts(model=hooked())["model"] == parts(model=hooked())["model"] != parts(model=Scaled())["model"]


def test_a_function_that_encloses_itself_cannot_be_read():
    def loss(m, b):
        return loss(m, b)

    with pytest.raises(Unreadable, match="something holds itself"):
        digest(loss)


@pytest.mark.parametrize(
    "change",
    [
        {"model": torch.nn.Sequential(Scaled(inner=[object()]))},
        {"batches": functools.partial(print, object())},
        {"loss": lambda *_: NOT_READ},
        {"valid": [object()]},
    ],
)
def test_what_cannot_be_read_raises(change):
    (name,) = change
    part = {"batches": "data"}.get(name, name)
    with pytest.raises(Unreadable, match=rf"{part}: a builtins\.object has no content"):
        parts(**change)


# --- Cached and found ---------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNLIB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_model_is_trained_once(cache):
    model, first = train()
    again, second = train()
    assert first.folder == second.folder and first.folder.parent == cache / "a_test"
    assert second.rows == first.rows and second.seconds == first.seconds
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_other_moments_are_another_run():
    """Once, 20 moments found 8 of 14."""
    first, again = (train(hooks=[Snapshots(range(0, 12, apart))])[1].folder for apart in (3, 2))
    assert first != again
    few = Snapshots(range(0, 12, 2))
    train(hooks=[few])
    assert list(few.load()) == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("foreign", ["best", "snapshot", "step"])
def test_files_of_another_run_or_step_are_said_and_made_again(foreign, caplog):
    moments = Snapshots([0, 6, 12])
    model, history = train(hooks=[moments])
    other = Snapshots([0, 6, 12])
    train(build(seed=1), hooks=[other])
    place = {
        "best": (other.home.parent / "best.safetensors", history.folder / "best.safetensors"),
        "snapshot": (other.paths(6)[0], moments.paths(6)[0]),
        "step": (moments.paths(12)[0], moments.paths(6)[0]),
    }[foreign]
    place[1].write_bytes(place[0].read_bytes())
    caplog.clear()
    again, _ = train(hooks=[moments])
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1 and "is of another run" in said[0] and said[0].endswith("Training starts again.")
    for one, two in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)
    assert [int(step) for step in moments.load()] == [0, 6, 12]
    assert not torch.equal(moments.at(6).classify.weight, other.at(6).classify.weight)


def test_what_cannot_be_read_is_trained_and_not_cached(cache, caplog):
    unreadable = object()
    moments = Snapshots([12])
    model, history = train(loss=lambda *given: unreadable and token_loss()(*given), hooks=[moments])
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1 and "is not cached, and is trained at every call" in said[0]
    assert history.finished and not cache.exists()
    assert list(moments.load()) == [12] and history.best_step is not None and not model.training


def test_valid_and_score_go_together():
    with pytest.raises(ValueError, match=r"^valid and score must"):
        train(score=None)
    assert train(valid=None, score=None)[1].best_step == 12
