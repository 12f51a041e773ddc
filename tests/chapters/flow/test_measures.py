"""What layers of attention agree with: against other routes to the same numbers, and the original's slips."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from attnlib.models import Transformer, TransformerConfig
from attnlib.rollout.core import rollout_by_definition
from book.chapters.flow.agreement import Sentence, SentenceTask, templates, vocabulary_of
from book.chapters.flow.figures import sentence_map
from book.chapters.flow.measures import (
    ANY_QUERY,
    DENSE,
    EARLIER,
    FLOW,
    GRADIENT,
    LAST_CLASS,
    OCCLUSION,
    OVER_NULL,
    RAW,
    ROLLOUT,
    SLIPS,
    SUMMED,
    WITH_CLS,
    WORDS,
    agreement_rows,
    dense_rank_correlation,
    gradient_size,
    occluded,
    subject_rows,
)

FOUND = templates(12, seed=4)
TASK = SentenceTask(vocabulary_of([*FOUND, *templates(300, seed=5)], more_than=0))


def transformer(norm="pre", causal=False):
    torch.manual_seed(0)
    config = TransformerConfig(
        len(TASK.vocabulary), 2, 3, 2, 16, causal=causal, positions="learned", norm=norm, max_length=40
    )
    model = Transformer(config).eval()
    with torch.no_grad():  # sharper attention than a fresh model's
        for layer in model.layers:
            layer.attention.qkv.weight.mul_(6)
    return model


def value(rows, **where):
    for name, wanted in where.items():
        rows = rows[rows[name] == wanted]
    return rows["value"].item()


# ---- against another route -------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_correlations_are_scipys_of_scores_made_one_by_one(causal):
    model, task = transformer(causal=causal).double(), SentenceTask(TASK.vocabulary, at_end=causal)
    rows = agreement_rows(model, task, FOUND)
    for number, sentence in enumerate(FOUND[:5]):
        ids = task.batch([sentence]).input_ids
        n, query = ids.shape[1], ids.shape[1] - 1 if causal else 0
        with torch.no_grad():
            output = model(ids, output_attentions=True)
        heads = output.attentions[0].mean(1)
        p = output.logits[0, query].softmax(-1)[sentence.label]
        changes, slopes = [], []
        for key in range(n):
            other = ids.clone()
            other[0, key] = task.vocabulary.ids["<unk>"]
            with torch.no_grad():
                changes.append(float(abs(model(other).logits[0, query].softmax(-1)[sentence.label] - p)))
        table = model.embedding(ids).detach().requires_grad_()
        hook = model.embedding.register_forward_hook(lambda *_, table=table: table)
        model(ids).logits[0, query, sentence.label].backward()
        hook.remove()
        slopes = table.grad[0].norm(dim=-1)
        rolled = rollout_by_definition(output.attentions.unbind(1))[0]
        for layer in range(3):
            scores = {RAW: heads[layer, query], ROLLOUT: rolled[layer, query]}
            for way, score in scores.items():
                for relevance, wanted in ((OCCLUSION, changes), (GRADIENT, slopes)):
                    for items, start in ((WORDS, 1), (WITH_CLS, 0)):
                        expected = stats.spearmanr(score[start:], np.asarray(wanted)[start:]).statistic
                        where = {"way": way, "relevance": relevance, "items": items}
                        found = value(rows, sentence=number, layer=layer + 1, **where)
                        assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_one_layers_flow_is_its_rollout_and_no_way_knows_another_sentence():
    rows = agreement_rows(transformer(), TASK, FOUND)
    first = rows[rows["layer"] == 1].pivot_table(
        index=["sentence", "relevance", "items"], columns="way", values="value"
    )
    np.testing.assert_allclose(first[FLOW], first[ROLLOUT])
    alone = agreement_rows(transformer(), TASK, [FOUND[7]])
    together = rows[rows["sentence"] == 7].reset_index(drop=True)
    np.testing.assert_allclose(alone["value"], together["value"])
    assert len(rows) == len(FOUND) * 2 * 2 * (3 * 3 + 1)


def test_words_that_are_unknown_already_are_left_out():
    words = ("the", "<unk>", "near", "the", "doors")
    rows = agreement_rows(transformer(), TASK, [Sentence(words, 1)], ways=[RAW])
    ids = TASK.batch([Sentence(words, 1)]).input_ids
    with torch.no_grad():
        attention = transformer()(ids, output_attentions=True).attentions[0, 2].mean(0)[0]
    relevance = occluded(transformer(), ids, 0, torch.tensor([1]), TASK.vocabulary.ids["<unk>"])[0]
    kept = [1, 3, 4, 5]
    expected = stats.spearmanr(attention[kept], relevance[kept]).statistic
    assert value(rows, way=RAW, layer=3, relevance=OCCLUSION, items=WORDS) == pytest.approx(expected)


def test_over_null_divides_by_the_receptive_field_and_needs_a_model_that_looks_back():
    task = SentenceTask(TASK.vocabulary, at_end=True)
    rows = agreement_rows(transformer(causal=True), task, FOUND, ways=[ROLLOUT, OVER_NULL])
    both = rows[rows["layer"] == 3].pivot_table(index="sentence", columns="way", values="value")
    assert not np.allclose(both[ROLLOUT], both[OVER_NULL], equal_nan=True)


# ---- the original's slips --------------------------------------------------------------------------------


def original(x, y):
    """What the authors' code calls spearmanr."""
    ranks = [pd.Series(each).rank(method="dense") for each in (x, y)]
    n = len(x)
    return 1 - 6 * ((ranks[0] - ranks[1]) ** 2).sum() / (n * (n**2 - 1))


@settings(max_examples=60)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=9),
    padding=st.integers(0, 3),
)
def test_dense_ranks_are_the_originals(pairs, padding):
    x, y = np.array(pairs, dtype=float).T
    mask = np.arange(len(x) + padding) < len(x)
    wide = [np.concatenate([each, np.full(padding, 99.0)])[None] for each in (x, y)]
    found = dense_rank_correlation(*wide, mask[None])
    assert found.item() == pytest.approx(original(x, y))
    assert dense_rank_correlation(wide[0], np.stack([wide[1], wide[0]]), mask[None])[1, 0] == pytest.approx(1)


def test_without_ties_dense_ranks_change_nothing_and_a_constant_gets_what_it_should_not():
    x = np.array([[0.1, 0.7, 0.3, 0.9]])
    all_of_it = np.ones_like(x, bool)
    assert dense_rank_correlation(x, -x, all_of_it).item() == pytest.approx(-1)
    assert dense_rank_correlation(x, np.ones_like(x), all_of_it).item() == pytest.approx(-0.4)
    assert np.isnan(dense_rank_correlation(x[:, :1], x[:, :1], all_of_it[:, :1])).all()


def test_every_slip_moves_what_it_should_and_nothing_else():
    model = transformer(norm="post")
    plain = agreement_rows(model, TASK, FOUND[:6])
    by = {
        slip: agreement_rows(model, TASK, FOUND[:6], slips=[slip])["value"] - plain["value"] for slip in SLIPS
    }
    moved = {slip: change.fillna(0).abs() > 1e-9 for slip, change in by.items()}
    gradient = plain["relevance"] == GRADIENT
    for slip in (LAST_CLASS, SUMMED):
        assert moved[slip][gradient].any() and not moved[slip][~gradient].any()
    assert moved[ANY_QUERY].any() and not moved[ANY_QUERY][plain["way"] == EARLIER].any()
    singular = plain["sentence"].map(lambda place: FOUND[place].label == 0)
    assert not moved[LAST_CLASS][~singular].any()
    assert not moved[DENSE][plain["way"] == EARLIER].any()  # no two words are at one place


def test_the_sum_of_a_gradient_is_nothing_in_a_model_that_normalises_first():
    ids, label = TASK.batch([FOUND[0]]).input_ids, torch.tensor([1])
    for norm, nothing in (("pre", True), ("post", False)):
        sizes = gradient_size(transformer(norm), ids, 0, label)
        sums = gradient_size(transformer(norm), ids, 0, label, summed=True)
        assert bool((sums < 1e-4 * sizes).all()) == nothing


# ---- subjects, and one sentence --------------------------------------------------------------------------


class Finds(nn.Module):
    """Looks at the token of a given id in every layer, and predicts from its embedding's sign."""

    def __init__(self, wanted):
        super().__init__()
        self.wanted, self.embedding = wanted, nn.Embedding(len(TASK.vocabulary), 4)

    def forward(self, input_ids, attention_mask=None, output_attentions=False):
        vectors, there = self.embedding(input_ids), (input_ids == self.wanted).float()
        n = input_ids.shape[1]
        seen = (there[..., None] * vectors).sum(1)
        logits = torch.stack([seen.sum(-1), -seen.sum(-1)], -1)[:, None].expand(-1, n, -1)
        attention = there[:, None, None, None].expand(-1, 2, 1, n, -1)
        return type("Output", (), {"logits": logits, "attentions": attention})


def test_a_model_that_looks_at_the_subject_names_it_in_every_way():
    sentence = Sentence(("the", "doors", "near", "the", "table"), 1, 1, 1)
    rows = subject_rows(Finds(TASK.vocabulary.ids["doors"]), TASK, [sentence])
    assert set(rows["way"]) == {RAW, ROLLOUT, FLOW, EARLIER, OCCLUSION, GRADIENT}
    assert rows[rows["way"] != EARLIER]["found"].all()
    assert not rows[rows["way"] == EARLIER]["found"].any()
    assert (rows["chance"] == 1 / 5).all()
    elsewhere = subject_rows(Finds(TASK.vocabulary.ids["table"]), TASK, [sentence])
    assert not elsewhere["found"].any()


def test_one_sentence_in_all_ways():
    ways, rows, predicted = sentence_map(transformer(), TASK, FOUND[0])
    assert ways[:4] == ["raw attention 1", "raw attention 2", "raw attention 3", "rollout 1"]
    assert ways[-2:] == [OCCLUSION, GRADIENT]
    assert rows.shape == (11, len(FOUND[0].words) + 1)
    assert (rows.amax(1) == 1).all()
    batch = TASK.batch([FOUND[0]])
    assert predicted == int(transformer()(batch.input_ids).logits[0, 0].argmax())
