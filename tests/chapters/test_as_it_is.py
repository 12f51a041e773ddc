"""A training that goes on or was broken off is drawn as far as it has come, and stays as it was."""

import pytest
import torch

from attnlib.files import cache_folder, load_tensors
from book.chapters.processes import AS_IT_IS
from tests.parameters import smallest

NAME = "arithmetic_lens"


@pytest.fixture
def broken_off(monkeypatch, tmp_path):
    """A model that is trained up to its second evaluation, and then not any further."""
    monkeypatch.setenv("ATTNLIB_CACHE", str(tmp_path))
    p = smallest(NAME)
    run, setup = p.runs()[0], type(p).setup

    def ends(event):
        if event.step == 3:
            raise RuntimeError("the machine is gone")

    def broken(self, run):
        made = setup(self, run)
        return type(made)(**{**vars(made), "hooks": [*made.hooks, ends]})

    with monkeypatch.context() as patch:
        patch.setattr(type(p), "setup", broken)
        with pytest.raises(RuntimeError, match="gone"):
            p.train(run, progress=False)
    return run


def test_it_has_the_weights_of_the_last_checkpoint_and_nothing_is_touched(broken_off, monkeypatch):
    (last,) = (cache_folder() / NAME).glob("*/last.safetensors")
    before = {path: path.read_bytes() for path in last.parent.rglob("*") if path.is_file()}
    tensors, header = load_tensors(last)
    monkeypatch.setenv(AS_IT_IS, "1")
    p = smallest(NAME)
    found = p.train(broken_off, progress=False)
    assert found.history.interrupted and not found.history.finished
    assert found.history.steps == header["step"] == 2
    best = "model/" if header["best_step"] == header["step"] else "best/"
    for name, weight in found.model.state_dict().items():
        assert torch.equal(weight, tensors[best + name])
    assert {path: path.read_bytes() for path in before} == before
    assert len([*last.parent.rglob("*")]) == len([*before]) + 1  # the folder of what hooks keep
    assert max(p.kept(broken_off.name).load()) <= 2 and (found.history.folder / "best.safetensors").is_file()


def test_a_model_that_has_not_begun_is_as_before_training_and_nothing_is_recorded(
    broken_off, monkeypatch, caplog
):
    monkeypatch.setenv(AS_IT_IS, "1")
    p = smallest(NAME)
    models, histories = p.train_all()
    other = p.runs()[1]
    assert "has no checkpoint yet" in caplog.text and other.name not in histories
    new = p.setup(other).model
    assert all(map(torch.equal, new.parameters(), models[other.name].parameters()))
    assert [*p.kept(other.name).load()] == [0]
    rows = p.run_table().assign(metric="x", value=1.0, low=0.0, high=2.0, n=3)
    assert p.record(rows) is None


def test_anything_else_is_refused(monkeypatch):
    monkeypatch.setenv(AS_IT_IS, "yes")
    with pytest.raises(ValueError, match=r"ATTNLIB_AS_IT_IS should be 1, or 0 .* got 'yes'"):
        smallest(NAME).train_all()
