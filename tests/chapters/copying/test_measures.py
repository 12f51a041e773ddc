"""What copiers look at, and what is kept of it while they learn."""

import numpy as np
import pytest
import torch

from attnlib.files import CheckpointError
from attnlib.generators.copying import CopyBatch, Copying
from attnlib.models.copier import Copier, CopierConfig, copying_loss
from attnlib.training import Plan, fit
from book.chapters.copying.measures import CopyingLooks, copying_look, information, state_relevance

TASK = Copying(4, 5)


def small(**settings):
    return Copier(CopierConfig(TASK.vocabulary, **{"hidden": 6, "seeds": (0, 1)} | settings))


def unseen(n=3, seeds=(0, 1)):
    return TASK.batch(n, [[seed, 99] for seed in seeds])


def test_a_look_counts_where_the_largest_attention_is():
    model, batch = small(n_heads=2, cell="gru", shared=False), unseen(7)
    look, copied = copying_look(model, batch, unseen(2)), model(**batch.inputs)
    right = (copied.logits.argmax(-1) == batch.predicted).double().mean((1, 2))
    torch.testing.assert_close(look["accuracy"].double(), right)
    for name, offset in {"one before": -1, "on it": 0, "one after": 1}.items():
        counted = [
            [int(row.argmax()) == t + offset for head in sequence for t, row in enumerate(head)]
            for of_model in copied.alpha
            for sequence in of_model
        ]
        wanted = torch.tensor(counted).float().view(2, -1).mean(1)
        torch.testing.assert_close(look[name], wanted)
    mean = copied.alpha.diagonal(dim1=-2, dim2=-1).mean((1, 2, 3))
    torch.testing.assert_close(look["mass"], mean)
    assert look["alpha"].shape == (2, 2, 5, 5) and look["predicted"].shape == (2, 2, 5)
    assert model.training


@pytest.mark.parametrize(
    "setting", [{}, {"bidirectional": True}, {"n_heads": 2}, {"context": "uniform"}], ids=str
)
def test_relevance_is_what_the_gold_symbol_would_get_with_one_state_as_context(setting):
    model, batch = small(**setting), unseen()
    beta, copied = state_relevance(model, batch), model(**batch.inputs)
    for place in range(5):
        alone = model.context_of(copied.encoded.states[:, :, None, place : place + 1])
        logits = model.next_logits(copied.states, alone.expand(-1, -1, 5, -1))
        gold = logits.log_softmax(-1).gather(-1, batch.predicted[..., None])[..., 0]
        torch.testing.assert_close(beta[..., place], gold)


def test_information_is_the_share_of_other_places_with_less():
    batch = unseen(50)
    everything = information(torch.eye(5).expand(2, 50, 5, 5), batch)
    assert everything["auc"].tolist() == everything["largest"].tolist() == [1, 1]
    nothing = information(torch.zeros(2, 50, 5, 5), batch)
    torch.testing.assert_close(nothing["auc"], torch.tensor([0.5, 0.5]))
    torch.testing.assert_close(nothing["largest"], torch.tensor([0.2, 0.2]))
    torch.manual_seed(0)
    noise = torch.rand(2, 50, 5, 5)
    noise[..., 4, :] = torch.eye(5)[4]  # the end does not count
    by_hand = torch.stack([(noise[..., t, [t]] > noise[..., t, :]).sum(-1) / 4 for t in range(4)])
    torch.testing.assert_close(information(noise, batch)["auc"], by_hand.mean((0, 2)))


def test_places_of_the_same_symbol_are_neither_right_nor_wrong():
    source = torch.tensor([[[3, 1, 3, 5]]])
    batch = CopyBatch(source, torch.cat([torch.full((1, 1, 1), 6), source], -1))
    beta = torch.zeros(1, 1, 4, 4)
    beta[0, 0, 0, 2] = beta[0, 0, 2, 0] = 1  # all on the other 3
    beta[0, 0, 1, 1] = 1
    found = information(beta, batch)
    # the two 3s are each as relevant as the two other places; the 1 is ahead of all
    assert found["auc"].item() == pytest.approx((0.5 + 1 + 0.5) / 3)
    assert found["largest"].item() == pytest.approx((1 / 3 + 1 + 1 / 3) / 3)


def trained(folder, looks, steps=6, model=None):
    model = model or small()
    plan = Plan(steps=steps, evaluate_every=2, device="cpu")
    fit(model, TASK.batches(4, (0, 1)), copying_loss, plan, folder=folder, hooks=[looks], progress=False)
    return model


def test_looks_are_kept_and_found_again(tmp_path):
    shown = unseen(1)
    looks = CopyingLooks([0, 3, 6], unseen(), shown, relevance=True)
    model = trained(tmp_path, looks)
    now = copying_look(model, looks.batch, shown, relevance=True)
    kept = looks.at(6)
    assert kept.keys() == now.keys() and all(torch.equal(kept[name], now[name]) for name in now)
    curves = looks.curves((7, 8))
    assert curves["seed"].tolist() == [7, 8] * 3 and curves["step"].tolist() == [0, 0, 3, 3, 6, 6]
    assert {"accuracy", "on it", "auc"} <= set(curves)
    assert looks.attention(1).shape == (3, 5, 5)
    assert np.shape(looks.written(0)) == (3, 5)
    again = CopyingLooks([0, 3, 6], unseen(), shown, relevance=True)
    trained(tmp_path, again)
    assert again.curves((7, 8)).equals(curves)


def test_a_run_that_lost_a_look_trains_again(tmp_path, caplog):
    looks = CopyingLooks([0, 3, 6], unseen())
    trained(tmp_path, looks)
    (path,) = looks.paths(3)
    before = looks.at(3)["accuracy"]
    path.unlink()
    trained(tmp_path, CopyingLooks([0, 3, 6], unseen()))
    assert "Training starts again" in caplog.text
    assert torch.equal(looks.at(3)["accuracy"], before)


def test_other_sequences_are_other_looks():
    one, other = (CopyingLooks([0], unseen(n)).cache_key for n in (3, 4))
    assert one[0] == other[0] and one[1].source.shape != other[1].source.shape
    with pytest.raises(CheckpointError, match="of no run yet"):
        CopyingLooks([0], unseen()).at(0)
