"""Attention by kind of key: where it is, and what a model predicts when it is shared out otherwise."""

import pytest
import torch

from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import task
from attnlib.measures import evaluate_rows
from attnlib.models import CausalSizes
from book.chapters.reasoning.measures import KINDS, key_kinds, kind_shares, shared_out, shared_rows

torch.set_num_threads(1)
TOKENIZER = char_tokenizer()
SIZES = CausalSizes(n_layers=2, n_heads=2, width=16, max_length=64)


def generator(**settings):
    return task("string_reversal", TOKENIZER, **({"length": (2, 5)} | settings))


def batches(n=6, **settings):
    g = generator(**settings)
    return g.in_batches(g.samples(n), 3)


@pytest.mark.parametrize("name", ["string_reversal", "successor", "value_assignment"])
def test_every_key_that_a_query_sees_is_of_one_kind(name):
    g = task(name, TOKENIZER, length=(2, 4))
    batch = g.batch(g.samples(5))
    kinds = key_kinds(batch)
    seen = torch.ones_like(batch.reference).tril() & batch.attention_mask[:, None]
    assert kinds.sum(0).equal(seen.int()) and len(kinds) == len(KINDS)


def test_kinds_of_a_text_by_hand():
    g = generator()
    sample = g.annotate("ab=ba")
    tokens = TOKENIZER.convert_ids_to_tokens(sample.input_ids.tolist())
    kinds = key_kinds(g.batch([sample]))[:, 0]
    query = len(tokens) - 2  # it predicts the last "a", and is the answer's "b"
    assert tokens[query] == "b"
    named = [[tokens[key] for key in torch.nonzero(kind[query])[:, 0].tolist()] for kind in kinds]
    assert named[0] == ["a"] and named[1] == ["b", "="] and named[2] == ["b"]
    assert len(named[3]) == query + 1 - 4


@pytest.mark.parametrize("kind", ["transformer", "llama"])
def test_shared_out_attention_is_what_was_asked_for(kind):
    model = SIZES.build(kind, TOKENIZER, 0).eval()
    (batch, *_) = batches()
    kinds = key_kinds(batch)
    queries = kinds[0].any(-1)
    shares = torch.rand(2, 2, len(KINDS), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        before = stacked(model(**batch.inputs, output_attentions=True))
        with shared_out(model, [(0, 1), (1, 0)], kinds, queries, shares):
            after = stacked(model(**batch.inputs, output_attentions=True))
    each = torch.stack([(after[:, 0, 1] * kind).sum(-1) for kind in kinds], -1)[queries]
    there = kinds.any(-1).permute(1, 2, 0)[queries]
    wanted = shares[0, 1] * there
    torch.testing.assert_close(each, wanted / wanted.sum(-1, keepdim=True))
    torch.testing.assert_close(after.sum(-1), before.sum(-1))
    torch.testing.assert_close(after[:, 0, 0], before[:, 0, 0])
    torch.testing.assert_close(after[:, 0, 1][~queries], before[:, 0, 1][~queries])


def test_the_shares_that_a_model_has_are_found_again():
    model = SIZES.build("transformer", TOKENIZER, 0).eval()
    tests = batches(length=(4, 4))
    shares = torch.zeros(2, 2, len(KINDS), dtype=torch.float64)
    shares[..., 0], shares[..., 1] = 0.75, 0.25  # there is a rest of the question for every query
    found = []
    for batch in tests:
        kinds = key_kinds(batch)
        with shared_out(model, None, kinds, kinds[0].any(-1), shares):
            found.append(kind_shares(model, [batch]))
    torch.testing.assert_close(torch.stack(found).mean(0), shares, atol=1e-6, rtol=1e-6)
    assert kind_shares(model, tests).sum(-1).sub(1).abs().max() < 1e-5


def test_rows_are_those_of_the_model_under_the_change():
    model = SIZES.build("transformer", TOKENIZER, 0).eval()
    tests = batches()
    rows = shared_rows(model, tests, [], torch.zeros(2, 2, len(KINDS)))
    alone = evaluate_rows(model, tests, follow=())
    assert rows[list(rows.columns)].equals(alone[list(rows.columns)])
    shares = torch.zeros(2, 2, len(KINDS))
    shares[..., 3] = 1.0
    other = shared_rows(model, tests, None, shares)
    assert len(other) == len(alone) and not other["predicted"].equals(alone["predicted"])


def test_a_batch_that_does_not_fit_is_refused():
    model = SIZES.build("transformer", TOKENIZER, 0).eval()
    (first, second) = batches(length=(2, 2), n=4)
    kinds = key_kinds(first)
    with (
        pytest.raises(ValueError, match="kinds are of 3 sequences"),
        shared_out(model, None, kinds, kinds[0].any(-1), torch.ones(2, 2, len(KINDS))),
    ):
        model(**second.inputs)


def stacked(output):
    return output.attentions if torch.is_tensor(output.attentions) else torch.stack(output.attentions, 1)
