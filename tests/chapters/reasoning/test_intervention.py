"""Pushing attention in evaluation: what is counted is what the model said."""

import numpy as np
import pytest
import torch

from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import task
from attnlib.generators.base import IGNORE, Batch
from attnlib.measures import evaluate_rows
from attnlib.models import CausalSizes
from attnlib.models.attention import reinforced
from attnlib.stats import reference_mass, summarise
from attnlib.training.objectives import stacked_attentions
from book.chapters.reasoning.intervention import RANDOM, REFERENCE, head_masses, reinforcement_rows

torch.set_num_threads(1)
TOKENIZER = char_tokenizer()
SIZES = CausalSizes(n_layers=2, n_heads=2, width=16, max_length=64)
KINDS = ("transformer", "llama")


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    return SIZES.build(request.param, TOKENIZER).eval()


@pytest.fixture(scope="module")
def batches():
    generator = task("long_addition", TOKENIZER, length=(1, 3))
    return generator.in_batches(generator.samples(10), 4)


def test_strength_0_is_the_model_as_it_is(model, batches):
    rows = reinforcement_rows(model, batches, [(0, 0)], [0.0, 1.0])
    plain = evaluate_rows(model, batches, follow=())
    for onto in (REFERENCE, RANDOM):
        same = rows[(rows["onto"] == onto) & (rows["strength"] == 0)]
        assert same["predicted"].tolist() == plain["predicted"].tolist()
        assert same["sample"].tolist() == plain["sample"].tolist()


def test_rows_are_the_predictions_under_the_push(model, batches):
    rows = reinforcement_rows(model, batches[:1], [(1, 0)], [0.5])
    with torch.no_grad(), reinforced(model, [(1, 0)], batches[0].reference, 0.5):
        logits = model(batches[0].input_ids, attention_mask=batches[0].attention_mask).logits
    wanted = logits.argmax(-1)[batches[0].target_ids != IGNORE]
    assert rows.loc[rows["onto"] == REFERENCE, "predicted"].tolist() == wanted.tolist()


def test_a_push_onto_the_answer_makes_a_copying_head_right():
    """A model whose only head copies what it sees, and sees everything alike: pushed, it is always right."""
    symbols = 6
    torch.manual_seed(0)
    sizes = CausalSizes(n_layers=1, n_heads=1, width=32, max_length=32)
    model = sizes.build("transformer", char_tokenizer("abcdef"))
    layer = model.layers[0]
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        codes = torch.nn.init.orthogonal_(torch.empty(32, 32))[: symbols + 4]
        codes = codes - codes.mean(1, keepdim=True)
        model.embedding.weight.copy_(codes)
        model.classify.weight.copy_(codes)
        for norm in (layer.attention_norm, layer.ff_norm, model.norm):
            norm.weight.fill_(1.0)
        layer.attention.qkv.weight[64:].copy_(10 * torch.eye(32))
        layer.attention.out.weight.copy_(torch.eye(32))
    ids = torch.randint(4, 4 + symbols, (20, 8))
    targets = torch.full_like(ids, IGNORE)
    targets[:, -1] = ids[:, 2]
    reference = torch.zeros(20, 8, 8, dtype=torch.bool)
    reference[:, -1, 2] = True
    batch = Batch(ids, targets, torch.ones_like(ids).bool(), reference=reference, evaluated=reference)
    rows = reinforcement_rows(model, [batch], [(0, 0)], [0.0, 1.0])
    right = rows.groupby(["onto", "strength"])["correct"].mean()
    assert right[REFERENCE, 1.0] == 1
    assert right[REFERENCE, 0.0] < 0.7 and right[RANDOM, 1.0] < 0.7


def test_head_masses_are_those_of_each_head(model, batches):
    rows = head_masses(model, batches)
    assert len(rows) == 10 * 4
    table = summarise(rows, ["layer", "head", "name"], "mass", whole="rows", beside=["uniform"])
    masses = []
    for batch in batches:
        with torch.no_grad():
            output = model(batch.input_ids, attention_mask=batch.attention_mask, output_attentions=True)
        attentions = stacked_attentions(output)
        masks = [mask[:, None, None].expand(attentions.shape) for mask in (batch.reference, batch.evaluated)]
        mass = reference_mass(attentions, *masks)
        masses.append(mass.permute(1, 2, 0, 3).flatten(2))
    by_hand = torch.cat(masses, 2).nanmean(2)
    for row in table.itertuples():
        assert row.value == pytest.approx(float(by_hand[row.layer, row.head]), abs=1e-6)
        assert row.name == f"L{row.layer}H{row.head}"
    assert len(table) == 4 and (table["n"] == 10).all()
    uniform = evaluate_rows(model, batches, follow=("mean attention",))["uniform attention"].mean()
    np.testing.assert_allclose(table["uniform"], uniform, atol=1e-6)


def test_batches_without_a_reference_are_refused(model, batches):
    bare = [Batch(b.input_ids, b.target_ids, b.attention_mask) for b in batches]
    for measure in (
        lambda: head_masses(model, bare),
        lambda: reinforcement_rows(model, bare, [(0, 0)], [1.0]),
    ):
        with pytest.raises(ValueError, match="the batches have no reference attention"):
            measure()
    empty = torch.zeros_like(batches[0].reference)
    none = Batch(
        batches[0].input_ids,
        batches[0].target_ids,
        batches[0].attention_mask,
        reference=empty,
        evaluated=batches[0].evaluated,
    )
    with pytest.raises(ValueError, match="no row of these batches has a reference key"):
        head_masses(model, [none])


def test_the_model_keeps_its_mode(model, batches):
    model.train()
    head_masses(model, batches)
    reinforcement_rows(model, batches, [(0, 0)], [1.0])
    assert model.training
    model.eval()
