"""What a trained model is kept under: all that went into it, and nothing else."""

import dataclasses
import importlib
import itertools
import logging
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib.generators.rasp import language
from attnlib.models import Transformer, TransformerConfig
from attnlib.training import Plan, fit, token_loss, token_scores, trained
from attnlib.training.content import digest
from attnlib.training.definitions import Unreadable, reached
from attnlib.training.fingerprint import fingerprint_parts
from attnlib.training.snapshots import Snapshots

LANGUAGE = language("sort", alphabet_size=10)
SEEN = LANGUAGE.sequences(60, max_length=6)
VALID = LANGUAGE.in_batches(LANGUAGE.sequences(20, split="valid", max_length=6))
PLAN = Plan(steps=12, evaluate_every=4, device="cpu")


def build(seed=0, **sizes):
    torch.manual_seed(seed)
    config = TransformerConfig(len(LANGUAGE.tokenizer), len(LANGUAGE.classes), n_layers=1, width=16, **sizes)
    return Transformer(config)


def parts(**changes):
    arguments = {
        "model": build(),
        "batches": LANGUAGE.batches(SEEN, 10),
        "loss": token_loss(0.5),
        "plan": PLAN,
        "valid": VALID,
        "score": token_scores,
        "hooks": [Snapshots([0, 12])],
        "loop": fit,
    } | changes
    return fingerprint_parts(**arguments)


SCRIPT = """if True:
    import sys
    sys.path.insert(0, sys.argv[1])
    from test_fingerprint import digest, parts
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
        ({"plan": dataclasses.replace(PLAN, steps=13)}, {"plan", "data"}),
        ({"plan": dataclasses.replace(PLAN, device="auto")}, set()),
        ({"plan": dataclasses.replace(PLAN, log_every=1, tensorboard=True)}, set()),
        ({"loss": token_loss(0.4)}, {"loss"}),
        ({"loss": token_loss(0.5, as_published=True)}, {"loss"}),
        ({"valid": VALID[:1] * 2}, {"valid"}),
        ({"score": other_score}, {"score", "code"}),
        ({"hooks": [Snapshots([0, 6, 12])]}, {"kept"}),
        ({"hooks": []}, {"kept", "code"}),
        ({"hooks": [Snapshots([0, 12]), print]}, set()),
    ],
)
def test_every_change_is_seen_and_only_where_it_is(change, differs):
    before, after = parts(), parts(**change)
    assert {name for name in before if before[name] != after[name]} == differs


def test_the_code_that_makes_the_batches_does_not_count():
    kept = [LANGUAGE.batches(SEEN, 10)(step) for step in range(12)]
    assert parts(batches=lambda step: kept[step]) == parts()


def test_every_batch_of_a_long_run_counts():
    long = dataclasses.replace(PLAN, steps=6000)
    one = parts(batches=lambda step: torch.tensor([step]), plan=long)
    for late in (1, 3777, 5999):
        other = parts(batches=lambda step, late=late: torch.tensor([step + (step == late)]), plan=long)
        assert {name for name in one if one[name] != other[name]} == {"data"}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_content_decides_the_hash(one, other):
    same = repr(one).replace("(", "[").replace(")", "]") == repr(other).replace("(", "[").replace(")", "]")
    assert digest(one) == digest(one)
    if "," not in repr(one) + repr(other):  # lists and tuples of like content count as alike
        assert (digest(one) == digest(other)) == same


def test_tensors_count_by_their_numbers_shape_and_type():
    some = torch.arange(6.0)
    assert digest(some.view(2, 3).T) == digest(some.view(2, 3).T.contiguous())
    others = [some, some.view(2, 3), some.double(), some.bfloat16(), some.numpy(), -some]
    assert len({digest(each) for each in others}) == len(others)
    assert digest(np.float32(1)) != digest(np.float64(1))
    with pytest.raises(Unreadable, match=r"no telling by content what a builtins\.object holds"):
        digest([object()])


# --- Definitions ------------------------------------------------------------------------------------------

MODULE = '''"""A reader's own loss."""
import torch.nn.functional as F
import reader_helpers
from reader_helpers import doubled

SCALE = {scale}


class Twice:
    """Doubles."""

    def __call__(self, x: int) -> int:
        """{docstring}"""
        # {comment}
        return {twice}


def unrelated():
    return {unrelated}


def loss(model, batch):
    """{docstring}"""
    return SCALE * doubled(reader_helpers.halved(Twice()(1)))
'''
HELPERS = "def doubled(x):\n    return {factor} * x\n\n\ndef halved(x):\n    return x / {divisor}\n"
MOMENT = itertools.count(10**9, 10**9)
TEXT = {"scale": 2, "docstring": "One.", "comment": "one", "twice": "2 * x", "unrelated": 1}


def reached_by_reader(helpers=None, **changes):
    """What a reader's loss reaches, read anew from files."""
    texts = {"reader_loss": MODULE.format(**TEXT | changes)}
    texts["reader_helpers"] = HELPERS.format(**{"factor": 2, "divisor": 2} | (helpers or {}))
    for name, text in texts.items():
        Path(f"{name}.py").write_text(text)
        os.utime(f"{name}.py", ns=(0, next(MOMENT)))
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    found = reached([importlib.import_module("reader_loss").loss])
    return digest(sorted(found.items())), sorted(found)


def test_a_readers_code_counts_as_far_as_it_is_reached(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    key, names = reached_by_reader()
    assert names == [
        "reader_helpers.doubled",
        "reader_helpers.halved",
        "reader_loss.SCALE",
        "reader_loss.Twice",
        "reader_loss.loss",
    ]
    for same in ({"docstring": "Two."}, {"comment": "two"}, {"unrelated": 2}):
        assert reached_by_reader(**same)[0] == key, same
    for other in ({"scale": 3}, {"twice": "x + x"}, {"helpers": {"factor": 3}}, {"helpers": {"divisor": 3}}):
        assert reached_by_reader(**other)[0] != key, other


def test_training_reaches_the_loop_the_model_and_the_loss_and_no_generator():
    found = reached([fit, Transformer, type(token_loss()), token_scores])
    for name in (
        "training.loop.fit",
        "training.run.Run",
        "models.transformer.attend",
        "training.objectives.attention_error",
    ):
        assert f"attnlib.{name}" in found, name
    assert not [name for name in found if "generators" in name and "base" not in name]
    assert not [name for name in found if "lexical" in name or "classifier" in name or "cache" in name]


REFUSING = """
def allowed(value):
    return value < {bound}


class Sizes(BaseModel):
    width: {kind} = Field({least}description="in numbers")
    depth: int = {depth}

    @field_validator("width")
    @classmethod
    def _even(cls, width):
        if width % {bound}:
            raise ValueError("odd")
        return width

    @model_validator(mode="after")
    def _possible(self):
        if not allowed(self.width):
            raise ValueError("too wide")
        return self

    @field_validator("depth")
    @classmethod
    def _rounded(cls, depth):
        return depth // {grain}
"""


def test_what_only_refuses_counts_unless_it_shall_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def found(refusals, **changes):
        text = {"bound": 2, "kind": "int", "least": "", "depth": 1, "grain": 2} | changes
        header = "from pydantic import BaseModel, Field, field_validator, model_validator\n"
        Path("sizes.py").write_text(header + REFUSING.format(**text))
        os.utime("sizes.py", ns=(0, next(MOMENT)))
        sys.modules.pop("sizes", None)
        importlib.invalidate_caches()
        return reached([importlib.import_module("sizes").Sizes], refusals=refusals)

    only_refused = [{"bound": 3}, {"kind": "float"}, {"least": "ge=1, "}]
    assert all(found(True, **change) != found(True) for change in only_refused)
    assert all(found(False, **change) == found(False) for change in only_refused)
    assert all(found(False, **change) != found(False) for change in ({"depth": 2}, {"grain": 3}))
    assert set(found(True)) - set(found(False)) == {"sizes.allowed"}


def test_functions_of_libraries_reach_nothing():
    assert reached([torch.nn.Linear, np.mean, print, torch.nn.functional.cross_entropy]) == {}


# --- Kept and found ---------------------------------------------------------------------------------------


def train(model=None, **changes):
    model = model or build()
    arguments = {
        "batches": LANGUAGE.batches(SEEN, 10),
        "loss": token_loss(0.5),
        "plan": PLAN,
        "valid": VALID,
        "score": token_scores,
        "chapter": "a_test",
        "progress": False,
    } | changes
    given = [arguments.pop(name) for name in ("batches", "loss", "plan")]
    return model, trained(model, *given, **arguments)


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


def test_more_validation_samples_more_moments_and_other_weights_are_other_models():
    """Once, 1000 and then 20 samples shared a folder, 20 moments found 8 of 14, and weights did not count."""
    folders = [
        train()[1].folder,
        train(valid=VALID[:1] * 2)[1].folder,
        train(hooks=[Snapshots(range(0, 12, 3))])[1].folder,
        train(hooks=[Snapshots(range(0, 12, 2))])[1].folder,
        train(build(seed=1))[1].folder,
    ]
    assert len(set(folders)) == len(folders)
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


def test_what_cannot_be_read_is_trained_and_not_kept(cache, caplog):
    typed = {}
    exec(textwrap.dedent("""
        def loss(model, batch):
            from attnlib.training import token_loss
            return token_loss()(model, batch)
    """), typed)  # fmt: skip
    typed["loss"].__module__ = "__main__"
    moments = Snapshots([12])
    model, history = train(loss=typed["loss"], hooks=[moments])
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1 and "is not kept, and is trained at every call" in said[0]
    assert history.finished and not cache.exists()
    assert list(moments.load()) == [12] and history.best_step is not None and not model.training


def test_valid_and_score_go_together():
    with pytest.raises(ValueError, match="valid and score go together"):
        train(score=None)
    assert train(valid=None, score=None)[1].best_step == 12
