"""Models that have met hidden keys: what they read in training, and how long."""

from types import SimpleNamespace

import torch

from attnlib.generators.base import Batch
from attnlib.models import Transformer, TransformerConfig
from attnlib.training import History
from book.chapters.attribution_benchmark.settings import SETTINGS, chapter_with
from book.chapters.faithfulness_metrics.further import hidden_keys
from book.chapters.faithfulness_metrics.further.hidden_keys import (
    LONGER,
    RETRAINED,
    WithKeysHidden,
    keys_hidden,
)

ROWS, TOKENS = 4000, 12


def batch_at(step: int) -> Batch:
    ids = torch.full((ROWS, TOKENS), step)
    mask = torch.ones(ROWS, TOKENS, dtype=torch.bool)
    mask[::2, 9:] = False
    return Batch(ids, ids, mask)


def test_half_of_the_sequences_miss_a_share_of_their_keys() -> None:
    batch = WithKeysHidden(batch_at, seed=3)(7)
    real, seen = batch_at(7).attention_mask, batch.attention_mask
    assert seen[:, 0].all() and not (seen & ~real).any()
    assert torch.equal(batch.input_ids, batch_at(7).input_ids)
    assert torch.equal(batch.target_ids, batch_at(7).target_ids)
    hidden = (real & ~seen)[:, 1:].float().sum(1) / real[:, 1:].float().sum(1)
    assert 0.5 < (hidden == 0).float().mean() < 0.6  # half, and those of the others whose share is small
    shares = hidden[hidden > 0]
    assert 0.48 < shares.mean() < 0.62 and shares.max() == 1 and shares.std() > 0.2


def test_tokens_keep_their_places_where_keys_before_them_are_hidden() -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(10, causal=True, n_layers=1)).eval()
    batch = WithKeysHidden(batch_at, seed=0)(1)
    row = int((~batch.attention_mask[:, 1:9]).any(1).nonzero()[0])
    seen = batch.attention_mask[row].nonzero()[:, 0]
    found = model(**batch.inputs).logits[row, seen[-1]]
    alone = model(batch.input_ids[row, seen][None], position_ids=seen[None]).logits[0, -1]
    torch.testing.assert_close(found, alone)


def test_what_is_hidden_is_a_function_of_seed_and_step() -> None:
    masks = [
        WithKeysHidden(batch_at, seed)(step).attention_mask for seed, step in ((0, 1), (0, 1), (0, 2), (1, 1))
    ]
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2]) and not torch.equal(masks[0], masks[3])


def test_the_same_model_is_trained_for_longer_on_batches_with_keys_hidden(monkeypatch) -> None:
    assert not [name for name in RETRAINED if "compiled" in name or "supervised" in name]
    given = []

    def trained(model, batches, loss, plan, **how):
        given.append((batches, plan, how))
        return History()

    monkeypatch.setattr(hidden_keys, "trained", trained)
    p = SimpleNamespace(questions=4, models="smoke", train_more=False)
    _, questions = keys_hidden("reverse").make(p, 0, others=True)
    chapter = chapter_with("rasp_languages", "smoke")
    run = SETTINGS["reverse"].another(chapter, 0)
    (batches, plan, how), setup = given[0], chapter.setup(run)
    assert plan.steps == LONGER * setup.plan.steps and plan.learning_rate == setup.plan.learning_rate
    assert isinstance(batches, WithKeysHidden) and how["chapter"] == "faithfulness_metrics"
    assert torch.equal(batches(3).input_ids, setup.batches(3).input_ids)
    assert not batches(3).attention_mask[setup.batches(3).attention_mask].all()
    assert questions.setting == "reverse"
