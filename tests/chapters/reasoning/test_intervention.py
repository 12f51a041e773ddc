"""Pushing attention in evaluation: what is counted is what the model said."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import task
from attnlib.generators.base import IGNORE, Batch
from attnlib.measures import evaluate_rows
from attnlib.models import CausalSizes
from attnlib.models.attention import reinforced
from attnlib.models.attention.changes import causal_null
from attnlib.stats import reference_mass, summarise
from attnlib.training.objectives import stacked_attentions
from book.chapters.reasoning.measures import RANDOM, REFERENCE, head_masses, reinforcement_rows

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
    """Onto the reference, or onto as many keys at random, others in every batch."""
    rows = reinforcement_rows(model, batches, [(1, 0)], [1.0])
    wanted = {REFERENCE: [], RANDOM: []}
    for number, batch in enumerate(batches):
        for onto, keys in {REFERENCE: batch.reference, RANDOM: causal_null(batch.reference, number)}.items():
            with torch.no_grad(), reinforced(model, [(1, 0)], keys, 1.0):
                logits = model(batch.input_ids, attention_mask=batch.attention_mask).logits
            wanted[onto] += logits.argmax(-1)[batch.target_ids != IGNORE].tolist()
    assert {onto: rows.loc[rows["onto"] == onto, "predicted"].tolist() for onto in wanted} == wanted
    assert wanted[REFERENCE] != wanted[RANDOM]


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
    with pytest.raises(ValueError, match="the batches have no reference attention"):
        head_masses(model, bare)
    none = replace(batches[0], reference=torch.zeros_like(batches[0].reference))
    with pytest.raises(ValueError, match="no row of these batches has a reference key"):
        head_masses(model, [none])
